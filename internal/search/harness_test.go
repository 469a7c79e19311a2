package search

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/hnsw"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/rerank"
	"quarry.dev/quarry/internal/segment"
)

// document of a test corpus: each text is one chunk.
type document struct {
	key   string
	allow access.Allow
	texts []string
}

// hashed encodes a text as a bag of hashed words: close texts have close vectors.
type hashed struct{}

func (hashed) Dimensions() int             { return 16 }
func (hashed) Digest() string              { return "hashed" }
func (hashed) Kernels() string             { return "exact" }
func (hashed) CountTokens(text string) int { return len(strings.Fields(text)) }
func (hashed) Encode(texts []string) [][]float32 {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, 16)
		for _, w := range strings.Fields(strings.ToLower(text)) {
			h := fnv.New32a()
			_, _ = h.Write([]byte(w))
			for d := range v {
				v[d] += float32(int(h.Sum32()>>d&3)) - 1.5
			}
		}
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		for d := range v {
			if sum > 0 {
				v[d] = float32(float64(v[d]) / math.Sqrt(sum))
			}
		}
		out[i] = v
	}
	return out
}

// recorder keeps the passages that reach a Scorer, and fails or answers wrongly when it is told to.
type recorder struct {
	rerank.Scorer
	mu     sync.Mutex
	sent   []string
	answer func(ctx context.Context, passages []string) ([]float64, error)
}

func (r *recorder) Score(ctx context.Context, query string, passages []string) ([]float64, error) {
	r.mu.Lock()
	r.sent = append(r.sent, passages...)
	r.mu.Unlock()
	if r.answer != nil {
		return r.answer(ctx, passages)
	}
	return r.Scorer.Score(ctx, query, passages)
}

// taken returns what was sent since it was called last.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.sent
	r.sent = nil
	return out
}

// storage is a mutable overlay.
type storage struct {
	mu      sync.Mutex
	overlay access.Overlay
	err     error
}

func (s *storage) read(context.Context) (access.Overlay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlay, s.err
}

func (s *storage) set(epoch int64, entries map[string]access.OverlayEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlay = access.Overlay{Epoch: epoch, VerifiedAt: time.Now(), Entries: entries}
}

// stack is a whole version in one process.
type stack struct {
	gateway    *Gateway
	bm25, hnsw *Retriever
	reranker   *Reranker
	scorer     *recorder
	storage    *storage
	routes     InProcess
	log        *bytes.Buffer
	evalSigner *identity.Signer
	eval       *identity.InternalVerifier
}

func keyPair(t *testing.T) (private, public []byte) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := x509.MarshalPKCS8PrivateKey(key)
	b, _ := x509.MarshalPKIXPublicKey(pub)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b})
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var testStack = identity.Stack{Tenant: "acme", VersionDigest: "sha256:v"}

// part is a segment of a test corpus: dead names those of its documents that are gone from it.
type part struct {
	documents []document
	dead      map[string]bool
}

// opened is what a stack needs of an index.
type opened struct {
	table    *access.Table
	numbers  *segment.Numbers
	passages *segment.Passages
	bm25     []*bm25.Segment
	hnsw     []*hnsw.Index
}

// openParts builds segments by hand, in the order in which the build stage does: by document key, then position.
func openParts(t *testing.T, parts []part) (o opened) {
	t.Helper()
	var tables []*access.Table
	var dead []*roaring.Bitmap
	var files []*segment.Chunks
	for _, p := range parts {
		documents := slices.Clone(p.documents)
		slices.SortFunc(documents, func(a, b document) int { return strings.Compare(a.key, b.key) })
		builder := bm25.NewBuilder(must[bm25.Analyzer](t)(bm25.NewAnalyzer("english")))
		var chunks []segment.Chunk
		var texts []string
		var docs []access.Doc
		gone := roaring.New()
		for rank, d := range documents {
			if p.dead[d.key] {
				gone.Add(uint32(rank))
			}
			docs = append(docs, access.Doc{Key: d.key, Allow: d.allow, FirstChunk: uint32(len(chunks)), Chunks: uint32(len(d.texts))})
			for i, text := range d.texts {
				builder.Add(text)
				texts = append(texts, text)
				chunks = append(chunks, segment.Chunk{Document: d.key, Ordinal: uint32(i), End: uint32(len(text)), Text: text})
			}
		}
		tables, dead = append(tables, must[*access.Table](t)(access.NewTable(docs))), append(dead, gone)
		files = append(files, must[*segment.Chunks](t)(segment.Open(must[[]byte](t)(segment.Encode(chunks)))))
		o.bm25 = append(o.bm25, must[*bm25.Segment](t)(bm25.Open(builder.Bytes())))
		vectors, graph, err := hnsw.Build(hashed{}.Encode(texts), hnsw.Params{M: 8, EfConstruction: 32})
		if err != nil {
			t.Fatal(err)
		}
		o.hnsw = append(o.hnsw, must[*hnsw.Index](t)(hnsw.Open(vectors, graph)))
	}
	var err error
	if o.table, o.numbers, err = segment.Merge(tables, dead); err != nil {
		t.Fatal(err)
	}
	o.passages = segment.NewPassages(o.numbers, files)
	return o
}

// newStack has one segment of all documents.
func newStack(t *testing.T, documents []document, recipe v1alpha1.RetrievalSpec) *stack {
	t.Helper()
	return newStackOf(t, openParts(t, []part{{documents: documents}}), recipe)
}

func newStackOf(t *testing.T, o opened, recipe v1alpha1.RetrievalSpec) *stack {
	t.Helper()
	s := &stack{storage: &storage{}, log: &bytes.Buffer{}}
	s.storage.set(1, nil)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	private, public := keyPair(t)
	retriever := func(role identity.Role, ranker Ranker) *Retriever {
		overlays := NewOverlays(s.storage.read, 0)
		if err := overlays.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &Retriever{
			Index: "support-acme-1", Verifier: must[*identity.InternalVerifier](t)(identity.NewInternalVerifier(testStack, role, public)),
			Table: o.table, Overlays: overlays, Ranker: ranker, Metrics: NewMetrics(string(role), overlays), Log: log,
		}
	}
	s.bm25 = retriever(identity.RoleBM25, must[Ranker](t)(NewLexical(o.numbers, o.bm25, v1alpha1.BM25Spec{})))
	s.hnsw = retriever(identity.RoleHNSW, must[Ranker](t)(NewDense(o.numbers, o.hnsw, hashed{}, "hashed")))
	for _, r := range []*Retriever{s.bm25, s.hnsw} {
		if err := r.SelfQuery(Texts(o.passages)); err != nil && o.passages.Len() > 0 {
			t.Fatal(err)
		}
	}
	overlays := NewOverlays(s.storage.read, 0)
	if err := overlays.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.gateway = &Gateway{
		Tenant: "acme", Index: "support-acme-1", Signer: must[*identity.Signer](t)(identity.NewSigner(testStack, private)),
		Table: o.table, Chunks: o.passages, Overlays: overlays, Metrics: NewMetrics("gateway", overlays), Log: log,
	}
	if err := s.gateway.SetRecipe(recipe, v1alpha1.EmbeddingSpec{Model: embed.Static256}, Peers{"http://bm25", "http://hnsw/", "http://reranker"}); err != nil {
		t.Fatal(err)
	}
	scoring := rerank.NewMetrics(nil)
	s.scorer = &recorder{Scorer: rerank.NewBuiltin(hashed{}, scoring)}
	s.reranker = &Reranker{Index: "support-acme-1", Verifier: must[*identity.InternalVerifier](t)(identity.NewInternalVerifier(testStack, identity.RoleReranker, public)),
		Scorer: s.scorer, Metrics: NewMetrics("reranker", nil), Scoring: scoring, Log: log}
	s.routes = InProcess{"bm25": s.bm25.Handler(), "hnsw": s.hnsw.Handler(), "reranker": s.reranker.Handler()}
	s.gateway.SetTransport(s.routes)
	evalPrivate, evalPublic := keyPair(t)
	s.evalSigner = must[*identity.Signer](t)(identity.NewSigner(testStack, evalPrivate))
	s.eval = must[*identity.InternalVerifier](t)(identity.NewInternalVerifier(testStack, identity.RoleEval, evalPublic))
	return s
}

// fakeUsers accepts "user" or "user:group,group" as a token.
func fakeUsers(token string) (access.Identity, error) {
	user, groups, _ := strings.Cut(token, ":")
	if user == "" {
		return access.Identity{}, identity.ErrRefused
	}
	id := access.Identity{Tenant: "acme", User: user}
	if groups != "" {
		id.Groups = strings.Split(groups, ",")
	}
	return id, nil
}

// post sends a body to the users' handler, and returns status and answer.
func (s *stack) post(t *testing.T, token, body string) (int, string) {
	t.Helper()
	return request(t, s.gateway.Handler(fakeUsers), "/v1/search", token, body)
}

func request(t *testing.T, handler http.Handler, path, token, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set(epochHeader, "0")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	answer, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusOK {
		var p Problem
		if err := json.Unmarshal(answer, &p); err != nil || p.Status != w.Code || p.Title == "" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("HTTP %d is no problem document: %s", w.Code, answer)
		}
		if strings.Contains(string(answer), `"hits"`) {
			t.Errorf("an error with hits: %s", answer)
		}
	}
	return w.Code, string(answer)
}

func (s *stack) documents(t *testing.T, token, query string) []string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"query": query, "topK": 100})
	code, answer := s.post(t, token, string(body))
	if code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", code, answer)
	}
	var out Response
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range out.Hits {
		names = append(names, h.Document)
	}
	return names
}

func allow(t *testing.T, names ...string) access.Allow {
	t.Helper()
	var list []access.Principal
	for _, n := range names {
		switch kind, name, _ := strings.Cut(n, ":"); kind {
		case "group":
			list = append(list, access.Principal{Type: access.Group, Name: name})
		case "user":
			list = append(list, access.Principal{Type: access.User, Name: name})
		default:
			list = append(list, access.Principal{Type: access.Everyone})
		}
	}
	return must[access.Allow](t)(access.NewAllow(list...))
}

// publish makes newer access data, which the gateway polls at once; the retrievers follow by the epoch that it sends.
func (s *stack) publish(t *testing.T, epoch int64, entries map[string]access.OverlayEntry) {
	t.Helper()
	s.storage.set(epoch, entries)
	if err := s.gateway.Overlays.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// everything allows all chunks.
func (s *stack) everything() *roaring.Bitmap {
	all := roaring.New()
	all.AddRange(0, uint64(s.gateway.Chunks.Len()))
	return all
}

// sentFor asks, and returns the passages that were sent to the reranker.
func (s *stack) sentFor(t *testing.T, query string) []string {
	s.scorer.taken()
	s.documents(t, "ann:hr", query)
	return s.scorer.taken()
}

// counter is the value of a counter with that label.
func counter(t *testing.T, m *Metrics, name, label string) float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if labels, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(labels, name+"{") && strings.Contains(labels, `"`+label+`"`) {
			return must[float64](t)(strconv.ParseFloat(value, 64))
		}
	}
	return 0
}
