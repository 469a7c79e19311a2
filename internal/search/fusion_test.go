package search

import (
	"math"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/segment"
)

func TestFusionScores(t *testing.T) {
	weighted, err := newFusion(v1alpha1.FusionSpec{DenseWeight: "0.5"}, embed.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	ranks, err := newFusion(v1alpha1.FusionSpec{Type: v1alpha1.FusionReciprocalRank, ReciprocalRank: &v1alpha1.ReciprocalRankSpec{
		K: 10, Weights: v1alpha1.ReciprocalRankWeights{BM25: "2", HNSW: "0.5"}}}, embed.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	floored := fusion{kind: v1alpha1.FusionWeightedScore, denseWeight: 0.5, floor: 0.7}
	for name, c := range map[string]struct {
		f     fusion
		c     candidate
		bound float64
		want  float64
	}{
		"both":               {weighted, candidate{scores: Scores{BM25: 3, HNSW: 0.4}}, 6, 0.45},
		"no term anywhere":   {weighted, candidate{scores: Scores{HNSW: 0.4}}, 0, 0.2},
		"opposite vector":    {weighted, candidate{scores: Scores{BM25: 3, HNSW: -0.4}}, 6, 0.25},
		"floor":              {floored, candidate{scores: Scores{HNSW: 0.85}}, 1, 0.25},
		"below the floor":    {floored, candidate{scores: Scores{HNSW: 0.5}}, 1, 0},
		"reciprocal of both": {ranks, candidate{ranks: Ranks{BM25: 1, HNSW: 2}}, 6, 2.0/11 + 0.5/12},
		"reciprocal of one":  {ranks, candidate{ranks: Ranks{HNSW: 5}}, 6, 0.5 / 15},
	} {
		if got := c.f.score(c.c, c.bound); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBadFusion(t *testing.T) {
	for _, spec := range []v1alpha1.FusionSpec{
		{DenseWeight: "1.1"}, {DenseWeight: "-0.1"}, {DenseWeight: "NaN"}, {DenseWeight: "half"}, {Type: "Max"},
		{ReciprocalRank: &v1alpha1.ReciprocalRankSpec{K: -1}},
		{ReciprocalRank: &v1alpha1.ReciprocalRankSpec{Weights: v1alpha1.ReciprocalRankWeights{BM25: "x"}}},
	} {
		if _, err := newFusion(spec, embed.Facts{}); err == nil || !strings.Contains(err.Error(), "fusion.") {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	var g Gateway
	builtin := v1alpha1.RetrievalSpec{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}}
	for name, err := range map[string]error{
		"reranker": g.SetRecipe(builtin, v1alpha1.EmbeddingSpec{}, Peers{BM25: "http://a", HNSW: "http://b"}),
		"peers":    g.SetRecipe(v1alpha1.RetrievalSpec{}, v1alpha1.EmbeddingSpec{}, Peers{HNSW: "http://b"}),
		"model":    g.SetRecipe(v1alpha1.RetrievalSpec{}, v1alpha1.EmbeddingSpec{Model: "bert"}, Peers{BM25: "http://a", HNSW: "http://b"}),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTies(t *testing.T) {
	hits := []located{
		{candidate{score: 1}, segment.Chunk{Document: "b", Ordinal: 0}},
		{candidate{score: 1}, segment.Chunk{Document: "a", Ordinal: 2}},
		{candidate{score: 2}, segment.Chunk{Document: "z", Ordinal: 9}},
		{candidate{score: 1}, segment.Chunk{Document: "a", Ordinal: 1}},
	}
	order(hits)
	var got []string
	for _, h := range hits {
		got = append(got, h.Document+string(rune('0'+h.Ordinal)))
	}
	if !slices.Equal(got, []string{"z9", "a1", "a2", "b0"}) {
		t.Errorf("order is %q", got)
	}
}
