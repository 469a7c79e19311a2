// Package rerank scores passages against a question once more: with a model inside the image, or with a server. It knows
// nothing of callers and access: what it is given, its caller may show.
package rerank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

const (
	// MaxPassages are scored at once.
	MaxPassages = 100
	// MaxText bounds a passage and a question, in bytes: some 4,000 tokens, more than the models that rerank look at.
	MaxText = 16 << 10
	// MaxScore bounds the magnitude of a score: a model's are far smaller, and sums of such are still exact to the 9th digit.
	MaxScore = 1e6

	// Late interaction costs most, and finds nearly all it can among the first.
	defaultCandidates, defaultLateCandidates = 50, 20
	// Measured best: docs/quality.md.
	defaultDenseWeight, defaultLateWeight = 0.5, 0.6
)

// Scorer scores passages, one finite score each, in their order; greater is better. Equal questions and passages get
// equal scores, whatever was asked before. It is safe for concurrent use. The error is a *Failure where the question or
// its passages are not at fault.
type Scorer interface {
	Score(ctx context.Context, query string, passages []string) ([]float64, error)
}

// Recipe is what a RerankSpec says, its defaults filled in.
type Recipe struct {
	Type v1alpha1.RerankType
	// Model inside the image, for Builtin and LateInteraction.
	Model string
	// Candidates are the best fused passages that are scored, 1 to MaxPassages.
	Candidates int
	// DenseWeight is the share of the score beside that of BM25, 0 to 1. An endpoint's score stands alone.
	DenseWeight float64
}

// ParseRecipe checks spec. The error names the field, its value and what would be right.
func ParseRecipe(spec v1alpha1.RerankSpec) (Recipe, error) {
	r := Recipe{Type: cmp.Or(spec.Type, v1alpha1.RerankNone), Candidates: cmp.Or(int(spec.Candidates), defaultCandidates), DenseWeight: 1}
	switch r.Type {
	case v1alpha1.RerankNone:
		return r, nil
	case v1alpha1.RerankBuiltin, v1alpha1.RerankLateInteraction:
		r.Model = cmp.Or(spec.Model, embed.DefaultModel)
		if _, err := embed.Describe(r.Model); err != nil {
			return r, fmt.Errorf("rerank: %w", err)
		}
		r.DenseWeight = defaultDenseWeight
		if r.Type == v1alpha1.RerankLateInteraction {
			r.DenseWeight, r.Candidates = defaultLateWeight, cmp.Or(int(spec.Candidates), defaultLateCandidates)
		}
		if spec.DenseWeight != "" {
			w, err := strconv.ParseFloat(spec.DenseWeight, 64)
			if err != nil || !(w >= 0 && w <= 1) {
				return r, fmt.Errorf("rerank.denseWeight is %q: use a decimal from 0 to 1", spec.DenseWeight)
			}
			r.DenseWeight = w
		}
	case v1alpha1.RerankTypeEndpoint:
		if spec.Endpoint == nil {
			return r, fmt.Errorf("rerank.endpoint is missing: name the server")
		}
	default:
		return r, fmt.Errorf("rerank.type is %q: use None, Builtin, LateInteraction or Endpoint", spec.Type)
	}
	if r.Candidates < 1 || r.Candidates > MaxPassages {
		return r, fmt.Errorf("rerank.candidates is %d: use 1 to %d", r.Candidates, MaxPassages)
	}
	return r, nil
}

// On tells whether anything is reranked.
func (r Recipe) On() bool { return r.Type != v1alpha1.RerankNone }

// NeedsBM25 tells whether the final score mixes in that of BM25.
func (r Recipe) NeedsBM25() bool {
	return r.Type == v1alpha1.RerankBuiltin || r.Type == v1alpha1.RerankLateInteraction
}

// Options of New. The zero value does for the models inside the image.
type Options struct {
	// KeyFile holds the API key of an endpoint, and is read whenever it is asked, because a mounted Secret may change.
	KeyFile string
	// CAFile holds certificates to trust instead of the system's.
	CAFile string
	// Metrics may be nil.
	Metrics *Metrics
}

// New returns the Scorer that spec asks for.
func New(spec v1alpha1.RerankSpec, o Options) (Scorer, error) {
	r, err := ParseRecipe(spec)
	if err != nil {
		return nil, err
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	switch r.Type {
	case v1alpha1.RerankNone:
		return nil, fmt.Errorf("rerank.type is %s: there is nothing to score with", r.Type)
	case v1alpha1.RerankTypeEndpoint:
		return NewEndpoint(*spec.Endpoint, o)
	}
	encoder, err := embed.Builtin(r.Model)
	if err != nil {
		return nil, fmt.Errorf("rerank: %w", err)
	}
	if r.Type == v1alpha1.RerankBuiltin {
		return NewBuiltin(encoder, o.Metrics), nil
	}
	tokens, ok := encoder.(embed.TokenEncoder)
	if !ok {
		return nil, fmt.Errorf("rerank.model is %q: it has no token vectors, use another", r.Model)
	}
	return NewLateInteraction(tokens, o.Metrics), nil
}

// Clip cuts a text to MaxText bytes, between two characters.
func Clip(text string) string {
	if len(text) <= MaxText {
		return text
	}
	end := MaxText
	for end > MaxText-utf8.UTFMax+1 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Check tells whether these are the scores of n passages.
func Check(scores []float64, n int) error {
	if len(scores) != n {
		return fmt.Errorf("%d scores for %d passages", len(scores), n)
	}
	for _, s := range scores {
		if math.IsNaN(s) || math.Abs(s) > MaxScore {
			return fmt.Errorf("a score is %v: it must be a number from %v to %v", s, -MaxScore, MaxScore)
		}
	}
	return nil
}
