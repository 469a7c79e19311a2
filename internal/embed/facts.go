package embed

import (
	"fmt"
	"strings"
)

// MiniLM is the name of the transformer of 384 dimensions, and what a recipe that names no model gets.
const (
	MiniLM       = "minilm-l6-v2"
	DefaultModel = MiniLM
)

// Facts say of a model what is known without loading it.
type Facts struct {
	Name       string
	Dimensions int
	// MaxTokens of a text reach its vector; 0: all.
	MaxTokens int
	// DenseWeight, 0 to 1, is the share of the vectors beside BM25 that was measured best (docs/quality.md). Floor is the
	// cosine of two texts that have nothing in common.
	DenseWeight, Floor float64
}

var facts = []Facts{
	{Name: MiniLM, Dimensions: 384, MaxTokens: 256, DenseWeight: 0.5},
	{Name: Static256, Dimensions: 256, DenseWeight: 0.3},
}

// Describe returns the facts of a builtin model.
func Describe(model string) (Facts, error) {
	names := make([]string, len(facts))
	for i, f := range facts {
		if f.Name == model {
			return f, nil
		}
		names[i] = f.Name
	}
	return Facts{}, fmt.Errorf("embedding.model: %q is unknown: use %s", model, strings.Join(names, " or "))
}
