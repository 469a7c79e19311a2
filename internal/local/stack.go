package local

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/pod"
	"quarry.dev/quarry/internal/rerank"
	"quarry.dev/quarry/internal/search"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/stage"
)

// Stack is a built index with its gateway and retrievers, in this process.
type Stack struct {
	Gateway *search.Gateway
	// Report is what the build of the index said.
	Report     stage.Report
	built      built
	loaded     *segment.Loaded
	bucket     artifact.Bucket
	stack      identity.Stack
	log        *slog.Logger
	overlays   *search.Overlays
	retrievers map[identity.Role]*search.Retriever
	memory     *memory // of what the retrievers answered; nil before Vary
}

// Open loads what Build left in the folder out, and proves that it answers.
func Open(ctx context.Context, out string, log *slog.Logger) (*Stack, error) {
	b, err := readBuilt(out)
	if err != nil {
		return nil, err
	}
	return open(ctx, out, b, log)
}

func open(ctx context.Context, out string, b built, log *slog.Logger) (*Stack, error) {
	c := b.Config
	s := &Stack{bucket: artifact.NewDir(out), built: b, Report: b.Report, log: log, stack: identity.Stack{Tenant: c.Tenant, VersionDigest: c.VersionDigest}}
	var err error
	if s.loaded, err = segment.Load(ctx, s.bucket, c.ContentDigest, c.ManifestDigest, filepath.Join(out, "loaded"), segment.RoleAll); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// With searches the same index by another recipe. It shares the loaded index, which only the Stack that Open returned closes.
func (s *Stack) With(ctx context.Context, retrieval v1alpha1.RetrievalSpec) (*Stack, error) {
	other := *s
	other.built.Config.Retrieval, other.built.Recipe.Retrieval = retrieval, retrieval
	return &other, other.start(ctx)
}

// Recipe is what the index was built by, and how it is searched.
func (s *Stack) Recipe() Recipe { return s.built.Recipe }

// Close unloads the index.
func (s *Stack) Close() error { return s.loaded.Close() }

// start wires gateway and retrievers as in a cluster, with keys of this process and without a network.
func (s *Stack) start(ctx context.Context) error {
	private, public, err := keyPair()
	if err != nil {
		return err
	}
	// A folder has no sync that goes on: its access data does not grow stale.
	s.overlays = search.NewOverlays(pod.OverlayReader(s.bucket), math.MaxInt64)
	if err := s.overlays.Refresh(ctx); err != nil {
		return err
	}
	lexical, err := search.NewLexical(s.loaded.Numbers, s.loaded.BM25, s.built.Config.Indexing.BM25)
	if err != nil {
		return err
	}
	encoder, err := embed.Builtin(s.built.Config.Indexing.Embedding.Model)
	if err != nil {
		return err
	}
	dense, err := search.NewDense(s.loaded.Numbers, s.loaded.HNSW, encoder, s.loaded.Manifest.Attestation.EmbeddingModelDigest)
	if err != nil {
		return err
	}
	servers := search.InProcess{}
	s.retrievers = map[identity.Role]*search.Retriever{}
	for role, ranker := range map[identity.Role]search.Ranker{identity.RoleBM25: lexical, identity.RoleHNSW: dense} {
		r := &search.Retriever{Index: s.built.Config.Index, Table: s.loaded.Access, Overlays: s.overlays, Ranker: s.memory.wrap(role, s.built.Config.Indexing.BM25, ranker),
			Metrics: search.NewMetrics(string(role), s.overlays), Log: s.log}
		if r.Verifier, err = identity.NewInternalVerifier(s.stack, role, public); err != nil {
			return err
		}
		s.retrievers[role] = r
		servers[string(role)] = r.Handler()
	}
	s.Gateway = &search.Gateway{Tenant: s.stack.Tenant, Index: s.built.Config.Index, Table: s.loaded.Access, Chunks: s.loaded.Chunks,
		Overlays: s.overlays, Metrics: search.NewMetrics("gateway", s.overlays), Log: s.log}
	if s.Gateway.Signer, err = identity.NewSigner(s.stack, private); err != nil {
		return err
	}
	peers := search.Peers{BM25: "http://bm25", HNSW: "http://hnsw", Reranker: "http://reranker"}
	if err := s.Gateway.SetRecipe(s.built.Config.Retrieval, s.built.Config.Indexing.Embedding, peers); err != nil {
		return err
	}
	if servers["reranker"], err = s.reranker(public); err != nil {
		return err
	}
	s.Gateway.SetTransport(servers)
	return s.Gateway.SelfQuery(ctx)
}

// reranker serves what the recipe reranks with; without it, nothing.
func (s *Stack) reranker(public []byte) (http.Handler, error) {
	spec := s.built.Config.Retrieval.Rerank
	if spec.Type == "" || spec.Type == v1alpha1.RerankNone {
		return http.NotFoundHandler(), nil
	}
	r := &search.Reranker{Index: s.built.Config.Index, Metrics: search.NewMetrics("reranker", nil), Scoring: rerank.NewMetrics(nil), Log: s.log}
	var err error
	if r.Verifier, err = identity.NewInternalVerifier(s.stack, identity.RoleReranker, public); err != nil {
		return nil, err
	}
	if r.Scorer, err = rerank.New(spec, rerank.Options{Metrics: r.Scoring}); err != nil {
		return nil, err
	}
	return r.Handler(), nil
}

// Search asks as the principals that as names.
func (s *Stack) Search(ctx context.Context, as access.Identity, request search.Request) (*search.Response, error) {
	if !utf8.ValidString(request.Query) {
		return nil, errors.New("query is not valid UTF-8: write it in the terminal's UTF-8 locale")
	}
	as.Tenant = s.stack.Tenant
	return s.Gateway.Search(ctx, as, request)
}

// ParseAs reads "user:ann,group:hr": one user and any number of groups.
func ParseAs(text string) (access.Identity, error) {
	var id access.Identity
	for part := range strings.SplitSeq(text, ",") {
		switch kind, name, _ := strings.Cut(strings.TrimSpace(part), ":"); {
		case kind == "user" && name != "" && id.User == "":
			id.User = name
		case kind == "group" && name != "":
			id.Groups = append(id.Groups, name)
		default:
			return id, fmt.Errorf("as: %q is not understood: write one user and any groups, such as user:ann,group:hr", part)
		}
	}
	if id.User == "" {
		return id, fmt.Errorf("as: %q names no user: write for instance user:ann,group:hr", text)
	}
	return id, nil
}

func keyPair() (private, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	a, errA := x509.MarshalPKCS8PrivateKey(key)
	b, errB := x509.MarshalPKIXPublicKey(pub)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b}), errors.Join(errA, errB)
}

// evalClient answers requests with tokens of an evaluation, as the evaluation port does.
func (s *Stack) evalClient(public []byte) (*http.Client, error) {
	verifier, err := identity.NewInternalVerifier(s.stack, identity.RoleEval, public)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: search.InProcess{"gateway": s.Gateway.Handler(verifier.Verify)}}, nil
}
