package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/artifact/s3test"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/source"
)

// mount writes what a pod finds below /etc/quarry.
func mount(t *testing.T, etc string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(etc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRunOverS3(t *testing.T) {
	server, etc := s3test.Start(t, "documents", "quarry"), t.TempDir()
	mount(t, etc, map[string]string{
		"source/accessKeyID": server.AccessKeyID + "\n", "source/secretAccessKey": server.SecretAccessKey,
		"artifacts/accessKeyID": server.AccessKeyID, "artifacts/secretAccessKey": server.SecretAccessKey,
	})
	c := Config{Index: "support-acme-1", Shards: 2, etc: etc,
		Source:    Location{Endpoint: server.Endpoint, Bucket: "documents", Prefix: "acme/"},
		Artifacts: Location{Endpoint: server.Endpoint, Bucket: "quarry", Prefix: "acme/"},
		Indexing: v1alpha1.IndexingSpec{Chunking: v1alpha1.ChunkingSpec{Strategy: "Structure", Unit: "Tokens", Size: 64, Overlap: 8},
			Embedding: v1alpha1.EmbeddingSpec{Model: "static-256"}, BM25: v1alpha1.BM25Spec{Analyzer: "english"}}}
	src, err := c.OpenSource()
	if err != nil {
		t.Fatal(err)
	}
	art, err := c.OpenArtifacts()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if _, err := src.Put(ctx, fmt.Sprintf("hand book/%d+1.md", i), fmt.Appendf(nil, "# Part %d\n\nGranite %d.\n", i, i), artifact.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	in := source.SyncInput{Source: src, Artifacts: art, Owner: artifact.Owner{ClusterUID: "c", Namespace: "n", Name: "d"},
		Policy: access.Policy{Default: access.Allow{{Type: access.Everyone}}, SidecarSuffix: ".acl.json"}}
	synced, err := source.Sync(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := source.Sync(ctx, in); err != nil || again.OverlayChanged {
		t.Fatalf("second sync: %v", err)
	}
	c.Snapshot, c.ContentDigest = synced.Snapshot, artifact.Digest([]byte(synced.Snapshot))
	report := runAll(t, etc, c)
	c.ManifestDigest = report.ManifestDigest
	loaded, err := LoadServing(ctx, c, t.TempDir(), segment.RoleAll)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if got := loaded.Chunks.At(0).Document; loaded.Access.Len() != 8 || got != "hand book/0+1.md" {
		t.Fatalf("%d documents, the first is %q", loaded.Access.Len(), got)
	}
	// The next version is built upon this one.
	c.Parent = Parent{ContentDigest: c.ContentDigest, ManifestDigest: c.ManifestDigest}
	if _, err := src.Put(ctx, "hand book/3+1.md", []byte("# Part 3\n\nMarble.\n"), artifact.Condition{}); err != nil {
		t.Fatal(err)
	}
	if synced, err = source.Sync(ctx, in); err != nil {
		t.Fatal(err)
	}
	c.Snapshot, c.ContentDigest = synced.Snapshot, artifact.Digest([]byte(synced.Snapshot))
	c.ManifestDigest = runAll(t, etc, c).ManifestDigest
	next, err := LoadServing(ctx, c, t.TempDir(), segment.RoleAll)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if got := next.Chunks.At(3).Text; next.Numbers.Segments() != 2 || next.Access.Len() != 8 || !strings.HasSuffix(got, "Marble.") {
		t.Fatalf("%d segments, %d documents, the fourth says %q", next.Numbers.Segments(), next.Access.Len(), got)
	}
}

// runAll runs every stage as a pod does and checks that each termination message names the report by its digest.
func runAll(t *testing.T, etc string, c Config) (build Report) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	mount(t, etc, map[string]string{"config/config.json": string(text)})
	art, err := c.OpenArtifacts()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name  string
		shard int
	}{{NameChunk, 0}, {NameChunk, 1}, {NameEmbed, 0}, {NameEmbed, 1}, {NameBuild, 0}} {
		log := filepath.Join(t.TempDir(), "termination-log")
		if err := Run(ctx, step.name, Options{Etc: etc, TerminationLog: log, Shard: step.shard}); err != nil {
			t.Fatal(err)
		}
		var message struct{ Report, Digest string }
		data, err := os.ReadFile(log)
		if err != nil || json.Unmarshal(data, &message) != nil {
			t.Fatalf("termination message %q: %v", data, err)
		}
		body, err := artifact.GetVerified(ctx, art, message.Report, message.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &build); err != nil {
			t.Fatal(err)
		}
	}
	return build
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	etc, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	good := `{"index":"i","snapshot":"sha256:x","contentDigest":"sha256:x","artifacts":{"endpoint":"http://127.0.0.1:1","bucket":"b"}}`
	for _, c := range []struct{ config, want string }{
		{"", "mount the ConfigMap"},
		{"{", "unexpected end of JSON"},
		{"{}", "is empty"},
		{`{"index":"../x","snapshot":"s","contentDigest":"c"}`, "is no name of an Index"},
		{good, "put both keys in the Secret"},
	} {
		if c.config != "" {
			mount(t, etc, map[string]string{"config/config.json": c.config})
		}
		err := Run(ctx, NameChunk, Options{Etc: etc, TerminationLog: log, Shard: 0})
		told, _ := os.ReadFile(log)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(string(told), c.want) {
			t.Errorf("%.30q: %v, told %q", c.config, err, told)
		}
	}
	if err := Run(ctx, NameChunk, Options{Etc: etc, Shard: -1}); err == nil || !strings.Contains(err.Error(), "JOB_COMPLETION_INDEX") {
		t.Errorf("got %v", err)
	}
}
