package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/segment"
)

// Gateway answers users of one tenant from one index version.
type Gateway struct {
	Tenant   string
	Index    string
	Signer   *identity.Signer
	Table    *access.Table
	Chunks   *segment.Passages
	Overlays *Overlays
	Metrics  *Metrics
	Log      *slog.Logger

	bm25, hnsw       Peer
	reranking        reranking
	client           *http.Client
	fusion           fusion
	candidates, topK int
	refusals         rate.Sometimes
}

// Peers are the URLs of the other servers of a stack. Reranker is needed only where the recipe reranks.
type Peers struct{ BM25, HNSW, Reranker string }

// SetRecipe tells how to search, with what the index is embedded, and whom to ask.
func (g *Gateway) SetRecipe(spec v1alpha1.RetrievalSpec, embedding v1alpha1.EmbeddingSpec, peers Peers) error {
	model, err := embed.Describe(cmp.Or(embedding.Model, embed.DefaultModel))
	if err != nil {
		return err
	}
	if g.fusion, err = newFusion(spec.Fusion, model); err != nil {
		return err
	}
	if g.reranking, err = newReranking(spec.Rerank, peers.Reranker); err != nil {
		return err
	}
	g.candidates, g.topK = cmp.Or(int(spec.Candidates), defaultCandidates), cmp.Or(int(spec.TopK), defaultTopK)
	if g.candidates < 1 || g.candidates > maxCandidates || g.topK < 1 || g.topK > MaxTopK {
		return fmt.Errorf("candidates is %d, topK is %d: use 1 to %d and 1 to %d", g.candidates, g.topK, maxCandidates, MaxTopK)
	}
	if peers.BM25 == "" || peers.HNSW == "" {
		return fmt.Errorf("peers are %q and %q: give the URLs of both retrievers", peers.BM25, peers.HNSW)
	}
	g.bm25, g.hnsw = Peer{peers.BM25, identity.RoleBM25}, Peer{peers.HNSW, identity.RoleHNSW}
	g.client = newClient()
	g.refusals = rate.Sometimes{Interval: time.Second}
	return nil
}

// Authenticate returns the principal that a token proves.
type Authenticate func(token string) (access.Identity, error)

// Handler serves POST /v1/search to callers whom verify accepts. Users and evaluations have a handler each.
func (g *Gateway) Handler(verify Authenticate) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/search", g.Metrics.observe(func(w http.ResponseWriter, r *http.Request) int {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			return writeProblem(w, problem(http.StatusMethodNotAllowed, "MethodNotAllowed", "use POST"))
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		response, err := g.answer(ctx, w, r, verify)
		if err != nil {
			var p *Problem
			if !errors.As(err, &p) && r.Context().Err() == nil {
				g.Log.Error("a search failed", "error", err)
			}
			return writeProblem(w, err)
		}
		return writeJSON(w, response)
	}))
	mux.HandleFunc("/", notFound)
	return mux
}

func (g *Gateway) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, verify Authenticate) (*Response, error) {
	id, err := verify(identity.Bearer(r.Header.Get("Authorization")))
	if errors.Is(err, identity.ErrUnavailable) {
		g.Log.Error("no token can be verified", "error", err)
		return nil, unavailable("tokens cannot be verified at present")
	}
	if err != nil {
		// The caller is not told why; an operator who looks for a wrong claim is, at most once a second.
		g.refusals.Do(func() { g.Log.Info("a token was refused", "reason", err.Error()) })
		return nil, unauthorized()
	}
	var request Request
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return nil, err
	}
	return g.Search(ctx, id, request)
}

const (
	attempts   = 4
	retryPause = 100 * time.Millisecond
)

// Search answers one request of a verified principal. All of one answer is of one epoch of access data, the newest one
// when it is given; while that moves, or a retriever lags behind, it begins anew, and gives up after a few attempts.
func (g *Gateway) Search(ctx context.Context, id access.Identity, request Request) (*Response, error) {
	topK, err := request.check(g.topK)
	if err != nil {
		return nil, err
	}
	if id.User == "" || id.Tenant != g.Tenant {
		return nil, unauthorized()
	}
	for attempt := 1; ; attempt++ {
		overlay, err := g.Overlays.Fresh()
		if err != nil {
			return nil, err
		}
		hits, bound, err := g.rank(ctx, id, overlay, request.Query, max(g.candidates, topK))
		// What newer access data may hide is not even sent to the reranker.
		if err == nil && g.Overlays.Epoch() == overlay.Epoch {
			reranked := g.rerank(ctx, request.Query, hits, bound)
			if g.Overlays.Epoch() == overlay.Epoch {
				return g.respond(hits, topK, reranked, request.Explain == "Ranks"), nil
			}
		}
		if err != nil && !errors.Is(err, errTransient) {
			return nil, err
		}
		if attempt == attempts {
			return nil, fmt.Errorf("no consistent answer after %d attempts: %w", attempts, cmp.Or(err, errTransient))
		}
		if err != nil {
			g.catchUp(ctx)
		}
	}
}

// catchUp reads newer access data, and gives a retriever that lags behind a moment.
func (g *Gateway) catchUp(ctx context.Context) {
	before := g.Overlays.Epoch()
	if err := g.Overlays.Refresh(ctx); err == nil && g.Overlays.Epoch() > before {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(retryPause):
	}
}

// located is a candidate with its passage.
type located struct {
	candidate
	segment.Chunk
}

// rank returns all visible candidates in their fused order, identical passages folded, and the bound of their BM25 scores.
func (g *Gateway) rank(ctx context.Context, id access.Identity, overlay *access.Overlay, query string, k int) (hits []located, bound float64, err error) {
	ask := retrieveRequest{Query: query, K: k}
	first, err := g.both(ctx, id, overlay.Epoch, ask, ask)
	if err != nil {
		return nil, 0, err
	}
	bound = first[0].Bound
	candidates := union(first[0].Hits, first[1].Hits)
	if g.fusion.crossScored() || g.reranking.recipe.NeedsBM25() {
		if err := g.crossScore(ctx, id, overlay.Epoch, query, candidates); err != nil {
			return nil, 0, err
		}
	}
	hits = make([]located, len(candidates))
	for i, c := range candidates {
		c.fused = g.fusion.score(c, bound)
		c.score = c.fused
		hits[i] = located{c, g.Chunks.At(c.chunk)}
		// The retrievers have filtered by this very overlay: a hit that fails here means that a filter is broken.
		if c.chunk >= g.Chunks.Len() || !g.Table.Permits(hits[i].Document, id, overlay) {
			g.Metrics.Violations.Inc()
			return nil, 0, errors.New("a retriever returned a hit that its reader may not see")
		}
	}
	order(hits)
	hits = foldIdentical(hits)
	for i := range hits {
		hits[i].ranks.Fused = i + 1
	}
	return hits, bound, nil
}

// both asks both retrievers at once.
func (g *Gateway) both(ctx context.Context, id access.Identity, epoch int64, bm25, hnsw retrieveRequest) (out [2]*retrieveResponse, err error) {
	group, ctx := errgroup.WithContext(ctx)
	for i, ask := range []struct {
		peer Peer
		in   retrieveRequest
	}{{g.bm25, bm25}, {g.hnsw, hnsw}} {
		if ask.in.K == 0 && len(ask.in.Also) == 0 {
			out[i] = &retrieveResponse{}
			continue
		}
		group.Go(func() (err error) {
			out[i], err = g.retrieve(ctx, ask.peer, id, epoch, ask.in)
			return err
		})
	}
	return out, group.Wait()
}

// crossScore lets each retriever score what only the other one returned.
func (g *Gateway) crossScore(ctx context.Context, id access.Identity, epoch int64, query string, candidates []candidate) error {
	noBM25 := missing(candidates, func(r Ranks) int { return r.BM25 })
	noHNSW := missing(candidates, func(r Ranks) int { return r.HNSW })
	answers, err := g.both(ctx, id, epoch, retrieveRequest{Query: query, Also: noBM25}, retrieveRequest{Query: query, Also: noHNSW})
	if err != nil {
		return err
	}
	bm25, hnsw := answers[0].Also, answers[1].Also
	for i := range candidates {
		c := &candidates[i]
		if c.ranks.BM25 == 0 {
			c.scores.BM25, bm25 = bm25[0], bm25[1:]
		}
		if c.ranks.HNSW == 0 {
			c.scores.HNSW, hnsw = hnsw[0], hnsw[1:]
		}
	}
	return nil
}

// foldIdentical keeps the first of passages with the same text. It works on visible passages alone, so that a hidden twin
// never takes the place of a visible one.
func foldIdentical(hits []located) []located {
	seen := map[string]bool{}
	kept := hits[:0]
	for _, h := range hits {
		if !seen[h.Text] {
			seen[h.Text] = true
			kept = append(kept, h)
		}
	}
	return kept
}

func (g *Gateway) respond(hits []located, topK int, reranked, explain bool) *Response {
	out := &Response{Tenant: g.Tenant, Index: g.Index, Reranked: reranked, Hits: []Hit{}}
	for _, h := range hits[:min(topK, len(hits))] {
		hit := Hit{
			Document: h.Document, Chunk: h.Ordinal, Start: h.Start, End: h.End, Headings: append([]string{}, h.Headings...),
			Page: h.Page, Modified: h.Modified, Text: h.Text, Score: h.score,
		}
		if explain {
			ranks, scores := h.ranks, h.scores
			hit.Ranks, hit.Scores = &ranks, &scores
		}
		out.Hits = append(out.Hits, hit)
	}
	return out
}

// SelfQuery proves that both retrievers answer this gateway, with access data of its epoch. It asks as a principal that no
// rule names, and looks at no hit.
func (g *Gateway) SelfQuery(ctx context.Context) error {
	overlay, err := g.Overlays.Fresh()
	if err != nil {
		return err
	}
	if g.Chunks.Len() == 0 {
		return errors.New("the index has no chunk")
	}
	ask := retrieveRequest{Query: "readiness", K: 1}
	_, err = g.both(ctx, access.Identity{Tenant: g.Tenant, User: "\x00self-query"}, overlay.Epoch, ask, ask)
	return err
}
