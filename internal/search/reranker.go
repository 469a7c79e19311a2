package search

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/rerank"
)

// maxRerankBody fits rerank.MaxPassages passages of rerank.MaxText bytes, each byte escaped, in bytes.
const maxRerankBody = 12 << 20

// Reranker serves one Scorer to the gateway of its stack, and to nobody else. It holds no index and no access data: what
// the gateway sends, it has checked.
type Reranker struct {
	Index    string
	Verifier *identity.InternalVerifier
	Scorer   rerank.Scorer
	Metrics  *Metrics
	// Scoring counts why there were no scores.
	Scoring *rerank.Metrics
	Log     *slog.Logger

	failures rate.Sometimes
}

// Handler serves POST /v1/rerank.
func (r *Reranker) Handler() http.Handler {
	r.failures = rate.Sometimes{Interval: rerankLogInterval}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/rerank", r.Metrics.observe(func(w http.ResponseWriter, req *http.Request) int {
		ctx, cancel := context.WithTimeout(req.Context(), requestTimeout)
		defer cancel()
		response, err := r.rerank(ctx, w, req)
		if err != nil {
			return writeProblem(w, err)
		}
		return writeJSON(w, response)
	}))
	mux.HandleFunc("/", notFound)
	return mux
}

func (r *Reranker) rerank(ctx context.Context, w http.ResponseWriter, req *http.Request) (*rerankResponse, error) {
	if _, err := r.Verifier.Verify(identity.Bearer(req.Header.Get("Authorization"))); err != nil {
		return nil, unauthorized()
	}
	var in rerankRequest
	if err := decodeBody(w, req, maxRerankBody, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	scores, err := r.Scorer.Score(ctx, in.Query, in.Passages)
	if err == nil {
		err = rerank.Check(scores, len(in.Passages))
	}
	if err != nil {
		return nil, r.failed(err)
	}
	return &rerankResponse{Index: r.Index, Scores: scores}, nil
}

func (r *rerankRequest) check() error {
	if err := checkQuery(r.Query); err != nil {
		return err
	}
	if len(r.Passages) < 1 || len(r.Passages) > rerank.MaxPassages {
		return badRequest("passages has %d texts: send 1 to %d", len(r.Passages), rerank.MaxPassages)
	}
	for i, p := range r.Passages {
		if len(p) > rerank.MaxText {
			return badRequest("passages[%d] has %d bytes: send at most %d", i, len(p), rerank.MaxText)
		}
	}
	return nil
}

// failed counts and logs why there are no scores; no Scorer puts text into its errors.
func (r *Reranker) failed(err error) error {
	r.Scoring.Failed(err)
	var f *rerank.Failure
	if !errors.As(err, &f) || f.Reason != rerank.ReasonCancelled {
		r.failures.Do(func() { r.Log.Warn("passages were not scored", "error", err) })
	}
	return problem(http.StatusServiceUnavailable, "NotReranked", "the passages could not be scored")
}

// SelfQuery proves that the Scorer scores.
func (r *Reranker) SelfQuery(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	scores, err := r.Scorer.Score(ctx, "readiness", []string{"readiness"})
	if err != nil {
		return err
	}
	return rerank.Check(scores, 1)
}
