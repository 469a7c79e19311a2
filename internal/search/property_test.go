package search

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
)

var words = strings.Fields("leave parental pay salary bonus server outage key rotate the of handbook office travel expense ann bob secret merger plan")

func randomText(rng *rand.Rand) string {
	n := 1 + rng.IntN(12)
	out := make([]string, n)
	for i := range out {
		out[i] = words[rng.IntN(len(words))]
	}
	return strings.Join(out, " ")
}

func randomAllow(t *testing.T, rng *rand.Rand) access.Allow {
	return [](func() access.Allow){
		func() access.Allow { return access.Nobody() },
		func() access.Allow { return allow(t, "everyone") },
		func() access.Allow { return allow(t, "group:hr") },
		func() access.Allow { return allow(t, "group:eng", "user:ann") },
		func() access.Allow { return allow(t, "user:bob") },
		func() access.Allow { return allow(t, "user:hr") },
	}[rng.IntN(6)]()
}

// TestAnswersTellNothingOfHiddenDocuments: the answer over a corpus is, byte for byte, the answer over the corpus without
// what the caller may not read. Hiding goes by the index's own access and by overlays, both ways. The stack over the whole
// corpus has reranked for other callers before, the other one for nobody; and no passage that is hidden is sent to it.
func TestAnswersTellNothingOfHiddenDocuments(t *testing.T) {
	recipes := []v1alpha1.RetrievalSpec{
		{}, {Candidates: 3, TopK: 3},
		{Candidates: 5, Fusion: v1alpha1.FusionSpec{Type: v1alpha1.FusionReciprocalRank}},
		{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin, Candidates: 4}},
		{Candidates: 5, Fusion: v1alpha1.FusionSpec{Type: v1alpha1.FusionReciprocalRank}, Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}},
		{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankTypeEndpoint, Candidates: 2, Endpoint: &v1alpha1.RerankEndpoint{}}},
	}
	compared, sent := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var shared []string
		for range 3 {
			shared = append(shared, randomText(rng))
		}
		var documents []document
		overlay := map[string]access.OverlayEntry{}
		for i := range 1 + rng.IntN(25) {
			d := document{key: fmt.Sprintf("d%02d.md", i), allow: randomAllow(t, rng)}
			for range rng.IntN(4) {
				text := randomText(rng)
				if rng.IntN(4) == 0 {
					text = shared[rng.IntN(len(shared))] // identical passages, some of them hidden
				}
				d.texts = append(d.texts, text)
			}
			if rng.IntN(4) == 0 {
				overlay[d.key] = access.OverlayEntry{Gone: rng.IntN(2) == 0, Allow: randomAllow(t, rng)}
			}
			documents = append(documents, d)
		}
		recipe := recipes[seed%uint64(len(recipes))]
		whole := newStack(t, documents, recipe)
		whole.publish(t, 2, overlay)
		for _, token := range []string{"ann:hr", "bob", "hr:eng", "eve"} {
			id, _ := fakeUsers(token)
			var visible []document
			texts := map[string]bool{}
			for _, d := range documents {
				now := access.Overlay{Entries: overlay}
				if now.Permits(d.key, d.allow, id) {
					visible = append(visible, d)
					for _, text := range d.texts {
						texts[text] = true
					}
				}
			}
			part := newStack(t, visible, recipe)
			part.publish(t, 2, overlay)
			for range 4 {
				body, _ := json.Marshal(map[string]any{"query": randomText(rng), "explain": "Ranks"})
				code, got := whole.post(t, token, string(body))
				if code != http.StatusOK {
					t.Fatalf("seed %d: HTTP %d: %s", seed, code, got)
				}
				if _, want := part.post(t, token, string(body)); got != want {
					t.Fatalf("seed %d, %s, %s:\nwith hidden documents    %s\nwithout hidden documents %s", seed, token, body, got, want)
				}
				for _, text := range whole.scorer.taken() {
					if !texts[text] {
						t.Fatalf("seed %d, %s: a passage that is hidden from the caller was sent to the reranker: %q", seed, token, text)
					}
					sent++
				}
				if wants := recipe.Rerank.Type != ""; strings.Contains(got, `"reranked":true`) != wants {
					t.Fatalf("seed %d: %s", seed, got)
				}
				compared++
			}
		}
	}
	if compared == 0 || sent == 0 {
		t.Errorf("%d answers compared, %d passages reranked", compared, sent)
	}
}

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
