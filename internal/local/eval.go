package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/beir"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/source"
)

// Set is questions and the documents that they are about.
type Set struct {
	Documents artifact.Bucket
	Questions []eval.Question
	// Digest is the sha256 of the eval set. It seeds the intervals, so that a Job that measures the same set shows the same.
	Digest string
	// Notes say what was left out of the set.
	Notes []string

	folder string // of the documents, where they are files
}

// ReadBEIR reads a labelled set of research, see package beir.
func ReadBEIR(ctx context.Context, dir string) (Set, error) {
	s, err := beir.Read(dir)
	if err != nil {
		return Set{}, err
	}
	documents, err := s.Bucket(ctx)
	return Set{Documents: documents, Questions: s.Questions, Digest: artifact.Digest(s.EvalSet), Notes: s.Notes}, err
}

// ReadSet reads a folder of documents and an eval set about it.
func ReadSet(documents, file string) (Set, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Set{}, fmt.Errorf("read the eval set: %w", err)
	}
	questions, err := eval.ParseSet(text)
	if err != nil {
		return Set{}, fmt.Errorf("eval set %s: %w", file, err)
	}
	return Set{folder: documents, Documents: newFolder(documents), Questions: questions, Digest: artifact.Digest(text)}, nil
}

// Cache is the folder for what is made of the set in dir, in the user's cache: dir itself may be read-only. It is named after
// the absolute path, and what it holds after the contents, so that a changed set is made anew and nothing else.
func Cache(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the index: %w: name one with --out", err)
	}
	digest := strings.TrimPrefix(artifact.Digest([]byte(absolute)), "sha256:")
	return filepath.Join(root, "quarry", filepath.Base(absolute)+"-"+digest[:12]), nil
}

// Open builds the index of the set's documents in the folder out, as far as it is not there, and opens it.
func (set Set) Open(ctx context.Context, out string, r Recipe, progress Progress, log *slog.Logger) (*Stack, error) {
	if set.folder != "" {
		if err := checkFolders(set.folder, out); err != nil {
			return nil, err
		}
	}
	b, err := prepare(ctx, set.Documents, out, r, progress)
	if err != nil {
		return nil, err
	}
	return open(ctx, out, b, log)
}

// System is one way to rank the chunks of an index.
type System string

// The systems that are compared. Hybrid fuses both retrievers, HybridRerank orders its best passages once more.
const (
	BM25         System = "bm25"
	HNSW         System = "hnsw"
	Hybrid       System = "hybrid"
	HybridRerank System = "hybrid+rerank"
)

// Systems lists them.
func Systems() []System { return []System{BM25, HNSW, Hybrid, HybridRerank} }

func (s System) unknown() error {
	return fmt.Errorf("system %q is not known: use bm25, hnsw, hybrid or hybrid+rerank", s)
}

// Metrics are what the systems are compared by.
func Metrics() []eval.Metric {
	metrics := []eval.Metric{{Name: eval.NDCG, K: 10}}
	for _, k := range []int{1, 5, 10, 20, depth} {
		metrics = append(metrics, eval.Metric{Name: eval.Recall, K: k})
	}
	return append(metrics, eval.Metric{Name: eval.MRR, K: depth})
}

// depth is the deepest rank that is measured, in documents, or in passages where a question labels quotes.
const depth = 100

// RerankOf is how hybrid+rerank reranks: as the recipe says, or with what suits its index where that says None.
func RerankOf(r Recipe) v1alpha1.RerankSpec {
	switch {
	case r.Retrieval.Rerank.Type != "" && r.Retrieval.Rerank.Type != v1alpha1.RerankNone:
		return r.Retrieval.Rerank
	case r.Indexing.Embedding.Model == embed.MiniLM: // whose vectors a Builtin reranker would only compute again
		return v1alpha1.RerankSpec{Type: v1alpha1.RerankLateInteraction}
	}
	return v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}
}

// Measure asks one system every question of the set. Hybrid and HybridRerank answer through the same gateway as in a
// cluster; BM25 and HNSW are the retrievers' rankers. Questions without a usable answer are an error.
func (s *Stack) Measure(ctx context.Context, set Set, system System, progress Progress) (eval.Report, error) {
	snapshot, err := source.ReadSnapshot(ctx, s.bucket, s.built.Config.Snapshot)
	if err != nil {
		return eval.Report{}, err
	}
	held := make(map[string]bool, len(snapshot.Entries))
	for _, entry := range snapshot.Entries {
		held[entry.Key] = true
	}
	in := eval.RunInput{
		Run: "local", Questions: set.Questions, EvalSetDigest: set.Digest, Metrics: Metrics(), Concurrency: 2 * runtime.GOMAXPROCS(0),
		InSnapshot:  func(document string) bool { return held[document] },
		Access:      func(ctx context.Context) (eval.RawAccess, error) { return s.rawAccess(ctx, set.Documents) },
		AccessEpoch: s.overlays.Epoch(),
	}
	if system == HybridRerank { // each question keeps all cores busy by itself, and has a time limit
		in.Concurrency = runtime.GOMAXPROCS(0)
	}
	if progress != nil {
		in.Progress = func(done, total int) { progress(string(system), done, total) }
	}
	if in.Subject, in.Client, err = s.subject(ctx, system); err != nil {
		return eval.Report{}, err
	}
	report, err := eval.Run(ctx, in)
	if err != nil {
		return report, err
	}
	if n := len(report.Errors); n > 0 {
		return report, fmt.Errorf("%s: %d of %d questions got no answer, first %s: %s", system, n, len(set.Questions), report.Errors[0].ID, report.Errors[0].Message)
	}
	return report, nil
}

// subject is a system as an evaluation asks it.
func (s *Stack) subject(ctx context.Context, system System) (eval.Gateway, *http.Client, error) {
	g := eval.Gateway{Index: s.built.Config.Index, VersionDigest: s.stack.VersionDigest, URL: "http://gateway"}
	retrieval := s.built.Config.Retrieval
	switch system {
	case BM25:
		g.Ask = s.ask(identity.RoleBM25)
		return g, nil, nil
	case HNSW:
		g.Ask = s.ask(identity.RoleHNSW)
		return g, nil, nil
	case Hybrid:
		retrieval.Rerank = v1alpha1.RerankSpec{}
	case HybridRerank:
		retrieval.Rerank, g.Reranks = RerankOf(s.built.Recipe), true
	default:
		return g, nil, system.unknown()
	}
	other, err := s.With(ctx, retrieval)
	if err != nil {
		return g, nil, err
	}
	private, public, err := keyPair()
	if err != nil {
		return g, nil, err
	}
	signer, err := identity.NewSigner(s.stack, private)
	if err != nil {
		return g, nil, err
	}
	g.Token = func(p eval.Principal) (string, error) { return signer.IssueEval(s.identity(p), "local") }
	client, err := other.evalClient(public)
	return g, client, err
}

func (s *Stack) identity(p eval.Principal) access.Identity {
	return access.Identity{Tenant: s.stack.Tenant, User: p.User, Groups: p.Groups}
}

// ask lets one retriever answer by itself, with as many passages as it takes for so many distinct documents.
func (s *Stack) ask(role identity.Role) func(context.Context, eval.Question, int) ([]eval.Hit, error) {
	ranker := s.retrievers[role].Ranker
	return func(ctx context.Context, q eval.Question, _ int) ([]eval.Hit, error) {
		overlay, err := s.overlays.Fresh()
		if err != nil {
			return nil, err
		}
		allow := s.loaded.Access.AllowSet(s.identity(q.As), overlay)
		for k := depth; ; k *= 4 {
			ranking, err := ranker.Search(q.Question, allow, k)
			if err != nil {
				return nil, err
			}
			hits := make([]eval.Hit, len(ranking.Hits))
			distinct := map[string]bool{}
			for i, h := range ranking.Hits {
				c := s.loaded.Chunks.At(h.Chunk)
				distinct[c.Document] = true
				hits[i] = eval.Hit{Document: c.Document, Start: int(c.Start), End: int(c.End), Text: c.Text, Score: h.Score}
			}
			if len(hits) < k || len(distinct) >= depth || q.Passages() {
				return hits, ctx.Err()
			}
		}
	}
}

// rawAccess reads rules and sidecars where they are written, past what the build made of them.
func (s *Stack) rawAccess(ctx context.Context, documents artifact.Bucket) (eval.RawAccess, error) {
	spec := s.built.Recipe.Access
	raw := eval.RawFromSpec(spec)
	err := documents.List(ctx, "", func(i artifact.Info) error {
		document, ok := strings.CutSuffix(i.Key, spec.SidecarSuffix)
		if !ok || spec.SidecarSuffix == "" {
			return nil
		}
		data, _, err := artifact.ReadAll(ctx, documents, i.Key, artifact.Read{MaxBytes: access.MaxSidecar})
		if errors.Is(err, artifact.ErrTooLarge) {
			data, err = nil, nil
		}
		raw.Sidecars[document] = eval.RawSidecar(data)
		return err
	})
	return raw, err
}
