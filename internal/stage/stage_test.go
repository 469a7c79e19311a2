package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/source"
)

var ctx = context.Background()

type bench struct {
	t        testing.TB
	src, art *artifact.Memory
	env      Env
	out      bytes.Buffer
	before   artifact.Manifest // of the parent, where a test says so
}

func newBench(t testing.TB, documents int) *bench {
	b := &bench{t: t, src: artifact.NewMemory(), art: artifact.NewMemory()}
	b.env = Env{Source: b.src, Artifacts: b.art, Out: &b.out, Config: Config{Index: "support-acme-1", Shards: 3,
		Indexing: v1alpha1.IndexingSpec{
			Chunking:  v1alpha1.ChunkingSpec{Strategy: "Structure", Unit: "Tokens", Size: 64, Overlap: 8},
			Context:   v1alpha1.ContextSpec{Type: v1alpha1.ContextHeading},
			Embedding: v1alpha1.EmbeddingSpec{Type: "Builtin", Model: "static-256"},
			BM25:      v1alpha1.BM25Spec{Analyzer: "english"},
		}}}
	for i := range documents {
		b.put(fmt.Sprintf("d%02d.md", i), fmt.Sprintf("# Topic %d\n\nThe granite quarry number %d opens at %d o'clock.\n", i, i, i))
	}
	return b
}

func (b *bench) put(key, text string) {
	b.t.Helper()
	if _, err := b.src.Put(ctx, key, []byte(text), artifact.Condition{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) sync() {
	b.t.Helper()
	out, err := source.Sync(ctx, source.SyncInput{Source: b.src, Artifacts: b.art, Owner: artifact.Owner{ClusterUID: "c", Namespace: "n", Name: "d"},
		Policy: access.Policy{Default: access.Allow{{Type: access.Everyone}}}, Guard: source.GuardSpec{MaxPercent: 100, MaxDocuments: 1000}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.env.Config.Snapshot = out.Snapshot
	b.env.Config.ContentDigest = jsonDigest(out.Snapshot, b.env.Config.Indexing)
}

// run runs every stage and returns the sums of the chunk and the embed stage, and the build's report.
func (b *bench) run() (chunks, embeds, build Report) {
	b.t.Helper()
	sum := func(into *Report, f func(context.Context, Env, int) (Report, error)) {
		for shard := range b.env.shards() {
			r, err := f(ctx, b.env, shard)
			if err != nil {
				b.t.Fatal(err)
			}
			into.Documents += r.Documents
			into.Failed += r.Failed
			into.Chunks += r.Chunks
			into.Tokens += r.Tokens
			into.Reused += r.Reused
			into.Failures = append(into.Failures, r.Failures...)
		}
	}
	sum(&chunks, Chunk)
	sum(&Report{}, Contextualize)
	sum(&embeds, Embed)
	build, err := Build(ctx, b.env)
	if err != nil {
		b.t.Fatal(err)
	}
	return chunks, embeds, build
}

func (b *bench) load(build Report) *segment.Loaded {
	b.t.Helper()
	l, err := segment.Load(ctx, b.art, b.env.Config.ContentDigest, build.ManifestDigest, b.t.TempDir(), segment.RoleAll)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestBuildAndLoad(t *testing.T) {
	b := newBench(t, 20)
	b.put("broken.pdf", "%PDF-1.4 nothing")
	b.put("zero.txt", "")
	b.sync()
	chunks, _, build := b.run()
	if chunks.Documents != 22 || chunks.Failed != 2 || chunks.Chunks < 20 || build.Chunks != chunks.Chunks || build.Failed != 2 {
		t.Fatalf("chunks %+v\nbuild %+v", chunks, build)
	}
	l := b.load(build)
	if l.Chunks.Len() != uint32(build.Chunks) || l.Access.Len() != 20 || l.HNSW[0].Len() != int(build.Chunks) {
		t.Fatalf("loaded %d chunks of %d documents", l.Chunks.Len(), l.Access.Len())
	}
	if c := l.Chunks.At(0); c.Context != "Topic 0" || strings.HasPrefix(c.Text, c.Context) {
		t.Errorf("the first chunk has context %q and text %q", c.Context, c.Text)
	}
	all := l.Access.AllowSet(access.Identity{User: "ann"}, nil)
	if all.GetCardinality() != uint64(build.Chunks) {
		t.Fatalf("everyone sees %d chunks", all.GetCardinality())
	}
	if !strings.Contains(b.out.String(), "Progress chunk shard 0: ") {
		t.Fatalf("no progress in %q", b.out.String())
	}
}

func TestEqualInputsGiveEqualBytes(t *testing.T) {
	a, b := newBench(t, 15), newBench(t, 15)
	b.env.Config.Shards = 1
	a.sync()
	b.sync()
	_, _, first := a.run()
	_, _, second := b.run()
	ma, err := artifact.ReadManifest(ctx, a.art, a.env.Config.ContentDigest, first.ManifestDigest)
	if err != nil {
		t.Fatal(err)
	}
	mb, err := artifact.ReadManifest(ctx, b.art, b.env.Config.ContentDigest, second.ManifestDigest)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{segment.BM25File, segment.AccessFile, segment.VectorsFile, segment.GraphFile} {
		if ma.Segments[0].Files[name] != mb.Segments[0].Files[name] {
			t.Errorf("%s differs with another number of shards", name)
		}
	}
}

func TestOnlyTheChangedDocumentIsWorkedOn(t *testing.T) {
	b := newBench(t, 12)
	b.sync()
	first, _, _ := b.run()
	gets := b.src.Ops("get")
	b.put("d03.md", "# Topic 3\n\nThe quarry is closed.\n")
	b.sync()
	b.env.Config.Index = "support-acme-2"
	chunks, embeds, build := b.run()
	if got := b.src.Ops("get") - gets; got != 1 {
		t.Fatalf("%d documents were read", got)
	}
	if chunks.Reused != first.Chunks-1 || embeds.Reused != first.Chunks-1 || build.Chunks != first.Chunks {
		t.Fatalf("chunks %+v\nembeds %+v", chunks, embeds)
	}
	// Nothing at all for the same content again.
	packs := countPacks(b.art)
	b.env.Config.Index = "support-acme-3"
	_, _, again := b.run()
	if again.ManifestDigest != build.ManifestDigest || countPacks(b.art) != packs {
		t.Fatal("an equal build made something new")
	}
}

func countPacks(m *artifact.Memory) (n int) {
	for _, k := range m.Keys() {
		if strings.HasSuffix(k, ".pack") {
			n++
		}
	}
	return n
}

func TestObjectChangedSinceTheSnapshot(t *testing.T) {
	b := newBench(t, 10)
	b.sync()
	b.put("d04.md", "changed meanwhile")
	_ = b.src.Delete(ctx, "d05.md")
	chunks, _, build := b.run()
	if len(chunks.Failures) != 2 || chunks.Failures[0].Reason != ReasonChanged || chunks.Failures[1].Reason != ReasonChanged {
		t.Fatalf("failures %+v", chunks.Failures)
	}
	if l := b.load(build); l.Access.Len() != 8 {
		t.Fatalf("%d documents", l.Access.Len())
	}
	// The snapshot comes back with the old content: the complete index has the same content digest and lies beside.
	b.put("d04.md", "# Topic 4\n\nThe granite quarry number 4 opens at 4 o'clock.\n")
	b.put("d05.md", "# Topic 5\n\nThe granite quarry number 5 opens at 5 o'clock.\n")
	_, _, complete := b.run()
	if complete.ManifestDigest == build.ManifestDigest || complete.Manifest == build.Manifest {
		t.Fatalf("%+v", complete)
	}
	if b.load(build).Access.Len() != 8 || b.load(complete).Access.Len() != 10 {
		t.Fatal("both manifests must stay loadable")
	}
}

func TestStorageFailureKeepsFinishedWork(t *testing.T) {
	b := newBench(t, 60)
	b.env.Config.Shards = 1
	b.sync()
	boom := errors.New("storage is away")
	b.src.Fail = func(op, key string) error {
		if op == "get" && key > "d40" {
			return boom
		}
		return nil
	}
	if _, err := Chunk(ctx, b.env, 0); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if slices.ContainsFunc(b.art.Keys(), func(k string) bool { return strings.HasPrefix(k, "reports/") }) {
		t.Fatal("a failed shard left a report")
	}
	b.src.Fail = nil
	gets := b.src.Ops("get")
	if r, err := Chunk(ctx, b.env, 0); err != nil || r.Documents != 60 || b.src.Ops("get")-gets >= 40 {
		t.Fatalf("%v, %d documents read again", err, b.src.Ops("get")-gets)
	}
}

func TestNoChunks(t *testing.T) {
	b := newBench(t, 0)
	b.put("a.txt", "")
	b.sync()
	for shard := range b.env.shards() {
		if _, err := Chunk(ctx, b.env, shard); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Build(ctx, b.env)
	var none *NoChunksError
	if !errors.As(err, &none) || none.Failed != 1 || !strings.HasPrefix(err.Error(), ReasonNoChunks) {
		t.Fatalf("got %v", err)
	}
	if slices.ContainsFunc(b.art.Keys(), func(k string) bool { return strings.HasPrefix(k, "indexes/") }) {
		t.Fatal("an empty index left a manifest")
	}
}

// TestADamagedNewFileIsNotStored: whatever byte of whatever file a build gets wrong, it fails before anything is stored that a
// manifest could name.
func TestADamagedNewFileIsNotStored(t *testing.T) {
	b := newBench(t, 5)
	b.sync()
	b.run()
	s, err := b.env.settings()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := b.env.allReadable(ctx, &Report{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := b.env.assemble(ctx, s, docs)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.files) != 5 {
		t.Fatalf("a segment of %d files", len(made.files))
	}
	b.env.Artifacts = artifact.NewMemory()
	for name, file := range made.files {
		for _, at := range []int{0, 30, len(file) / 2, len(file) - 1} {
			damaged := maps.Clone(made.files)
			damaged[name] = bytes.Clone(file)
			damaged[name][at] ^= 4
			if _, err := b.env.upload(ctx, assembly{files: damaged, chunks: made.chunks}); err == nil || !strings.Contains(err.Error(), "nothing of it was stored") {
				t.Errorf("%s, byte %d of %d is wrong: got %v", name, at, len(file), err)
			}
		}
	}
	if _, err := b.env.upload(ctx, assembly{files: made.files, chunks: made.chunks + 1}); err == nil {
		t.Error("files of fewer chunks than were meant are stored")
	}
	if keys := b.env.Artifacts.(*artifact.Memory).Keys(); len(keys) > 0 {
		t.Errorf("%d objects are stored, %q among them", len(keys), keys[0])
	}
	if _, err := b.env.upload(ctx, made); err != nil {
		t.Errorf("the undamaged files: %v", err)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	b := newBench(t, 5)
	b.sync()
	_, _, build := b.run()
	for _, key := range b.art.Keys() {
		if strings.HasSuffix(key, segment.AccessFile) {
			if _, err := b.art.Put(ctx, key, []byte("x"), artifact.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := segment.Load(ctx, b.art, b.env.Config.ContentDigest, build.ManifestDigest, t.TempDir(), segment.RoleBM25)
	if !errors.Is(err, artifact.ErrDigest) {
		t.Fatalf("got %v", err)
	}
}

func TestSettingsChangeWhatTheyMust(t *testing.T) {
	b := newBench(t, 1)
	base, err := b.env.settings()
	if err != nil {
		t.Fatal(err)
	}
	b.env.Config.Indexing.Context.Type = v1alpha1.ContextNone
	none, err := b.env.settings()
	if err != nil || none.chunk != base.chunk || none.embed == base.embed {
		t.Fatalf("%v: a new context must re-embed and not re-chunk", err)
	}
	b.env.Config.Indexing.Chunking.Size = 65
	if other, err := b.env.settings(); err != nil || other.chunk == base.chunk {
		t.Fatalf("%v: a new size must re-chunk", err)
	}
	b.env.Config.Indexing.Embedding.Model = "nonsense"
	if _, err := b.env.settings(); err == nil {
		t.Fatal("an unknown model is accepted")
	}
}

// A folder on a laptop is a corpus as well.
func TestLocalFolder(t *testing.T) {
	b := newBench(t, 0)
	src, art := artifact.NewDir(t.TempDir()), artifact.NewDir(t.TempDir())
	for i := range 5 {
		if _, err := src.Put(ctx, fmt.Sprintf("a/%d.md", i), fmt.Appendf(nil, "# Part %d\n\nText %d.\n", i, i), artifact.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := source.Sync(ctx, source.SyncInput{Source: src, Artifacts: art, Owner: artifact.Owner{ClusterUID: "local", Namespace: "local", Name: "local"}})
	if err != nil {
		t.Fatal(err)
	}
	b.env.Source, b.env.Artifacts = src, art
	b.env.Config.Snapshot, b.env.Config.ContentDigest = out.Snapshot, ContentDigest(out.Snapshot, b.env.Config.Indexing)
	report, err := All(ctx, b.env)
	if err != nil || report.Documents != 5 || report.Chunks != 5 {
		t.Fatalf("%+v %v", report, err)
	}
	l, err := segment.Load(ctx, art, b.env.Config.ContentDigest, report.ManifestDigest, t.TempDir(), segment.RoleAll)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !l.Access.AllowSet(access.Identity{User: "ann"}, nil).IsEmpty() {
		t.Fatal("without a policy somebody reads something")
	}
}
