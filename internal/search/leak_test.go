package search

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"quarry.dev/quarry/internal/hnsw"
)

// tally is what the leak test has seen, so that it cannot pass by seeing nothing.
type tally struct{ cases, hits, several, reranked, failed, refused, sent atomic.Int64 }

// TestHundredThousandResponsesLeaveNoTrace: all that the gateway answers over a corpus (status, headers, hits, scores, order,
// ranks, errors) is, byte for byte, what it answers over one fresh segment of the documents that the caller may read. Readers
// come from the index and from overlays. The corpus lies in one segment, in several with dead documents, and among documents
// that nobody here reads; its stack has answered others before. No hidden passage is sent to the reranker. All vectors of so
// small a corpus are compared, as the plans say.
func TestHundredThousandResponsesLeaveNoTrace(t *testing.T) {
	const least, worlds, workers = 100_000, 352, 4
	var n tally
	t.Run("worlds", func(t *testing.T) {
		for first := range workers {
			t.Run(fmt.Sprint(first), func(t *testing.T) {
				t.Parallel()
				for seed := first; seed < worlds; seed += workers {
					newWorld(t, uint64(seed)).check(seed, &n)
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	reportBar(t, "leak-response-cases", float64(n.cases.Load()), least)
	t.Logf("with hits %d, from several segments %d, reranked %d, not reranked after all %d, refused %d, passages reranked %d",
		n.hits.Load(), n.several.Load(), n.reranked.Load(), n.failed.Load(), n.refused.Load(), n.sent.Load())
	for what, seen := range map[string]*atomic.Int64{"with hits": &n.hits, "from several segments": &n.several, "reranked": &n.reranked,
		"not reranked after all": &n.failed, "refused": &n.refused} {
		if seen.Load() < n.cases.Load()/100 {
			t.Errorf("only %d of %d answers were %s", seen.Load(), n.cases.Load(), what)
		}
	}
}

// reportBar writes a line that make bench-engine collects, and fails the test when the figure is short.
func reportBar(t *testing.T, name string, measured, least float64) {
	t.Helper()
	verdict := "ok"
	if !(measured >= least) {
		verdict = "short"
		t.Errorf("%s is %v, at least %v is asked for", name, measured, least)
	}
	t.Logf("bar %s %.10g >=%.10g %s", name, measured, least, verdict)
}

// reference is what one visible set answers.
type reference struct {
	answers []string
	texts   map[string]bool
}

func (w *world) check(seed int, n *tally) {
	w.t.Helper()
	questions := make([]question, 16)
	for i := range questions {
		questions[i] = w.question()
	}
	strangers, strange := w.strangers()
	wholes := []*stack{
		w.serve([]part{{documents: w.now}}, w.overlay, questions),
		w.serve(w.cut(w.now), w.overlay, questions),
		w.serve(w.cut(slices.Concat(w.now, strangers)), strange, questions),
	}
	references := map[string]*reference{}
	for _, token := range askers {
		visible := w.visible(token)
		key := fmt.Sprint(visible)
		ref, ok := references[key]
		if !ok {
			ref = w.refer(token, visible, questions)
			references[key] = ref
		}
		for i, whole := range wholes {
			for j, q := range questions {
				got := whole.ask(token, q)
				if got != ref.answers[j] {
					w.t.Fatalf("seed %d, corpus %d, %s, %+v:\nwith hidden documents    %s\nwithout hidden documents %s", seed, i, token, q, got, ref.answers[j])
				}
				w.look(whole, ref, got, n)
			}
		}
	}
}

// refer asks over one segment of the visible documents, on behalf of one of those who see just these.
func (w *world) refer(token string, visible []document, questions []question) *reference {
	ref := &reference{texts: map[string]bool{}}
	for _, d := range visible {
		for _, text := range d.texts {
			ref.texts[text] = true
		}
	}
	s := newStack(w.t, visible, w.recipe)
	s.scorer.Scorer = picky{s.scorer.Scorer}
	s.publish(w.t, 2, w.overlay)
	for _, q := range questions {
		ref.answers = append(ref.answers, s.ask(token, q))
	}
	return ref
}

// look counts an answer, and holds that it was found as this test supposes and that the reranker was sent what may be seen.
func (w *world) look(s *stack, ref *reference, answer string, n *tally) {
	w.t.Helper()
	n.cases.Add(1)
	found := strings.Contains(answer, `"document":`)
	for counter, yes := range map[*atomic.Int64]bool{
		&n.hits: found, &n.several: found && len(s.hnsw.Ranker.(dense).segments) > 1, &n.refused: !strings.HasPrefix(answer, "200"),
		&n.reranked: found && strings.Contains(answer, `"reranked":true`),
		&n.failed:   found && w.recipe.Rerank.Type != "" && strings.Contains(answer, `"reranked":false`),
	} {
		if yes {
			counter.Add(1)
		}
	}
	for _, text := range s.scorer.taken() {
		if n.sent.Add(1); !ref.texts[text] {
			w.t.Fatalf("a passage that is hidden from the caller was sent to the reranker: %q", text)
		}
	}
	plans, _ := s.hnsw.LastPlan().([]hnsw.Plan)
	for _, plan := range plans {
		if plan.Branch != hnsw.Exact && plan.Branch != hnsw.Nothing {
			w.t.Fatalf("not the exact branch: %+v", plan)
		}
	}
}
