package search

import (
	"math/rand/v2"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
)

// TestFusionDoesNotDependOnTheCut: whatever the retrievers' lists were cut to, each passage that was found has the score
// that it has over the whole corpus, and the answer is the best of all passages among those found.
func TestFusionDoesNotDependOnTheCut(t *testing.T) {
	checked, crossed := 0, 0
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 11))
		documents := openCorpus(t, rng, 40)
		whole := newStack(t, documents, v1alpha1.RetrievalSpec{Candidates: maxCandidates, TopK: MaxTopK})
		for _, candidates := range []int32{1, 2, 5, 17} {
			cut := newStack(t, documents, v1alpha1.RetrievalSpec{Candidates: candidates, TopK: candidates})
			for range 3 {
				query := randomText(rng)
				all, found := whole.answerOf(t, query, MaxTopK), cut.answerOf(t, query, int(candidates))
				order := map[string]int{}
				for i, h := range all.Hits {
					order[h.Text] = i
				}
				last := -1
				for _, h := range found.Hits {
					i, ok := order[h.Text]
					if !ok || all.Hits[i].Score != h.Score || *all.Hits[i].Scores != *h.Scores || i <= last {
						t.Fatalf("seed %d, %d candidates, %q: %q has score %v, place %d after %d; over the whole corpus %v",
							seed, candidates, query, h.Text, h.Score, i, last, all.Hits[i].Score)
					}
					last = i
					checked++
					if h.Ranks.BM25 == 0 || h.Ranks.HNSW == 0 {
						crossed++
					}
				}
			}
		}
	}
	if checked == 0 || crossed == 0 {
		t.Errorf("%d passages checked, %d of them found by one retriever alone", checked, crossed)
	}
}
