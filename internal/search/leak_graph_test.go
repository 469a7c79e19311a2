package search

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/hnsw"
)

// hiddenMark stands in the key and the text of every hidden document of graphWorld.
const hiddenMark = "zzhidden"

// graphWorld is large enough that the planner walks the graph of its first segment; the second one is scanned. A quarter is
// hidden, some by the overlay alone.
func graphWorld(t *testing.T, chunks int) (parts []part, visible []document, overlay map[string]access.OverlayEntry) {
	rng := rand.New(rand.NewPCG(17, 18))
	everyone, overlay := allow(t, "everyone"), map[string]access.OverlayEntry{}
	parts = make([]part, 2)
	for i := range chunks {
		// The words of a topic come together, so that vectors lie in clusters.
		text := fmt.Sprintf("word%d word%d topic%d topic%d topic%d number%d", rng.IntN(300), rng.IntN(300), i%97, i%97, i%97, i)
		d := document{key: fmt.Sprintf("d%06d.md", i), allow: everyone, texts: []string{text}}
		if rng.IntN(4) == 0 {
			d.key, d.texts[0] = d.key+hiddenMark, text+" "+hiddenMark
			if d.allow = access.Nobody(); rng.IntN(2) == 0 {
				d.allow, overlay[d.key] = everyone, access.OverlayEntry{Gone: rng.IntN(2) == 0, Allow: access.Nobody()}
			}
		} else {
			visible = append(visible, d)
		}
		own := &parts[0]
		if i%20 == 0 {
			own = &parts[1]
		}
		own.documents = append(own.documents, d)
	}
	return parts, visible, overlay
}

// TestGraphAnswersHoldNothingHidden: where the graph is walked, which of the visible neighbours are missed may depend on the
// hidden ones, and nothing else does. No key and no text of a hidden document is in an answer, it has as many hits as are
// asked for, and each hit has the scores, and among BM25's candidates the rank, that it has without the hidden documents.
func TestGraphAnswersHoldNothingHidden(t *testing.T) {
	t.Parallel()
	const candidates, questions, least = 20, 150, 0.99
	parts, visible, overlay := graphWorld(t, 20_000)
	recipe := v1alpha1.RetrievalSpec{Candidates: candidates, TopK: candidates}
	whole, part := newStackOf(t, openParts(t, parts), recipe), newStack(t, visible, recipe)
	whole.publish(t, 2, overlay)
	part.publish(t, 2, overlay)
	number := map[string]uint32{} // of the only chunk of each document, in part
	for i, d := range visible {
		number[d.key] = uint32(i)
	}
	rng := rand.New(rand.NewPCG(19, 20))
	walked, found := 0, 0
	for range questions {
		query := fmt.Sprintf("word%d topic%d topic%d %s", rng.IntN(300), rng.IntN(97), rng.IntN(97), hiddenMark)
		body, _ := json.Marshal(map[string]any{"query": query, "explain": "Ranks"})
		code, text := whole.post(t, "ann", string(body))
		var answer Response
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK || len(answer.Hits) != candidates {
			t.Fatalf("HTTP %d with %d hits, %d are asked for: %s", code, len(answer.Hits), candidates, text)
		}
		if strings.Contains(text, hiddenMark) {
			t.Fatalf("something hidden is in %s", text)
		}
		if slices.ContainsFunc(whole.hnsw.LastPlan().([]hnsw.Plan), func(p hnsw.Plan) bool { return p.Branch == hnsw.Graph }) {
			walked++
		}
		holdScores(t, part, query, answer.Hits, number)
		found += foundOfBest(t, whole, part, query, candidates)
	}
	recall := float64(found) / float64(questions*candidates)
	if walked < questions/2 {
		t.Errorf("only %d of %d questions walked the graph", walked, questions)
	}
	reportBar(t, "leak-graph-recall", recall, least)
}

// holdScores compares with what part, which holds nothing hidden, says of the same passages.
func holdScores(t *testing.T, part *stack, query string, hits []Hit, number map[string]uint32) {
	t.Helper()
	chunks := make([]uint32, len(hits))
	for i, h := range hits {
		var ok bool
		if chunks[i], ok = number[h.Document]; !ok {
			t.Fatalf("%q is no document that may be read", h.Document)
		}
	}
	all := part.everything()
	lexical, dense := must[[]float64](t)(part.bm25.Ranker.Score(query, all, chunks)), must[[]float64](t)(part.hnsw.Ranker.Score(query, all, chunks))
	ranking := must[Ranking](t)(part.bm25.Ranker.Search(query, all, len(hits))).Hits
	for i, h := range hits {
		rank := 1 + slices.IndexFunc(ranking, func(r ChunkHit) bool { return r.Chunk == chunks[i] })
		if h.Scores.BM25 != lexical[i] || h.Scores.HNSW != dense[i] || h.Ranks.BM25 != rank {
			t.Fatalf("%q: %+v %+v, without the hidden documents %v %v, rank %d", h.Document, *h.Scores, *h.Ranks, lexical[i], dense[i], rank)
		}
	}
}

// foundOfBest counts how many of the k nearest visible passages a walk over whole finds, by the exact scan of part. One that is
// as near as the last of them counts for it.
func foundOfBest(t *testing.T, whole, part *stack, query string, k int) (found int) {
	t.Helper()
	id, _ := fakeUsers("ann")
	overlay := must[*access.Overlay](t)(whole.gateway.Overlays.Fresh())
	got := must[Ranking](t)(whole.hnsw.Ranker.Search(query, whole.gateway.Table.AllowSet(id, overlay), k))
	exact, _, err := part.hnsw.Ranker.(dense).segments[0].Scan(hashed{}.Encode([]string{query})[0], part.everything(), k)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range got.Hits {
		if h.Score >= exact[k-1].Score {
			found++
		}
	}
	return found
}
