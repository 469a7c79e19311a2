package tune

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

// Grid holds the alternatives per field of a recipe. A field that a grid file leaves out has the default alternatives;
// an empty list keeps what the recipe says.
type Grid struct {
	Chunking []v1alpha1.ChunkingSpec `json:"chunking"`
	Context  []v1alpha1.ContextType  `json:"context"`
	// Models are names of builtin models.
	Models []string              `json:"models"`
	Fusion []v1alpha1.FusionSpec `json:"fusion"`
	// BM25 alternatives take what they leave out from the recipe.
	BM25   []v1alpha1.BM25Spec   `json:"bm25"`
	Rerank []v1alpha1.RerankSpec `json:"rerank"`
}

// DefaultGrid is what is tried without a grid file. whole adds one chunk per document, for sets that label documents:
// where quotes are labelled a whole document would always hold them, at the price of a context that nobody can afford.
// models are those that this binary holds.
func DefaultGrid(whole bool, models []string) Grid {
	g := Grid{Context: []v1alpha1.ContextType{v1alpha1.ContextNone, v1alpha1.ContextHeading}, Models: models}
	if whole {
		g.Chunking = append(g.Chunking, v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkWhole})
	}
	for _, c := range []struct {
		strategy      v1alpha1.ChunkStrategy
		size, overlap int32
	}{
		{v1alpha1.ChunkStructure, 128, 16}, {v1alpha1.ChunkStructure, 256, 32}, {v1alpha1.ChunkStructure, 512, 64},
		{v1alpha1.ChunkSentence, 128, 16}, {v1alpha1.ChunkSentence, 256, 32}, {v1alpha1.ChunkFixed, 256, 32},
	} {
		g.Chunking = append(g.Chunking, v1alpha1.ChunkingSpec{Strategy: c.strategy, Size: c.size, Overlap: c.overlap})
	}
	for tenths := range 11 {
		g.Fusion = append(g.Fusion, v1alpha1.FusionSpec{DenseWeight: strconv.FormatFloat(float64(tenths)/10, 'f', -1, 64)})
	}
	g.Fusion = append(g.Fusion, v1alpha1.FusionSpec{Type: v1alpha1.FusionReciprocalRank})
	for _, k1 := range []string{"0.6", "0.9", "1.2", "1.6"} {
		for _, b := range []string{"0.4", "0.75"} {
			g.BM25 = append(g.BM25, v1alpha1.BM25Spec{K1: k1, B: b})
		}
	}
	g.Rerank = []v1alpha1.RerankSpec{{Type: v1alpha1.RerankNone}}
	if slices.Contains(models, embed.MiniLM) {
		g.Rerank = append(g.Rerank, v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin, Model: embed.MiniLM},
			v1alpha1.RerankSpec{Type: v1alpha1.RerankLateInteraction, Model: embed.MiniLM})
	}
	return g
}

// ReadGrid reads a grid file. What it leaves out is taken from fallback; models are those that this binary holds.
func ReadGrid(data []byte, fallback Grid, models []string) (Grid, error) {
	var g Grid
	if err := yaml.UnmarshalStrict(data, &g); err != nil {
		return g, fmt.Errorf("%w: its fields are chunking, context, models, fusion, bm25 and rerank, each a list", err)
	}
	if g.Chunking == nil {
		g.Chunking = fallback.Chunking
	}
	if g.Context == nil {
		g.Context = fallback.Context
	}
	if g.Models == nil {
		g.Models = fallback.Models
	}
	if g.Fusion == nil {
		g.Fusion = fallback.Fusion
	}
	if g.BM25 == nil {
		g.BM25 = fallback.BM25
	}
	if g.Rerank == nil {
		g.Rerank = fallback.Rerank
	}
	return g, g.check(models)
}

// check reports every fault, so that none of them ends a run after an hour.
func (g Grid) check(models []string) error {
	var faults []error
	add := func(list string, i int, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s[%d].%w", list, i, err))
		}
	}
	for i, c := range g.Chunking {
		add("chunking", i, checkChunking(c))
	}
	for i, c := range g.Context {
		add("context", i, oneOf("type", c, v1alpha1.ContextNone, v1alpha1.ContextHeading))
	}
	for i, m := range g.Models {
		add("models", i, oneOf("name", m, models...))
	}
	for i, f := range g.Fusion {
		add("fusion", i, checkFusion(f))
	}
	for i, b := range g.BM25 {
		add("bm25", i, cmp.Or(checkDecimal("k1", b.K1, 9.9999), checkDecimal("b", b.B, 1)))
	}
	for i, r := range g.Rerank {
		add("rerank", i, checkRerank(r, models))
	}
	return errors.Join(faults...)
}

func checkChunking(c v1alpha1.ChunkingSpec) error {
	err := oneOf("strategy", c.Strategy, v1alpha1.ChunkWhole, v1alpha1.ChunkFixed, v1alpha1.ChunkSentence, v1alpha1.ChunkStructure)
	switch {
	case err != nil || c.Strategy == v1alpha1.ChunkWhole:
		return err
	case c.Size < 16 || c.Size > 8192:
		return fmt.Errorf("size is %d: use 16 to 8192 tokens", c.Size)
	case c.Overlap < 0 || c.Overlap >= c.Size:
		return fmt.Errorf("overlap is %d: use 0 to less than the size, %d", c.Overlap, c.Size)
	}
	return nil
}

func checkFusion(f v1alpha1.FusionSpec) error {
	if err := oneOf("type", cmp.Or(f.Type, v1alpha1.FusionWeightedScore), v1alpha1.FusionWeightedScore, v1alpha1.FusionReciprocalRank); err != nil {
		return err
	}
	if f.ReciprocalRank == nil {
		return checkDecimal("denseWeight", f.DenseWeight, 1)
	}
	if f.Type != v1alpha1.FusionReciprocalRank {
		return fmt.Errorf("reciprocalRank is set although type is %q: remove it, or set type to %s", f.Type, v1alpha1.FusionReciprocalRank)
	}
	if k := f.ReciprocalRank.K; k < 0 || k > 1000 {
		return fmt.Errorf("reciprocalRank.k is %d: use 1 to 1000", k)
	}
	w := f.ReciprocalRank.Weights
	return cmp.Or(checkDecimal("reciprocalRank.weights.bm25", w.BM25, 9.9999), checkDecimal("reciprocalRank.weights.hnsw", w.HNSW, 9.9999))
}

func checkRerank(r v1alpha1.RerankSpec, models []string) error {
	if err := oneOf("type", r.Type, v1alpha1.RerankNone, v1alpha1.RerankBuiltin, v1alpha1.RerankLateInteraction); err != nil {
		return err
	}
	if r.Type == v1alpha1.RerankNone {
		if r != (v1alpha1.RerankSpec{Type: v1alpha1.RerankNone}) {
			return fmt.Errorf("type is None, with other fields beside it: remove them, or choose Builtin or LateInteraction")
		}
		return nil
	}
	if r.Candidates < 0 || r.Candidates > 100 {
		return fmt.Errorf("candidates is %d: use 1 to 100", r.Candidates)
	}
	return cmp.Or(oneOf("model", cmp.Or(r.Model, embed.DefaultModel), models...), checkDecimal("denseWeight", r.DenseWeight, 1))
}

func oneOf[T ~string](field string, value T, known ...T) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%s is %q: use one of %q", field, value, known)
}

// decimalPattern is that of the API.
var decimalPattern = regexp.MustCompile(`^[0-9]([.][0-9]{1,4})?$`)

// checkDecimal lets absent values pass.
func checkDecimal(field, text string, most float64) error {
	if text == "" {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v > most || !decimalPattern.MatchString(text) {
		return fmt.Errorf("%s is %q: use a decimal string from 0 to %v, with at most 4 digits after the point", field, text, most)
	}
	return nil
}
