package stage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/search"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/source"
)

// follow makes the index of what was built last the parent of the next one.
func (b *bench) follow(build Report) {
	b.env.Config.Parent = Parent{ContentDigest: b.env.Config.ContentDigest, ManifestDigest: build.ManifestDigest}
	b.out.Reset()
}

// next lists the source and builds upon the parent.
func (b *bench) next() (Report, artifact.Manifest) {
	b.t.Helper()
	b.sync()
	_, _, build := b.run()
	return build, b.manifest(build)
}

func (b *bench) manifest(build Report) artifact.Manifest {
	b.t.Helper()
	m, err := artifact.ReadManifest(ctx, b.art, b.env.Config.ContentDigest, build.ManifestDigest)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// under is what lies in a folder of the bucket.
func (b *bench) under(folder string) map[string]int64 {
	out := map[string]int64{}
	err := b.art.List(ctx, folder, func(i artifact.Info) error {
		out[i.Key] = i.Size
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// written is what came to the segments since before.
func (b *bench) written(before map[string]int64) (files int, bytes int64) {
	for key, size := range b.under("segments/") {
		if _, had := before[key]; !had {
			files, bytes = files+1, bytes+size
		}
	}
	return files, bytes
}

// fresh builds the same documents without a parent.
func (b *bench) fresh() artifact.Manifest {
	b.t.Helper()
	other := *b
	other.env.Config.Parent = Parent{}
	other.env.Config.Index = "fresh"
	_, _, build := other.run()
	return other.manifest(build)
}

// sameContent checks that both hold the same passages of the same readers, under the same numbers, and rank them alike.
func (b *bench) sameContent(content string, a, c artifact.Manifest) {
	b.t.Helper()
	load := func(m artifact.Manifest) *segment.Loaded {
		_, digest, err := artifact.WriteManifest(ctx, b.art, content, m)
		if err != nil {
			b.t.Fatal(err)
		}
		return b.load(Report{ManifestDigest: digest})
	}
	x, y := load(a), load(c)
	if string(x.Access.Encode()) != string(y.Access.Encode()) || x.Chunks.Len() != y.Chunks.Len() {
		b.t.Fatalf("%d documents, %d chunks; not %d, %d", x.Access.Len(), x.Chunks.Len(), y.Access.Len(), y.Chunks.Len())
	}
	for i := range x.Chunks.Len() {
		if got, want := fmt.Sprint(x.Chunks.At(i)), fmt.Sprint(y.Chunks.At(i)); got != want {
			b.t.Fatalf("chunk %d: %s\nnot %s", i, got, want)
		}
	}
	allow := x.Access.AllowSet(access.Identity{User: "ann"}, nil)
	theirs, ours := b.rankers(y), b.rankers(x)
	for i := range ours {
		for _, query := range []string{"when does the granite quarry open", "Topic 7 closed on day 3", "the", "marble"} {
			for _, k := range []int{1, 5, 1000} {
				got, want := b.ranked(ours[i], query, allow, k), b.ranked(theirs[i], query, allow, k)
				if got != want {
					b.t.Fatalf("ranker %d, %q: %s\nnot %s", i, query, got, want)
				}
			}
		}
	}
}

// rankers are BM25 and vectors over what was loaded.
func (b *bench) rankers(l *segment.Loaded) [2]search.Ranker {
	b.t.Helper()
	encoder, err := embed.Builtin(b.env.Config.Indexing.Embedding.Model)
	if err != nil {
		b.t.Fatal(err)
	}
	lexical, err := search.NewLexical(l.Numbers, l.BM25, b.env.Config.Indexing.BM25)
	if err != nil {
		b.t.Fatal(err)
	}
	dense, err := search.NewDense(l.Numbers, l.HNSW, encoder, l.Manifest.Attestation.EmbeddingModelDigest)
	if err != nil {
		b.t.Fatal(err)
	}
	return [2]search.Ranker{lexical, dense}
}

// ranked is all that a ranker says of a query, but for its plan.
func (b *bench) ranked(r search.Ranker, query string, allow *roaring.Bitmap, k int) string {
	b.t.Helper()
	found, err := r.Search(query, allow, k)
	if err != nil {
		b.t.Fatal(err)
	}
	scores, err := r.Score(query, allow, append(allow.ToArray(), allow.Maximum()+1))
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(found.Hits, found.Bound, scores)
}

func TestOneChangedDocumentOfAThousand(t *testing.T) {
	b := newBench(t, 1000)
	first, m := b.next()
	b.follow(first)
	whole := m.Bytes()
	b.put("d03.md", "# Topic 3\n\nThe quarry is closed.\n")
	before := b.under("segments/")
	_, second := b.next()
	files, bytes := b.written(before)
	if len(second.Segments) != 2 || second.Parent != first.ManifestDigest || second.Segments[1].Documents != 1 || files != 6 {
		t.Fatalf("%d files; %+v", files, second)
	}
	if second.Segments[0].Digest != m.Segments[0].Digest || second.Segments[0].Tombstones.Documents != 1 {
		t.Fatalf("the segment of the parent is not kept as it was: %+v", second.Segments[0])
	}
	if bytes*100 > whole {
		t.Errorf("one document of a thousand wrote %d bytes, the whole index has %d", bytes, whole)
	}
	t.Logf("wrote %d bytes in %d files beside an index of %d bytes", bytes, files, whole)
	if second.Counts != b.fresh().Counts {
		t.Errorf("counts %+v", second.Counts)
	}
	b.sameContent(b.env.Config.ContentDigest, second, b.fresh())
}

func TestAnUnchangedSnapshotWritesNoSegment(t *testing.T) {
	b := newBench(t, 20)
	first, m := b.next()
	b.follow(first)
	before := b.under("segments/")
	_, again := b.next()
	if files, _ := b.written(before); files != 0 || len(again.Segments) != 1 || again.Segments[0].Tombstones != nil || again.Segments[0].Digest != m.Segments[0].Digest {
		t.Fatalf("%d new files; %+v", files, again)
	}
}

func TestDeletionsWriteTombstonesAlone(t *testing.T) {
	b := newBench(t, 20)
	first, _ := b.next()
	b.follow(first)
	before := b.under("segments/")
	_ = b.src.Delete(ctx, "d04.md")
	build, m := b.next()
	if files, bytes := b.written(before); files != 1 || bytes > 64 || len(m.Segments) != 1 || m.Segments[0].Tombstones.Documents != 1 {
		t.Fatalf("%d files, %d bytes; %+v", files, bytes, m)
	}
	l := b.load(build)
	if _, found := l.Access.Find("d04.md"); found || l.Access.Len() != 19 || int64(l.Chunks.Len()) != build.Chunks {
		t.Fatalf("%d documents, %d chunks", l.Access.Len(), l.Chunks.Len())
	}
	for i := range l.Chunks.Len() {
		if l.Chunks.At(i).Document == "d04.md" {
			t.Fatal("a passage of a deleted document can be named")
		}
	}
	b.sameContent(b.env.Config.ContentDigest, m, b.fresh())
}

// TestEditsUponEdits follows one index through many versions; each holds what a fresh one does, is built of the same bytes
// again by whoever repeats it, and stays within the policy.
func TestEditsUponEdits(t *testing.T) {
	b := newBench(t, 40)
	build, _ := b.next()
	several := 0
	for step := range 12 {
		b.follow(build)
		for i := range 1 + step%4 {
			n := (step*7 + i*3) % 45
			switch key := fmt.Sprintf("d%02d.md", n); (step + i) % 3 {
			case 0:
				_ = b.src.Delete(ctx, key)
			default:
				b.put(key, fmt.Sprintf("# Topic %d\n\nThe quarry is closed on day %d.\n", n, step))
			}
		}
		b.env.Config.Index = fmt.Sprintf("support-acme-%d", step)
		var m artifact.Manifest
		build, m = b.next()
		if len(m.Segments) > maxSegments {
			t.Fatalf("step %d: %d segments", step, len(m.Segments))
		}
		if len(m.Segments) > 1 {
			several++
		}
		b.sameContent(b.env.Config.ContentDigest, m, b.fresh())
		before := maps.Clone(b.under("segments/"))
		again, err := Build(ctx, b.env)
		if files, _ := b.written(before); err != nil || files != 0 || again.ManifestDigest != build.ManifestDigest {
			t.Fatalf("step %d: built again it is another: %v", step, err)
		}
	}
	if several < 6 {
		t.Errorf("only %d versions had several segments", several)
	}
}

// TestTightenedAccessIsWritten: the overlay tells what has changed since the snapshot of an index, so a segment that is kept
// must not remember the readers of an earlier one.
func TestTightenedAccessIsWritten(t *testing.T) {
	b := newBench(t, 20)
	first, _ := b.next()
	b.follow(first)
	b.put("d05.md", "# Topic 5\n\nSomething else.\n") // so that the snapshot is another
	out, err := source.Sync(ctx, source.SyncInput{Source: b.src, Artifacts: b.art, Owner: artifact.Owner{ClusterUID: "c", Namespace: "n", Name: "d"},
		Policy: access.Policy{Default: access.Allow{{Type: access.Everyone}}, Rules: []access.Rule{{Prefix: "d03", Allow: access.Nobody()}}},
		Guard:  source.GuardSpec{MaxPercent: 100, MaxDocuments: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	b.env.Config.Snapshot, b.env.Config.ContentDigest = out.Snapshot, jsonDigest(out.Snapshot, b.env.Config.Indexing)
	_, _, build := b.run()
	m := b.manifest(build)
	if len(m.Segments) != 2 || m.Segments[1].Documents != 2 {
		t.Fatalf("%+v", m.Segments)
	}
	if l := b.load(build); l.Access.Permits("d03.md", access.Identity{User: "ann"}, nil) || !l.Access.Permits("d05.md", access.Identity{User: "ann"}, nil) {
		t.Fatal("a document that nobody may read any more is read by the access of an older segment")
	}
	b.sameContent(b.env.Config.ContentDigest, m, b.fresh())
}

// TestAParentThatDoesNotSuit: everything is written anew, to the same bytes as without a parent.
func TestAParentThatDoesNotSuit(t *testing.T) {
	tests := map[string]struct {
		spoil func(b *bench)
		why   string
	}{
		"absent":          {func(b *bench) { b.env.Config.Parent.ManifestDigest = artifact.Digest([]byte("?")) }, "not found"},
		"other settings":  {func(b *bench) { b.env.Config.Indexing.BM25.Analyzer = "german" }, "other settings"},
		"no snapshot":     {func(b *bench) { b.remove(strings.TrimPrefix(b.before.Snapshot, "sha256:") + ".jsonl.zst") }, "not found"},
		"no access table": {func(b *bench) { b.remove(segment.AccessFile) }, "not found"},
		"no postings":     {func(b *bench) { b.remove(segment.BM25File) }, "not found"},
		"damaged table":   {func(b *bench) { b.damage(segment.AccessFile) }, "digest does not match"},
		"older vectors":   {func(b *bench) { b.damage(segment.VectorsFile) }, "another format"},
		"other release":   {func(b *bench) { b.reformat(`"formatVersion":"` + artifact.FormatVersion + `"`) }, "another format"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 20)
			first, before := b.next()
			b.before = before
			b.follow(first)
			b.put("d03.md", "# Topic 3\n\nThe quarry is closed.\n")
			b.sync()
			c.spoil(b)
			_, _, build := b.run()
			m := b.manifest(build)
			if len(m.Segments) != 1 || m.Parent != "" || m.Segments[0].Documents != 20 {
				t.Fatalf("%+v", m)
			}
			if !strings.Contains(b.out.String(), "the parent does not suit: ") || !strings.Contains(b.out.String(), c.why) {
				t.Errorf("it says %q", b.out.String())
			}
			b.env.Config.Parent = Parent{}
			if again, err := Build(ctx, b.env); err != nil || again.ManifestDigest != build.ManifestDigest {
				t.Errorf("without a parent it is another: %v", err)
			}
		})
	}
}

// TestAStorageThatDoesNotAnswerIsNoVerdict: what is built may not depend on luck.
func TestAStorageThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	b := newBench(t, 20)
	first, _ := b.next()
	b.follow(first)
	b.put("d03.md", "# Topic 3\n\nThe quarry is closed.\n")
	b.next()
	boom := errors.New("storage is away")
	b.art.Fail = func(op, key string) error {
		if op == "get" && strings.HasSuffix(key, segment.AccessFile) {
			return boom
		}
		return nil
	}
	if _, err := Build(ctx, b.env); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
}

// TestCachesMayGoBetweenBuilds: what docs/operations.md says may be deleted is made again, and the segments are kept.
func TestCachesMayGoBetweenBuilds(t *testing.T) {
	b := newBench(t, 20)
	first, _ := b.next()
	b.follow(first)
	b.remove("cache/")
	b.put("d03.md", "# Changed\n\nThe granite quarry stays closed.\n")
	_, m := b.next()
	if len(m.Segments) != 2 || m.Segments[0].Tombstones == nil || m.Segments[1].Documents != 1 {
		t.Fatalf("%+v", m.Segments)
	}
	b.sameContent(b.env.Config.ContentDigest, m, b.fresh())
}

func (b *bench) matching(part string) (keys []string) {
	for _, key := range b.art.Keys() {
		if strings.HasPrefix(key, part) || strings.HasSuffix(key, part) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		b.t.Fatalf("there is no %s", part)
	}
	return keys
}

func (b *bench) remove(part string) {
	for _, key := range b.matching(part) {
		_ = b.art.Delete(ctx, key)
	}
}

// damage changes a byte of the version, which lies where that of a framed file does.
func (b *bench) damage(part string) {
	for _, key := range b.matching(part) {
		b.overwrite(key, func(body []byte) []byte { body[8]++; return body })
	}
}

// reformat makes the parent's manifest one of another release.
func (b *bench) reformat(old string) {
	for _, key := range b.matching("indexes/") {
		b.overwrite(key, func(body []byte) []byte {
			body = []byte(strings.ReplaceAll(string(body), old, `"formatVersion":"0"`))
			b.env.Config.Parent.ManifestDigest = artifact.Digest(body)
			return body
		})
	}
}

func (b *bench) overwrite(key string, change func([]byte) []byte) {
	b.t.Helper()
	body, _, err := b.art.Get(ctx, key)
	if err == nil {
		_, err = b.art.Put(ctx, key, change(slices.Clone(body)), artifact.Condition{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestKernelsOfAllSegments: vectors that were kept carry the roundings of whoever made them.
func TestKernelsOfAllSegments(t *testing.T) {
	b := newBench(t, 20)
	if b.env.Config.Indexing.Embedding.Type != v1alpha1.EmbeddingBuiltin {
		t.Fatal("the bench embeds otherwise")
	}
	first, m := b.next()
	b.follow(first)
	b.put("d03.md", "# Topic 3\n\nThe quarry is closed.\n")
	if _, second := b.next(); second.Attestation != m.Attestation {
		t.Fatalf("%+v, not %+v", second.Attestation, m.Attestation)
	}
}
