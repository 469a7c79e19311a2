// Package local builds, asks and judges an index of a folder of files, without a cluster: the same stages and the same
// servers as in one, in one process. It is for trying a recipe on a laptop and in CI.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
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
func ReadRecipe(path string) (Recipe, error) {
	r := Recipe{Access: v1alpha1.AccessSpec{Default: v1alpha1.AccessEveryone}}
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
	r.setDefaults()
	return r, nil
}

// setDefaults does what the API server does for a RetrievalPipeline.
func (r *Recipe) setDefaults() {
	or(&r.Access.SidecarSuffix, ".acl.json")
	i := &r.Indexing
	or(&i.Chunking.Strategy, v1alpha1.ChunkStructure)
	or(&i.Chunking.Unit, v1alpha1.ChunkTokens)
	if i.Chunking.Size == 0 {
		i.Chunking.Size, i.Chunking.Overlap = 256, 32
	}
	or(&i.Context.Type, v1alpha1.ContextHeading)
	or(&i.Embedding.Type, v1alpha1.EmbeddingBuiltin)
	or(&i.Embedding.Model, "static-256")
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

// configFile lies beside the artifacts and says what was built.
const configFile = "local.json"

// built is its content.
type built struct {
	Config stage.Config
	Recipe Recipe
}

const (
	localTenant = "local"
	localIndex  = "local"
)

// DefaultOut is the folder of the artifacts of a folder of documents.
func DefaultOut(documents string) string { return filepath.Clean(documents) + ".quarry" }

// Build indexes the folder documents into the folder out. What an earlier build did with the same settings is reused.
func Build(ctx context.Context, documents, out string, r Recipe, progress io.Writer) (stage.Report, error) {
	if stat, err := os.Stat(documents); err != nil || !stat.IsDir() {
		return stage.Report{}, fmt.Errorf("documents %q: is no folder", documents)
	}
	if inside(documents, out) {
		return stage.Report{}, fmt.Errorf("out %q lies in the folder of the documents: choose another, or it would be indexed too", out)
	}
	if r.Indexing.Embedding.Type != v1alpha1.EmbeddingBuiltin {
		return stage.Report{}, fmt.Errorf("indexing.embedding.type is %q: not yet available, use Builtin", r.Indexing.Embedding.Type)
	}
	src, art := artifact.NewDir(documents), artifact.NewDir(out)
	synced, err := source.Sync(ctx, source.SyncInput{
		Source: src, Artifacts: art, Owner: artifact.Owner{ClusterUID: "local", Namespace: "local", Name: "local"},
		Policy: access.FromSpec(r.Access),
		// Whoever builds locally sees what is in the folder; nothing is served that a guard could save.
		Guard: source.GuardSpec{MaxPercent: 100, MaxDocuments: 1 << 30},
	})
	if err != nil {
		return stage.Report{}, err
	}
	indexing, err := json.Marshal(r.Indexing)
	if err != nil {
		return stage.Report{}, err
	}
	config := stage.Config{
		Tenant: localTenant, Index: localIndex, Shards: 1, Snapshot: synced.Snapshot,
		ContentDigest: artifact.Digest(append(indexing, synced.Snapshot...)),
		Indexing:      r.Indexing, Retrieval: r.Retrieval,
	}
	config.VersionDigest = config.ContentDigest
	report, err := runStages(ctx, stage.Env{Config: config, Source: src, Artifacts: art, Out: progress})
	if err != nil {
		return report, err
	}
	config.ManifestDigest = report.ManifestDigest
	text, err := json.MarshalIndent(built{config, r}, "", "  ")
	if err != nil {
		return report, err
	}
	return report, os.WriteFile(filepath.Join(out, configFile), append(text, '\n'), 0o600)
}

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

// inside tells whether out is the folder or below it.
func inside(folder, out string) bool {
	a, errA := filepath.Abs(folder)
	b, errB := filepath.Abs(out)
	if errors.Join(errA, errB) != nil {
		return true
	}
	rel, err := filepath.Rel(a, b)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
