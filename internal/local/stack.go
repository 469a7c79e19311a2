package local

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/pod"
	"quarry.dev/quarry/internal/search"
	"quarry.dev/quarry/internal/segment"
)

// Stack is a built index with its gateway and retrievers, in this process.
type Stack struct {
	Gateway *search.Gateway
	built   built
	loaded  *segment.Loaded
	bucket  artifact.Bucket
	stack   identity.Stack
}

// Open loads what Build left in the folder out, and proves that it answers.
func Open(ctx context.Context, out string, log *slog.Logger) (*Stack, error) {
	data, err := os.ReadFile(filepath.Join(out, configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%q holds no index: run quarry local build first", out)
	}
	if err != nil {
		return nil, err
	}
	s := &Stack{bucket: artifact.NewDir(out)}
	if err := json.Unmarshal(data, &s.built); err != nil {
		return nil, fmt.Errorf("%s: %w: build again", configFile, err)
	}
	c := s.built.Config
	s.stack = identity.Stack{Tenant: c.Tenant, VersionDigest: c.VersionDigest}
	if s.loaded, err = segment.Load(ctx, s.bucket, c.ContentDigest, c.ManifestDigest, filepath.Join(out, "loaded"), segment.RoleAll); err != nil {
		return nil, err
	}
	if err := s.start(ctx, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close unloads the index.
func (s *Stack) Close() error { return s.loaded.Close() }

// start wires gateway and retrievers as in a cluster, with keys of this process and without a network.
func (s *Stack) start(ctx context.Context, log *slog.Logger) error {
	private, public, err := keyPair()
	if err != nil {
		return err
	}
	// A folder has no sync that goes on: its access data does not grow stale.
	overlays := search.NewOverlays(pod.OverlayReader(s.bucket), math.MaxInt64)
	if err := overlays.Refresh(ctx); err != nil {
		return err
	}
	lexical, err := search.NewLexical(s.loaded.BM25, s.built.Config.Indexing.BM25)
	if err != nil {
		return err
	}
	encoder, err := embed.Builtin(s.built.Config.Indexing.Embedding.Model)
	if err != nil {
		return err
	}
	dense, err := search.NewDense(s.loaded.HNSW, encoder, s.loaded.Manifest.Attestation.EmbeddingModelDigest)
	if err != nil {
		return err
	}
	servers := search.InProcess{}
	for role, ranker := range map[identity.Role]search.Ranker{identity.RoleBM25: lexical, identity.RoleHNSW: dense} {
		r := &search.Retriever{Index: s.built.Config.Index, Table: s.loaded.Access, Overlays: overlays, Ranker: ranker,
			Metrics: search.NewMetrics(string(role), overlays), Log: log}
		if r.Verifier, err = identity.NewInternalVerifier(s.stack, role, public); err != nil {
			return err
		}
		servers[string(role)] = r.Handler()
	}
	s.Gateway = &search.Gateway{Tenant: s.stack.Tenant, Index: s.built.Config.Index, Table: s.loaded.Access, Chunks: s.loaded.Chunks,
		Overlays: overlays, Metrics: search.NewMetrics("gateway", overlays), Log: log}
	if s.Gateway.Signer, err = identity.NewSigner(s.stack, private); err != nil {
		return err
	}
	if err := s.Gateway.SetRecipe(s.built.Config.Retrieval, "http://bm25", "http://hnsw"); err != nil {
		return err
	}
	s.Gateway.SetTransport(servers)
	return s.Gateway.SelfQuery(ctx)
}

// Search asks as the principals that as names.
func (s *Stack) Search(ctx context.Context, as access.Identity, request search.Request) (*search.Response, error) {
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
