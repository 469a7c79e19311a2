package search

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/hnsw"
)

// editedCorpus is a corpus that was edited several times: parts are its segments with their dead, now is what it holds at
// last. Few words and shared texts make many scores equal, so that ties at a cut are common.
func editedCorpus(t *testing.T, rng *rand.Rand) (parts []part, now []document) {
	held := map[string]document{}
	var shared []string
	for range 3 {
		shared = append(shared, randomText(rng))
	}
	for range 1 + rng.IntN(5) {
		next := part{dead: map[string]bool{}}
		for i := range 12 {
			if rng.IntN(2) == 0 {
				continue
			}
			d := document{key: fmt.Sprintf("d%02d.md", i), allow: randomAllow(t, rng)}
			for range 1 + rng.IntN(3) {
				text := randomText(rng)
				if rng.IntN(2) == 0 {
					text = shared[rng.IntN(len(shared))]
				}
				d.texts = append(d.texts, text)
			}
			_, had := held[d.key]
			if had {
				for j := range parts {
					parts[j].dead[d.key] = true
				}
			}
			if had && rng.IntN(3) == 0 {
				delete(held, d.key) // it left the source
				continue
			}
			held[d.key] = d
			next.documents = append(next.documents, d)
		}
		parts = append(parts, next)
	}
	for _, d := range held {
		now = append(now, d)
	}
	return parts, now
}

// TestSegmentsAnswerAsOne: the answer of several segments with their dead is, byte for byte, that of one fresh segment of
// the documents that the caller may read; so also nothing of a hidden document, or of a dead one, is in it. (All vectors of
// so small a corpus are compared, as the plans say.)
func TestSegmentsAnswerAsOne(t *testing.T) {
	recipes := []v1alpha1.RetrievalSpec{
		{}, {Candidates: 1, TopK: 1}, {Candidates: 3, TopK: 3},
		{Candidates: 5, Fusion: v1alpha1.FusionSpec{Type: v1alpha1.FusionReciprocalRank}},
		{Candidates: 4, Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin, Candidates: 4}},
	}
	compared, severalWithHits := 0, 0
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 23))
		parts, now := editedCorpus(t, rng)
		overlay := map[string]access.OverlayEntry{}
		for _, d := range now {
			if rng.IntN(5) == 0 {
				overlay[d.key] = access.OverlayEntry{Gone: rng.IntN(2) == 0, Allow: randomAllow(t, rng)}
			}
		}
		recipe := recipes[seed%uint64(len(recipes))]
		several, one := newStackOf(t, openParts(t, parts), recipe), newStack(t, now, recipe)
		if several.gateway.Chunks.Len() != one.gateway.Chunks.Len() || several.gateway.Table.Len() != len(now) {
			t.Fatalf("seed %d: %d living chunks of %d documents, not %d of %d", seed, several.gateway.Chunks.Len(), several.gateway.Table.Len(), one.gateway.Chunks.Len(), len(now))
		}
		several.publish(t, 2, overlay)
		one.publish(t, 2, overlay)
		for _, token := range []string{"ann:hr", "bob", "hr:eng", "eve"} {
			id, _ := fakeUsers(token)
			var visible []document
			for _, d := range now {
				if (&access.Overlay{Entries: overlay}).Permits(d.key, d.allow, id) {
					visible = append(visible, d)
				}
			}
			fresh := newStack(t, visible, recipe)
			fresh.publish(t, 2, overlay)
			for range 4 {
				body, _ := json.Marshal(map[string]any{"query": randomText(rng), "explain": "Ranks"})
				code, got := several.post(t, token, string(body))
				if code != http.StatusOK {
					t.Fatalf("seed %d: HTTP %d: %s", seed, code, got)
				}
				if _, want := one.post(t, token, string(body)); got != want {
					t.Fatalf("seed %d, %s, %s:\n%d segments %s\none segment %s", seed, token, body, len(parts), got, want)
				}
				if _, want := fresh.post(t, token, string(body)); got != want {
					t.Fatalf("seed %d, %s, %s:\nwith hidden documents    %s\nwithout hidden documents %s", seed, token, body, got, want)
				}
				for _, plan := range several.hnsw.LastPlan().([]hnsw.Plan) {
					if plan.Branch != hnsw.Exact && plan.Branch != hnsw.Nothing {
						t.Fatalf("seed %d: not the exact branch: %+v", seed, plan)
					}
				}
				compared++
				if len(parts) > 1 && len(visible) > 0 {
					severalWithHits++
				}
			}
		}
	}
	if severalWithHits < compared/4 {
		t.Errorf("only %d of %d answers came from several segments", severalWithHits, compared)
	}
}
