package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/contextual"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/rerank"
)

const (
	// builtinPatience is how long the models of the image may take for one answer.
	builtinPatience = 5 * time.Second
	// defaultEndpointTimeout holds where a configuration was not defaulted by an API server.
	defaultEndpointTimeout = 2 * time.Second
	// endpointMargin is what the reranker may take beside its endpoint.
	endpointMargin = 500 * time.Millisecond
	// rerankReserve of the time for a request is never spent on reranking: the answer must still be sent.
	rerankReserve = 500 * time.Millisecond
	// tailGap lies between the scores of passages that were reranked and those behind them.
	tailGap = 1
	// rerankLogInterval is how often a failure is logged at most.
	rerankLogInterval = 10 * time.Second
)

// rerankRequest is the body of POST /v1/rerank: indexed texts, each clipped to rerank.MaxText bytes.
type rerankRequest struct {
	Query    string   `json:"query"`
	Passages []string `json:"passages"`
}

// rerankResponse is its answer: a score of each passage, in their order.
type rerankResponse struct {
	Index  string    `json:"index"`
	Scores []float64 `json:"scores"`
}

// reranking is how a gateway reranks. The zero value does not.
type reranking struct {
	recipe   rerank.Recipe
	peer     Peer
	patience time.Duration
	// breaker keeps answers quick while the reranker's pods do not answer at all.
	breaker  *rerank.Breaker
	failures *rate.Sometimes
}

func newReranking(spec v1alpha1.RerankSpec, url string) (reranking, error) {
	recipe, err := rerank.ParseRecipe(spec)
	if err != nil || !recipe.On() {
		return reranking{recipe: recipe}, err
	}
	if url == "" {
		return reranking{}, fmt.Errorf("peers.reranker is empty: give the URL of the reranker, since rerank.type is %s", recipe.Type)
	}
	patience := builtinPatience
	if spec.Endpoint != nil {
		patience = cmp.Or(spec.Endpoint.Timeout.Duration, defaultEndpointTimeout) + endpointMargin
	}
	return reranking{recipe: recipe, peer: Peer{url, identity.RoleReranker}, patience: patience,
		breaker: &rerank.Breaker{}, failures: &rate.Sometimes{Interval: rerankLogInterval}}, nil
}

// rerank orders the first hits, which are in fused order, once more, and tells whether it did: without scores the hits
// stay as they are, because an answer in fused order is better than none. Its caller has checked that every hit may be
// seen. Where there is no hit, there is nothing that reranking could change.
func (g *Gateway) rerank(ctx context.Context, query string, hits []located, bound float64) bool {
	if !g.reranking.recipe.On() || len(hits) == 0 {
		return g.reranking.recipe.On()
	}
	passages := make([]string, min(g.reranking.recipe.Candidates, len(hits)))
	for i := range passages {
		passages[i] = rerank.Clip(contextual.Indexed(hits[i].Context, hits[i].Text))
	}
	scores, err := g.askReranker(ctx, rerank.Clip(query), passages)
	if err != nil {
		g.Metrics.reranks.WithLabelValues(outcomeOf(err)).Inc()
		g.reranking.failures.Do(func() { g.Log.Warn("answers keep the fused order", "error", err) })
		return false
	}
	g.Metrics.reranks.WithLabelValues("Reranked").Inc()
	g.reranking.reorder(hits, scores, bound)
	return true
}

// reorder gives the first hits their final scores, and those behind them scores below all of these, in their fused order.
func (r reranking) reorder(hits []located, scores []float64, bound float64) {
	head, tail := hits[:len(scores)], hits[len(scores):]
	least := rerank.MaxScore
	for i := range head {
		h := &head[i]
		h.scores.Rerank, h.score = scores[i], scores[i]
		if r.recipe.NeedsBM25() {
			h.score = mix(r.recipe.DenseWeight, h.scores.BM25, bound, scores[i])
		}
		least = min(least, h.score)
	}
	for i := range tail {
		tail[i].score = least - tailGap - (head[len(head)-1].fused - tail[i].fused)
	}
	order(head)
	for i := range head {
		head[i].ranks.Rerank = i + 1
	}
	order(tail)
}

// rerankError is why an answer keeps the fused order. It holds nothing of question and passages.
type rerankError struct{ outcome, message string }

func (e *rerankError) Error() string { return "reranker: " + e.message }

func outcomeOf(err error) string {
	var e *rerankError
	if errors.As(err, &e) {
		return e.outcome
	}
	return "Failed"
}

// askReranker keeps to the recipe's patience and to what is left of the request's time.
func (g *Gateway) askReranker(ctx context.Context, query string, passages []string) ([]float64, error) {
	deadline := time.Now().Add(g.reranking.patience)
	if end, ok := ctx.Deadline(); ok && end.Add(-rerankReserve).Before(deadline) {
		deadline = end.Add(-rerankReserve)
	}
	if !time.Now().Before(deadline) {
		return nil, &rerankError{"NoTimeLeft", "the retrievers left no time"}
	}
	if !g.reranking.breaker.Allow() {
		return nil, &rerankError{"BreakerOpen", "it failed too often and is left alone for a while"}
	}
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	scores, answered, err := g.postRerank(limited, query, passages)
	switch {
	case answered:
		g.reranking.breaker.Report(rerank.Succeeded, 0)
	case ctx.Err() != nil:
		g.reranking.breaker.Report(rerank.Neutral, 0)
	default:
		g.reranking.breaker.Report(rerank.Failed, 0)
	}
	return scores, err
}

// postRerank sends one request. answered tells whether the reranker is there, whatever it says. Who asks is not told: it
// does not matter, and the reranker may talk to a server outside.
func (g *Gateway) postRerank(ctx context.Context, query string, passages []string) (scores []float64, answered bool, err error) {
	anyone := access.Identity{Tenant: g.Tenant, User: "\x00gateway"}
	status, data, err := g.post(ctx, g.reranking.peer, "/v1/rerank", anyone, nil, rerankRequest{query, passages})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, false, &rerankError{"Timeout", "it did not answer in time"}
	case err != nil:
		return nil, false, &rerankError{"Unreachable", err.Error()}
	case status != http.StatusOK:
		return nil, true, &rerankError{"Failed", fmt.Sprintf("HTTP %d: its own log says why", status)}
	}
	var out rerankResponse
	if len(data) > maxAnswer || json.Unmarshal(data, &out) != nil || out.Index != g.Index || rerank.Check(out.Scores, len(passages)) != nil {
		return nil, true, &rerankError{"BadAnswer", "it answers something else than the scores of these passages for this index"}
	}
	return out.Scores, true, nil
}

// RerankerReady proves that the reranker scores. It passes where the recipe has none.
func (g *Gateway) RerankerReady(ctx context.Context) error {
	if !g.reranking.recipe.On() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.reranking.patience)
	defer cancel()
	_, _, err := g.postRerank(ctx, "readiness", []string{"readiness"})
	return err
}
