package tune

import (
	"slices"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

func baseline() Recipe {
	var r Recipe
	r.Indexing.Chunking = v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkStructure, Unit: v1alpha1.ChunkTokens, Size: 256, Overlap: 32}
	r.Indexing.Context.Type = v1alpha1.ContextHeading
	r.Indexing.Embedding = v1alpha1.EmbeddingSpec{Type: v1alpha1.EmbeddingBuiltin, Model: embed.MiniLM}
	r.Indexing.BM25.Analyzer = "english"
	return r
}

var bothModels = []string{embed.MiniLM, embed.Static256}

// carryOut walks a plan whose recipes score what score says, and returns the steps.
func carryOut(t *testing.T, p Plan, score func(Recipe) float64) []Step {
	t.Helper()
	scores := Scores{}
	for range 10 {
		steps, done := p.Next(scores)
		if done {
			return steps
		}
		for _, s := range steps {
			scores[s.Recipe.Key()] = score(s.Recipe)
		}
	}
	t.Fatal("the plan does not end")
	return nil
}

func TestPlanFindsTheBestOfEachField(t *testing.T) {
	p := Plan{Baseline: baseline(), Grid: DefaultGrid(true, bothModels)}
	want := []string{"Sentence 128/16", "context None", embed.MiniLM, "dense 0.7", "k1 1.2 b 0.75", "LateInteraction minilm-l6-v2 20 dense 0.6"}
	good := func(r Recipe) (score float64) {
		for i, f := range r.fields() {
			if f == want[i] {
				score++
			}
		}
		return score
	}
	steps := carryOut(t, p, good)
	best := slices.MaxFunc(steps, func(a, b Step) int { return int(good(a.Recipe) - good(b.Recipe)) })
	if got := best.Recipe.fields(); !slices.Equal(got[:], want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if len(steps) > p.Bound() || len(steps) < p.Bound()-15 {
		t.Errorf("%d trials, with a bound of %d", len(steps), p.Bound())
	}
	if steps[0].Stage != StageBaseline || steps[0].Recipe.Key() != p.Baseline.Key() {
		t.Errorf("the first step is %+v", steps[0])
	}
}

func TestPlanIsCheap(t *testing.T) {
	p := Plan{Baseline: baseline(), Grid: DefaultGrid(true, bothModels)}
	steps := carryOut(t, p, func(Recipe) float64 { return 0.5 })
	seen, indexes, dear, changes := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for i, s := range steps {
		if seen[s.Recipe.Key()] {
			t.Errorf("step %d is tried twice: %s", i, s.Recipe.Describe())
		}
		seen[s.Recipe.Key()], indexes[s.Recipe.IndexKey()] = true, true
		if s.Recipe.Indexing.Embedding.Model == embed.MiniLM {
			dear[s.Recipe.IndexKey()] = true
		}
		if i > 0 && s.Recipe.IndexKey() != steps[i-1].Recipe.IndexKey() {
			changes++
		}
	}
	if len(dear) > keep+1 {
		t.Errorf("%d indexes by the dear model, want at most %d of %d", len(dear), keep+1, len(indexes))
	}
	// Each index once in the stages that build it, and once per model in each of the three that only ask.
	if most := len(indexes) + 3*len(bothModels); changes > most {
		t.Errorf("the index changes %d times, want at most %d for %d indexes", changes, most, len(indexes))
	}
}

// What the API refuses is never proposed, also not where it comes from the baseline.
func TestPlanProposesOnlyWhatTheAPITakes(t *testing.T) {
	p := Plan{Baseline: baseline(), Grid: DefaultGrid(false, bothModels)}
	p.Baseline.Indexing.Embedding.Model = embed.Static256
	p.Baseline.Retrieval.Rerank = v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}
	reranked := 0
	for _, s := range carryOut(t, p, func(Recipe) float64 { return 0.5 }) {
		r := s.Recipe
		if r.reranks() {
			reranked++
		}
		if r.Retrieval.Rerank.Type == v1alpha1.RerankBuiltin && r.Indexing.Embedding.Model == embed.MiniLM {
			t.Errorf("proposed %s", r.Describe())
		}
	}
	if reranked != 3 { // Builtin on static-256, LateInteraction on both
		t.Errorf("%d trials rerank, want 3", reranked)
	}
}

func TestEmptyGridTriesTheBaselineAlone(t *testing.T) {
	if steps := carryOut(t, Plan{Baseline: baseline()}, func(Recipe) float64 { return 1 }); len(steps) != 1 {
		t.Errorf("%d trials: %+v", len(steps), steps)
	}
}

func TestKey(t *testing.T) {
	a, b := baseline(), baseline()
	b.Retrieval.Fusion.DenseWeight, b.Indexing.BM25.K1, b.Retrieval.TopK = "0.50", "0.90", 10
	if a.Key() != b.Key() || a.IndexKey() != b.IndexKey() || len(a.Changes(b)) != 0 {
		t.Errorf("what the defaults say is another recipe: %q", b.Changes(a))
	}
	a.Retrieval.Rerank.Type, b.Retrieval.Rerank = v1alpha1.RerankLateInteraction, v1alpha1.RerankSpec{
		Type: v1alpha1.RerankLateInteraction, Model: embed.MiniLM, Candidates: 20, DenseWeight: "0.6"}
	if a.Key() != b.Key() {
		t.Errorf("the defaults of LateInteraction are another recipe: %q", b.Changes(a))
	}
	b.Indexing.BM25.K1 = "1.2"
	if a.Key() == b.Key() || a.IndexKey() != b.IndexKey() || !slices.Equal(b.Changes(a), []string{"k1 1.2 b 0.4"}) {
		t.Errorf("k1 makes another recipe of the same index; changes %q", b.Changes(a))
	}
	b.Indexing.Context.Type = v1alpha1.ContextNone
	if a.IndexKey() == b.IndexKey() {
		t.Error("another context is the same index")
	}
}
