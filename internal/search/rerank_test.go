package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/rerank"
	"quarry.dev/quarry/internal/segment"
)

// answerOf posts a question of everyone's and decodes the answer.
func (s *stack) answerOf(t *testing.T, query string, topK int) Response {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"query": query, "topK": topK, "explain": "Ranks"})
	code, answer := s.post(t, "ann:hr", string(body))
	var out Response
	if err := json.Unmarshal([]byte(answer), &out); err != nil || code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", code, answer)
	}
	return out
}

// openCorpus are documents of everyone's with random texts, in which no two passages are equal.
func openCorpus(t *testing.T, rng *rand.Rand, n int) []document {
	var documents []document
	for i := range n {
		d := document{key: fmt.Sprintf("d%03d.md", i), allow: allow(t, "everyone")}
		for j := range 1 + rng.IntN(3) {
			d.texts = append(d.texts, fmt.Sprintf("%s number%d part%d", randomText(rng), i, j))
		}
		documents = append(documents, d)
	}
	return documents
}

func byShownScore(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Chunk, b.Chunk))
}

// TestRerankedOrder: the first fused passages are ordered by the final score, the others follow in their fused order, and
// sorting an answer by its scores changes nothing.
func TestRerankedOrder(t *testing.T) {
	endpoint := &v1alpha1.RerankEndpoint{}
	for name, c := range map[string]struct {
		spec  v1alpha1.RerankSpec
		final func(fused, mixed, score float64) float64
	}{
		"builtin":  {v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin, Candidates: 6}, func(_, mixed, _ float64) float64 { return mixed }},
		"endpoint": {v1alpha1.RerankSpec{Type: v1alpha1.RerankTypeEndpoint, Candidates: 6, Endpoint: endpoint}, func(_, _, score float64) float64 { return score }},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		documents := openCorpus(t, rng, 30)
		fused, reranked := newStack(t, documents, v1alpha1.RetrievalSpec{}), newStack(t, documents, v1alpha1.RetrievalSpec{Rerank: c.spec})
		moved := 0
		for range 20 {
			query := randomText(rng)
			before, after := fused.answerOf(t, query, 20), reranked.answerOf(t, query, 20)
			if before.Reranked || !after.Reranked || len(before.Hits) != len(after.Hits) {
				t.Fatalf("%s: reranked %v and %v", name, before.Reranked, after.Reranked)
			}
			if !slices.IsSortedFunc(after.Hits, byShownScore) {
				t.Errorf("%s: not in the order of its scores: %+v", name, after.Hits)
			}
			bound := must[Ranking](t)(reranked.bm25.Ranker.Search(query, reranked.everything(), 1)).Bound
			for i, h := range after.Hits {
				if i >= 6 {
					if h.Ranks.Fused != i+1 || h.Ranks.Rerank != 0 || h.Scores.Rerank != 0 || h.Text != before.Hits[i].Text {
						t.Errorf("%s: passage %d behind the candidates: %+v %+v", name, i, h.Ranks, h.Scores)
					}
					continue
				}
				if h.Ranks.Rerank != i+1 || h.Ranks.Fused < 1 || h.Ranks.Fused > 6 {
					t.Errorf("%s: passage %d has ranks %+v", name, i, h.Ranks)
				}
				if h.Ranks.Fused != i+1 {
					moved++
				}
				lexical := 0.0
				if bound > 0 {
					lexical = h.Scores.BM25 / bound
				}
				want := c.final(0, 0.5*lexical+0.5*math.Max(0, h.Scores.Rerank), h.Scores.Rerank)
				if math.Abs(h.Score-want) > 1e-9 {
					t.Errorf("%s: passage %d has score %v, want %v", name, i, h.Score, want)
				}
			}
		}
		if moved == 0 {
			t.Errorf("%s: no passage changed its place", name)
		}
	}
}

// TestTheTailNeverPassesTheHead with scores as large as they may be.
func TestTheTailNeverPassesTheHead(t *testing.T) {
	r := reranking{recipe: rerank.Recipe{Type: v1alpha1.RerankTypeEndpoint}}
	for _, scores := range [][]float64{{rerank.MaxScore, -rerank.MaxScore}, {0, 0}, {-3.5, -3.25}} {
		var hits []located
		for i, fused := range []float64{19, 18, 18, 1e-9, 0} {
			hits = append(hits, located{candidate{fused: fused, score: fused}, segment.Chunk{Document: fmt.Sprint(9 - i)}})
		}
		hits[1].Document, hits[2].Document = hits[2].Document, hits[1].Document
		r.reorder(hits, scores, 1)
		if !slices.IsSortedFunc(hits, func(a, b located) int { return cmp.Compare(b.score, a.score) }) || !(hits[2].score < hits[1].score) || !(hits[4].score < hits[3].score) {
			t.Errorf("%v: %+v", scores, hits)
		}
	}
}

// TestRerankerFails: whatever goes wrong, the answer is the fused one and says so.
func TestRerankerFails(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	documents := openCorpus(t, rng, 20)
	recipe := v1alpha1.RetrievalSpec{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}}
	want := newStack(t, documents, v1alpha1.RetrievalSpec{}).answerOf(t, "parental leave", 10)
	answer := func(status int, body string) func(*stack) {
		return func(s *stack) {
			s.routes["reranker"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
		}
	}
	scores := func(value string, n int) string {
		return `{"index":"support-acme-1","scores":[` + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + `]}`
	}
	n := len(newStack(t, documents, recipe).sentFor(t, "parental leave"))
	for name, c := range map[string]struct {
		outcome string
		spoil   func(*stack)
	}{
		"no server":       {"Unreachable", func(s *stack) { delete(s.routes, "reranker") }},
		"HTTP 500":        {"Failed", answer(500, "parental leave")},
		"HTTP 401":        {"Failed", answer(401, "{}")},
		"redirect":        {"Failed", answer(302, scores("1", n))},
		"no JSON":         {"BadAnswer", answer(200, "oops")},
		"another index":   {"BadAnswer", answer(200, strings.Replace(scores("1", n), "acme", "globex", 1))},
		"too few scores":  {"BadAnswer", answer(200, scores("1", n-1))},
		"too many scores": {"BadAnswer", answer(200, scores("1", n+1))},
		"huge score":      {"BadAnswer", answer(200, scores("1e7", n))},
		"infinite score":  {"BadAnswer", answer(200, scores("1e999", n))},
		"huge answer":     {"BadAnswer", answer(200, scores("1", n)+strings.Repeat(" ", maxAnswer))},
		"scorer fails": {"Failed", func(s *stack) {
			s.scorer.answer = func(context.Context, []string) ([]float64, error) {
				return nil, &rerank.Failure{Reason: rerank.ReasonOpen}
			}
		}},
		"scorer is wrong": {"Failed", func(s *stack) {
			s.scorer.answer = func(_ context.Context, p []string) ([]float64, error) {
				return append(make([]float64, len(p)-1), math.NaN()), nil
			}
		}},
	} {
		s := newStack(t, documents, recipe)
		c.spoil(s)
		got := s.answerOf(t, "parental leave", 10)
		if got.Reranked || !slices.EqualFunc(got.Hits, want.Hits, func(a, b Hit) bool {
			return a.Text == b.Text && a.Score == b.Score && *a.Ranks == *b.Ranks && *a.Scores == *b.Scores
		}) {
			t.Errorf("%s: reranked %v, hits %+v", name, got.Reranked, got.Hits)
		}
		if v := counter(t, s.gateway.Metrics, "quarry_reranks_total", c.outcome); v != 1 {
			t.Errorf("%s: outcome %s was counted %v times", name, c.outcome, v)
		}
		log := s.log.String()
		if !strings.Contains(log, "fused order") || strings.Contains(log, "parental") {
			t.Errorf("%s: the log says %s", name, log)
		}
	}
}

// TestASlowReranker costs what the recipe grants, then nothing until it is tried again.
func TestASlowReranker(t *testing.T) {
	s := newStack(t, openCorpus(t, rand.New(rand.NewPCG(5, 6)), 5), v1alpha1.RetrievalSpec{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}})
	s.gateway.reranking.patience = 20 * time.Millisecond
	asked := 0
	s.gateway.SetTransport(transport(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "reranker" {
			return s.routes.RoundTrip(r)
		}
		asked++
		<-r.Context().Done()
		return nil, r.Context().Err()
	}))
	for range 8 {
		if s.answerOf(t, "parental leave", 3).Reranked {
			t.Error("reranked")
		}
	}
	if asked != 5 || counter(t, s.gateway.Metrics, "quarry_reranks_total", "Timeout") != 5 || counter(t, s.gateway.Metrics, "quarry_reranks_total", "BreakerOpen") != 3 {
		t.Errorf("it was asked %d times", asked)
	}
	// A request whose time is nearly spent does not even ask.
	ctx, cancel := context.WithTimeout(t.Context(), rerankReserve/2)
	defer cancel()
	if _, err := s.gateway.askReranker(ctx, "q", []string{"p"}); outcomeOf(err) != "NoTimeLeft" {
		t.Errorf("got %v", err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNewerAccessDataStopsPassages: what a newer epoch may hide is not sent, even if the retrievers returned it.
func TestNewerAccessDataStopsPassages(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}})
	revoked := false
	s.gateway.SetTransport(transport(func(r *http.Request) (*http.Response, error) {
		response, err := s.routes.RoundTrip(r)
		if r.URL.Host == "hnsw" && !revoked {
			revoked = true
			s.publish(t, 2, map[string]access.OverlayEntry{"hr/leave.md": {Gone: true, Allow: access.Nobody()}})
		}
		return response, err
	}))
	if got := s.documents(t, "bob:hr", "parental leave"); slices.Contains(got, "hr/leave.md") {
		t.Errorf("got %q", got)
	}
	for _, text := range s.scorer.taken() {
		if strings.Contains(text, "parental") {
			t.Errorf("%q was sent after it was revoked", text)
		}
	}
}

// TestIndexedTextsAreReranked: the reranker reads what the retrievers have indexed, and as much as is allowed.
func TestIndexedTextsAreReranked(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}})
	long := strings.Repeat("é", rerank.MaxText)
	hits := []located{{Chunk: segment.Chunk{Document: "a", Context: "Leave > Parental", Text: "sixteen weeks"}}, {Chunk: segment.Chunk{Document: "b", Text: long}}}
	if !s.gateway.rerank(t.Context(), "how long", hits, 1) {
		t.Fatal("not reranked")
	}
	if got := s.scorer.taken(); len(got) != 2 || got[0] != "Leave > Parental\n\nsixteen weeks" || got[1] != long[:rerank.MaxText] {
		t.Errorf("%.100q was sent", got)
	}
}

func TestRerankerRefuses(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	id := access.Identity{Tenant: "acme", User: "ann"}
	token := must[string](t)(s.gateway.Signer.Issue(id, identity.RoleReranker))
	other := must[string](t)(s.gateway.Signer.Issue(id, identity.RoleHNSW))
	evalToken := must[string](t)(s.evalSigner.IssueEval(id, "uid"))
	passages := func(n int, text string) string {
		body, _ := json.Marshal(rerankRequest{"q", slices.Repeat([]string{text}, n)})
		return string(body)
	}
	for name, c := range map[string]struct {
		token, path, body string
		want              int
	}{
		"fine":               {token, "/v1/rerank", passages(2, "a"), 200},
		"most":               {token, "/v1/rerank", passages(100, strings.Repeat("\x01", rerank.MaxText)), 200},
		"no token":           {"", "/v1/rerank", passages(2, "a"), 401},
		"a user's token":     {"ann", "/v1/rerank", passages(2, "a"), 401},
		"hnsw's token":       {other, "/v1/rerank", passages(2, "a"), 401},
		"eval's token":       {evalToken, "/v1/rerank", passages(2, "a"), 401},
		"no passage":         {token, "/v1/rerank", passages(0, "a"), 400},
		"too many passages":  {token, "/v1/rerank", passages(101, "a"), 400},
		"a long passage":     {token, "/v1/rerank", passages(1, strings.Repeat("a", rerank.MaxText+1)), 400},
		"no question":        {token, "/v1/rerank", `{"query":" ","passages":["a"]}`, 400},
		"unknown field":      {token, "/v1/rerank", `{"query":"q","passages":["a"],"top_n":1}`, 400},
		"a huge body":        {token, "/v1/rerank", passages(1, strings.Repeat("a", maxRerankBody)), 413},
		"another path":       {token, "/v1/search", passages(1, "a"), 404},
		"reranker's at bm25": {token, "/v1/retrieve", `{"query":"q","k":1}`, 401},
	} {
		handler := s.reranker.Handler()
		if c.path == "/v1/retrieve" {
			handler = s.bm25.Handler()
		}
		if code, answer := request(t, handler, c.path, c.token, c.body); code != c.want || code == 200 && !strings.Contains(answer, `"index":"support-acme-1","scores":[`) {
			t.Errorf("%s: HTTP %d, want %d: %.200s", name, code, c.want, answer)
		}
	}
	if err := s.reranker.SelfQuery(t.Context()); err != nil {
		t.Error(err)
	}
	s.scorer.answer = func(context.Context, []string) ([]float64, error) { return nil, errors.New("broken") }
	if s.reranker.SelfQuery(t.Context()) == nil {
		t.Error("ready with a broken scorer")
	}
}

func TestRerankerReadiness(t *testing.T) {
	none := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	delete(none.routes, "reranker")
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}})
	if err := errors.Join(none.gateway.RerankerReady(t.Context()), s.gateway.RerankerReady(t.Context())); err != nil {
		t.Error(err)
	}
	delete(s.routes, "reranker")
	if s.gateway.RerankerReady(t.Context()) == nil {
		t.Error("ready without a reranker")
	}
}
