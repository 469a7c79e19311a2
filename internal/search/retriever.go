package search

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/segment"
)

// Retriever serves one Ranker to the gateway of its stack, and to nobody else.
type Retriever struct {
	Index    string
	Verifier *identity.InternalVerifier
	Table    *access.Table
	Overlays *Overlays
	Ranker   Ranker
	Metrics  *Metrics
	Log      *slog.Logger

	lastPlan atomic.Value // of planBox
}

type planBox struct{ plan any }

// LastPlan says how the last search was carried out, for the admin port.
func (r *Retriever) LastPlan() any {
	if box, ok := r.lastPlan.Load().(planBox); ok {
		return box.plan
	}
	return nil
}

// Handler serves POST /v1/retrieve.
func (r *Retriever) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/retrieve", r.Metrics.observe(func(w http.ResponseWriter, req *http.Request) int {
		ctx, cancel := context.WithTimeout(req.Context(), requestTimeout)
		defer cancel()
		response, err := r.retrieve(ctx, w, req)
		if err != nil {
			return r.refuse(w, err)
		}
		return writeJSON(w, response)
	}))
	mux.HandleFunc("/", notFound)
	return mux
}

// refuse logs the faults of this side; no Ranker puts what was asked into an error.
func (r *Retriever) refuse(w http.ResponseWriter, err error) int {
	var p *Problem
	if !errors.As(err, &p) {
		r.Log.Error("a retrieval failed", "error", err)
	}
	return writeProblem(w, err)
}

func (r *Retriever) retrieve(ctx context.Context, w http.ResponseWriter, req *http.Request) (*retrieveResponse, error) {
	id, err := r.Verifier.Verify(identity.Bearer(req.Header.Get("Authorization")))
	if err != nil {
		return nil, unauthorized()
	}
	epoch, err := strconv.ParseInt(req.Header.Get(epochHeader), 10, 64)
	if err != nil || epoch < 0 {
		return nil, badRequest("header %s is missing or no number: send the epoch of your access data", epochHeader)
	}
	var in retrieveRequest
	if err := decodeBody(w, req, maxBody, &in); err != nil {
		return nil, err
	}
	if err := checkQuery(in.Query); err != nil {
		return nil, err
	}
	if in.K < 0 || in.K > maxCandidates || len(in.Also) > 2*maxCandidates {
		return nil, badRequest("k is %d and also has %d chunks: use at most %d and %d", in.K, len(in.Also), maxCandidates, 2*maxCandidates)
	}
	overlay, err := r.Overlays.AtLeast(ctx, epoch)
	if errors.Is(err, errBehind) {
		return nil, problem(http.StatusConflict, "AccessBehind", "access data is older than the caller's; try again shortly")
	}
	if err != nil {
		return nil, err
	}
	return r.rank(in, r.Table.AllowSet(id, overlay), overlay.Epoch)
}

// rank asks the Ranker and trusts it with nothing: a hit outside of the allow set means that the filter failed.
func (r *Retriever) rank(in retrieveRequest, allow *roaring.Bitmap, epoch int64) (*retrieveResponse, error) {
	out := &retrieveResponse{Index: r.Index, Epoch: epoch, Hits: []ChunkHit{}, Also: []float64{}}
	if in.K > 0 {
		ranking, err := r.Ranker.Search(in.Query, allow, in.K)
		if err != nil {
			return nil, err
		}
		for _, h := range ranking.Hits {
			if !allow.Contains(h.Chunk) {
				r.Metrics.Violations.Inc()
				return nil, errors.New("the ranker returned a chunk that the caller may not read")
			}
		}
		out.Hits, out.Bound = append(out.Hits, ranking.Hits...), ranking.Bound
		r.lastPlan.Store(planBox{ranking.Plan})
	}
	if len(in.Also) > 0 {
		scores, err := r.Ranker.Score(in.Query, allow, in.Also)
		if err != nil {
			return nil, err
		}
		if len(scores) != len(in.Also) {
			return nil, fmt.Errorf("the ranker scored %d of %d chunks", len(scores), len(in.Also))
		}
		for i, chunk := range in.Also {
			if !allow.Contains(chunk) {
				scores[i] = 0
			}
		}
		out.Also = scores
	}
	return out, nil
}

// selfQueryWords bounds how much of the given texts a self-query tries.
const selfQueryWords = 200

// SelfQuery proves that the loaded artifact answers: with every chunk allowed, a word of the texts must find something.
// Words that rank nothing (stop words, for BM25) are passed over; texts that hold no other words pass.
func (r *Retriever) SelfQuery(texts iter.Seq[string]) error {
	if r.Table.Chunks() == 0 {
		return errors.New("the index has no chunk")
	}
	all := roaring.New()
	all.AddRange(0, uint64(r.Table.Chunks()))
	tried, ranks := 0, false
	for text := range texts {
		for _, word := range strings.Fields(text) {
			ranking, err := r.Ranker.Search(word, all, 1)
			if err != nil {
				return fmt.Errorf("self-query: %w", err)
			}
			if len(ranking.Hits) > 0 {
				return nil
			}
			ranks = ranks || ranking.Bound > 0
			if tried++; tried == selfQueryWords {
				return selfQueryFailed(ranks)
			}
		}
	}
	return selfQueryFailed(ranks)
}

func selfQueryFailed(ranks bool) error {
	if ranks {
		return errors.New("self-query: words of the index find nothing in it; the artifact is damaged: build it again")
	}
	return nil
}

// Texts are the passages of an index, for a self-query.
func Texts(chunks *segment.Passages) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range chunks.Len() {
			if !yield(chunks.At(i).Text) {
				return
			}
		}
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, problem(http.StatusNotFound, "NotFound", "there is no such path or method here"))
}
