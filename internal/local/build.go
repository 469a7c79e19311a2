// Package local builds, asks and judges an index of a folder of files, without a cluster: the same stages and the same
// servers as in one, in one process. It is for trying a recipe on a laptop and in CI.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/source"
	"quarry.dev/quarry/internal/stage"
)

// Recipe is the content of a recipe file: the same fields as in a Corpus and a RetrievalPipeline.
type Recipe struct {
	Access    v1alpha1.AccessSpec    `json:"access,omitzero"`
	Indexing  v1alpha1.IndexingSpec  `json:"indexing,omitzero"`
	Retrieval v1alpha1.RetrievalSpec `json:"retrieval,omitzero"`
}

// ReadRecipe reads a YAML file, refuses unknown fields, and fills in the API's defaults; without a recipe, or with one that
// says nothing of access, everyone reads every document.
func ReadRecipe(path string) (Recipe, error) { return readRecipe(path, v1alpha1.IndexingSpec{}) }

// ReadBEIRRecipe differs where a recipe says nothing: a document is one chunk, whose title is in its text already.
func ReadBEIRRecipe(path string) (Recipe, error) {
	return readRecipe(path, v1alpha1.IndexingSpec{
		Chunking: v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkWhole}, Context: v1alpha1.ContextSpec{Type: v1alpha1.ContextNone},
	})
}

func readRecipe(path string, silent v1alpha1.IndexingSpec) (Recipe, error) {
	r := Recipe{Access: v1alpha1.AccessSpec{Default: v1alpha1.AccessEveryone}}
	r.Indexing.Chunking.Overlap = 32 // unless it is written, be it as 0
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return r, fmt.Errorf("read the recipe: %w", err)
		}
		// A recipe that says anything of access says all of it: what it leaves out is nobody's.
		var written struct {
			Access *v1alpha1.AccessSpec `json:"access"`
		}
		if err := yaml.Unmarshal(data, &written); err == nil && written.Access != nil {
			r.Access = v1alpha1.AccessSpec{Default: v1alpha1.AccessNobody}
		}
		if err := yaml.UnmarshalStrict(data, &r); err != nil {
			return r, fmt.Errorf("recipe %s: %w: its fields are access, indexing and retrieval, with those of the Corpus and the RetrievalPipeline below them", path, err)
		}
	}
	or(&r.Indexing.Chunking.Strategy, silent.Chunking.Strategy)
	or(&r.Indexing.Context.Type, silent.Context.Type)
	r.setDefaults()
	if err := r.check(); err != nil {
		return r, fmt.Errorf("recipe %s: %w", path, err)
	}
	return r, nil
}

// setDefaults does what the API server does for a RetrievalPipeline.
func (r *Recipe) setDefaults() {
	or(&r.Access.SidecarSuffix, ".acl.json")
	i := &r.Indexing
	or(&i.Chunking.Strategy, v1alpha1.ChunkStructure)
	or(&i.Chunking.Unit, v1alpha1.ChunkTokens)
	or(&i.Chunking.Size, 256)
	or(&i.Context.Type, v1alpha1.ContextHeading)
	or(&i.Embedding.Type, v1alpha1.EmbeddingBuiltin)
	or(&i.Embedding.Model, embed.DefaultModel)
	or(&i.BM25.Analyzer, "english")
	or(&i.HNSW.M, 16)
	or(&i.HNSW.EfConstruction, 128)
}

func or[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// configFile lies beside the artifacts and says what Build made last; builds holds one such file for each recipe.
const (
	configFile = "local.json"
	builds     = "builds"
)

// built is its content.
type built struct {
	Config stage.Config
	Recipe Recipe
	Report stage.Report
}

const (
	localTenant = "local"
	localIndex  = "local"
)

// DefaultOut is where the index of a folder lies if nothing else is said: beside it.
func DefaultOut(documents string) string {
	clean := filepath.Clean(documents)
	if name := filepath.Base(clean); name == "." || name == ".." { // a name only as seen from elsewhere
		if absolute, err := filepath.Abs(clean); err == nil {
			clean = absolute
		}
	}
	return clean + ".quarry"
}

// Progress is told how far a long piece of work is; what is one word.
type Progress func(what string, done, total int)

// Build indexes the files of a folder into the folder out, which must lie outside of it. What an earlier build made of the
// same documents with the same settings is reused. Progress may be nil.
func Build(ctx context.Context, documents, out string, r Recipe, progress Progress) (stage.Report, error) {
	if err := checkFolders(documents, out); err != nil {
		return stage.Report{}, err
	}
	b, err := prepare(ctx, newFolder(documents), out, r, progress)
	if err != nil {
		return b.Report, err
	}
	return b.Report, b.write(filepath.Join(out, configFile))
}

func checkFolders(documents, out string) error {
	if stat, err := os.Stat(documents); err != nil || !stat.IsDir() {
		return fmt.Errorf("documents %q: is no folder", documents)
	}
	if inside(documents, out) {
		return fmt.Errorf("out %q lies in the folder of the documents: choose another, or it would be indexed too", out)
	}
	return nil
}

func (b built) write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// readBuilt reads what Build left in out.
func readBuilt(out string) (b built, err error) {
	data, err := os.ReadFile(filepath.Join(out, configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("%q holds no index: run quarry local build first", out)
	}
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("%s: %w: build again", configFile, err)
	}
	return b, nil
}

// BuiltRecipe is the recipe of the index in out, if there is one.
func BuiltRecipe(out string) (Recipe, bool) {
	b, err := readBuilt(out)
	return b.Recipe, err == nil
}

// State tells whether out holds an index, and whether a file of the documents is newer than it.
func State(documents, out string) (built, changed bool) {
	stat, err := os.Stat(filepath.Join(out, configFile))
	if err != nil {
		return false, false
	}
	err = filepath.WalkDir(resolve(documents), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(stat.ModTime()) {
			changed = true
			return fs.SkipAll
		}
		return err
	})
	return true, changed || err != nil
}

// prepare makes the index of the documents in src, or finds it in out where this program has made it before.
func prepare(ctx context.Context, src artifact.Bucket, out string, r Recipe, progress Progress) (built, error) {
	if r.Indexing.Embedding.Type != v1alpha1.EmbeddingBuiltin {
		return built{}, fmt.Errorf("indexing.embedding.type is %q: not yet available, use Builtin", r.Indexing.Embedding.Type)
	}
	unlock, err := lock(ctx, out, progress)
	if err != nil {
		return built{}, err
	}
	defer unlock()
	art := artifact.NewDir(out)
	synced, err := source.Sync(ctx, source.SyncInput{
		Source: src, Artifacts: art, Owner: artifact.Owner{ClusterUID: "local", Namespace: "local", Name: "local"},
		Policy: access.FromSpec(r.Access),
		// Whoever builds locally sees what is in the folder; nothing is served that a guard could save.
		Guard: source.GuardSpec{MaxPercent: 100, MaxDocuments: 1 << 30},
	})
	if err != nil {
		return built{}, err
	}
	indexing, err := json.Marshal(r.Indexing)
	if err != nil {
		return built{}, err
	}
	b := built{Recipe: r, Config: stage.Config{
		Tenant: localTenant, Index: localIndex, Shards: 1, Snapshot: synced.Snapshot,
		ContentDigest: artifact.Digest(append(indexing, synced.Snapshot...)),
		Indexing:      r.Indexing, Retrieval: r.Retrieval,
	}}
	b.Config.VersionDigest = b.Config.ContentDigest
	record := filepath.Join(out, builds, strings.TrimPrefix(artifact.Digest([]byte(b.Config.ContentDigest+program())), "sha256:")[:32]+".json")
	if before, err := os.ReadFile(record); err == nil {
		var found built
		if json.Unmarshal(before, &found) == nil && found.Config.ManifestDigest != "" {
			b.Config.ManifestDigest, b.Report = found.Config.ManifestDigest, found.Report
			if whole, err := b.whole(ctx, art); whole || err != nil {
				return b.withheld(synced.Failures), err
			}
		}
	}
	for range 2 { // once more where a file lay there damaged, which a build takes for done
		if b.Report, err = runStages(ctx, stage.Env{Config: b.Config, Source: src, Artifacts: art, Progress: progress}); err != nil {
			return b, err
		}
		b.Config.ManifestDigest = b.Report.ManifestDigest
		if whole, err := b.whole(ctx, art); err != nil {
			return b, err
		} else if whole {
			return b.withheld(synced.Failures), b.write(record)
		}
	}
	return b, fmt.Errorf("out %q: what was written reads otherwise: is the disk sound?", out)
}

// withheld adds to the report what nobody may read, because its name or its sidecar is faulty. It is found anew each time.
func (b built) withheld(failures []source.Failure) built {
	b.Report.Failures = slices.Clone(b.Report.Failures)
	for _, f := range failures {
		b.Report.Failures = append(b.Report.Failures, stage.Failure(f))
	}
	return b
}

// whole tells whether the files of an index are there as they were written. It removes damaged ones, such as a power cut
// leaves, so that a build makes them again.
func (b built) whole(ctx context.Context, art artifact.Bucket) (bool, error) {
	m, err := artifact.ReadManifest(ctx, art, b.Config.ContentDigest, b.Config.ManifestDigest)
	if err != nil {
		return false, ctx.Err() // a build writes it anew
	}
	whole := true
	for _, seg := range m.Segments {
		objects, err := seg.Objects()
		if err != nil {
			return false, err
		}
		for key, file := range objects {
			switch _, err := artifact.GetVerified(ctx, art, key, file.Digest); {
			case errors.Is(err, artifact.ErrNotFound):
				whole = false
			case errors.Is(err, artifact.ErrDigest):
				whole = false
				if err := art.Delete(ctx, key); err != nil {
					return false, err
				}
			case err != nil:
				return false, err
			}
		}
	}
	return whole, nil
}

// program tells two releases apart: another may make another index of the same settings.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	stat, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(stat.Size(), stat.ModTime().UnixNano())
}

// lock keeps two processes from building in one folder at once: they share the reports between stages. It waits until the
// other is done, or ctx is.
func lock(ctx context.Context, out string, progress Progress) (unlock func(), err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("out %q: %w: name another with --out", out, err)
	}
	f, err := os.OpenFile(filepath.Join(out, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("out %q: %w: name another with --out", out, err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %q: %w", out, err), f.Close())
		}
		if progress != nil {
			progress("wait for another process that builds in "+out, 0, 1)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %q: %w", out, ctx.Err()), f.Close())
		case <-time.After(lockInterval):
		}
	}
}

// lockInterval is how often a waiting process looks.
const lockInterval = 100 * time.Millisecond

func runStages(ctx context.Context, env stage.Env) (stage.Report, error) {
	stages := []func(context.Context, stage.Env, int) (stage.Report, error){stage.Chunk}
	if env.Config.Indexing.Context.Type != v1alpha1.ContextNone {
		stages = append(stages, stage.Contextualize)
	}
	for _, run := range append(stages, stage.Embed) {
		if _, err := run(ctx, env, 0); err != nil {
			return stage.Report{}, err
		}
	}
	return stage.Build(ctx, env)
}

// newFolder is the folder of the documents as a bucket. A link to a folder is that folder; links inside of it are not
// followed, because they may lead anywhere.
func newFolder(documents string) artifact.Bucket { return artifact.NewDir(resolve(documents)) }

// resolve follows links, as far as the path is there.
func resolve(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	return path
}

// inside tells whether out is the folder or below it, whatever links they are named by.
func inside(folder, out string) bool {
	a, errA := filepath.Abs(folder)
	b, errB := filepath.Abs(out)
	if errors.Join(errA, errB) != nil {
		return true
	}
	rel, err := filepath.Rel(resolve(a), resolve(b))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
