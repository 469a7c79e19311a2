package local

import (
	"log/slog"
	"strconv"
	"testing"

	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/testdata"
)

// TestDefaultWeightsAreNearTheBest holds the default fusion weight of each model to what any other weight reaches, in the
// mean of labelled sets: it is on a plateau, so a change of retrievers or scores that moves the plateau fails here.
func TestDefaultWeightsAreNearTheBest(t *testing.T) {
	for model, sets := range map[string][]string{
		embed.Static256: {"product-docs", "code-chunks"},
		embed.MiniLM:    {"product-docs"},
	} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			sums := make([]float64, 6) // by fifths of denseWeight
			chosen := 0.0
			for _, name := range sets {
				stack, set := openShared(t, name, model)
				for fifth := range sums {
					sums[fifth] += hybridNDCG(t, stack, set, strconv.FormatFloat(float64(fifth)/5, 'f', 1, 64))
				}
				chosen += hybridNDCG(t, stack, set, "")
			}
			for fifth, sum := range sums {
				if n := float64(len(sets)); sum/n > chosen/n+0.01 {
					t.Errorf("denseWeight %.1f reaches nDCG@10 %.4f in the mean, the default %.4f", float64(fifth)/5, sum/n, chosen/n)
				}
			}
		})
	}
}

func openShared(t *testing.T, name, model string) (*Stack, Set) {
	t.Helper()
	set, err := ReadBEIR(t.Context(), testdata.Shared(t, "data/"+name))
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := ReadBEIRRecipe("")
	if err != nil {
		t.Fatal(err)
	}
	recipe.Indexing.Embedding.Model = model
	stack, err := set.Open(t.Context(), t.TempDir(), recipe, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	return stack, set
}

// hybridNDCG of the default weight where weight is empty.
func hybridNDCG(t *testing.T, stack *Stack, set Set, weight string) float64 {
	t.Helper()
	retrieval := stack.Recipe().Retrieval
	retrieval.Fusion.DenseWeight = weight
	varied, err := stack.Vary(t.Context(), stack.Recipe().Indexing.BM25, retrieval)
	if err != nil {
		t.Fatal(err)
	}
	report, err := varied.Measure(t.Context(), set, Hybrid, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range report.Metrics {
		if m.Name == eval.NDCG && m.K == 10 {
			return m.Value
		}
	}
	t.Fatal("nDCG@10 was not measured")
	return 0
}
