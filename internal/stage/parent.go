package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/segment/frame"
	"quarry.dev/quarry/internal/source"
)

// Parent names the index whose segments a build keeps as far as it can. The zero Parent is none.
type Parent struct {
	ContentDigest  string `json:"contentDigest,omitempty"`
	ManifestDigest string `json:"manifestDigest,omitempty"`
}

// base is a parent that suits, or nothing where there is none: then every document is new.
type base struct {
	manifest artifact.Manifest
	segments []baseSegment
	// before are the documents as the parent was built of them.
	before map[string]source.Entry
}

// baseSegment is a segment of the parent. dead are ranks of documents: those of the parent, and then ours.
type baseSegment struct {
	ref   artifact.SegmentRef
	table *access.Table
	dead  *roaring.Bitmap
}

// unfitError says why a parent is not built upon; every document is then written anew.
type unfitError struct{ cause error }

func (e *unfitError) Error() string { return e.cause.Error() }

func unfit(format string, args ...any) error { return &unfitError{fmt.Errorf(format, args...)} }

// judge makes a fault of what was read an unfitError. A storage that does not answer stays an error: what is built must not
// depend on it.
func judge(err error) error {
	for _, fault := range []error{artifact.ErrNotFound, artifact.ErrDigest, artifact.ErrFormat, frame.ErrCorrupt, access.ErrCorrupt} {
		if errors.Is(err, fault) {
			return &unfitError{err}
		}
	}
	return err
}

// openBase reads the parent that the configuration names. One that is absent, damaged, or of other settings or formats is
// said to be so in a line of progress, and is as good as none.
func (e Env) openBase(ctx context.Context, s settings) (base, error) {
	if e.Config.Parent == (Parent{}) {
		return base{}, nil
	}
	b, err := e.readBase(ctx, s)
	var no *unfitError
	if errors.As(err, &no) {
		if e.Out != nil {
			fmt.Fprintf(e.Out, "All segments are written anew, the parent does not suit: %v\n", no)
		}
		return base{}, nil
	}
	return b, err
}

func (e Env) readBase(ctx context.Context, s settings) (b base, err error) {
	if b.manifest, err = artifact.ReadManifest(ctx, e.Artifacts, e.Config.Parent.ContentDigest, e.Config.Parent.ManifestDigest); err != nil {
		return b, judge(err)
	}
	m := b.manifest
	if m.IndexingDigest != e.indexingDigest(s) || m.Attestation.EmbeddingModelDigest != s.encoder.Digest() ||
		m.Attestation.Analyzer != analyzerName(e.Config.Indexing.BM25) {
		return b, unfit("it was built by other settings")
	}
	snapshot, err := source.ReadSnapshot(ctx, e.Artifacts, m.Snapshot)
	if err != nil {
		return b, judge(err)
	}
	b.before = byKey(snapshot.Entries)
	heads, err := e.heads()
	if err != nil {
		return b, err
	}
	for _, ref := range m.Segments {
		s, err := e.readBaseSegment(ctx, ref, heads)
		if err != nil {
			return b, judge(err)
		}
		b.segments = append(b.segments, s)
	}
	return b, b.check()
}

// check opens the parent as one that serves it does.
func (b *base) check() error {
	var tables []*access.Table
	var dead []*roaring.Bitmap
	for _, s := range b.segments {
		if s.table.Chunks() != s.ref.Chunks {
			return unfit("segment %s has %d chunks, its manifest says %d", s.ref.Digest, s.table.Chunks(), s.ref.Chunks)
		}
		tables, dead = append(tables, s.table), append(dead, s.dead)
	}
	if _, _, err := segment.Merge(tables, dead); err != nil {
		return &unfitError{err}
	}
	return nil
}

func (e Env) readBaseSegment(ctx context.Context, ref artifact.SegmentRef, heads map[string][]byte) (s baseSegment, err error) {
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		if _, ok := ref.Files[name]; !ok {
			return s, unfit("segment %s has no file %s", ref.Digest, name)
		}
		if err := e.checkHead(ctx, ref, name, heads[name]); err != nil {
			return s, err
		}
	}
	key, err := artifact.SegmentKey(ref.Digest, segment.AccessFile)
	if err != nil {
		return s, err
	}
	file, err := artifact.GetVerified(ctx, e.Artifacts, key, ref.Files[segment.AccessFile].Digest)
	if err != nil {
		return s, err
	}
	s.ref = ref
	if s.table, err = access.DecodeTable(file); err != nil {
		return s, err
	}
	if s.dead, err = segment.ReadTombstones(ctx, e.Artifacts, ref, s.table); err != nil {
		return s, err
	}
	if s.dead == nil {
		s.dead = roaring.New()
	}
	return s, nil
}

// headBytes of a framed file are its magic word and its version.
const headBytes = 12

// heads are how this release begins each file of a segment, but for the access table, which is read whole.
func (e Env) heads() (map[string][]byte, error) {
	analyzer, err := bm25.NewAnalyzer(analyzerName(e.Config.Indexing.BM25))
	if err != nil {
		return nil, fmt.Errorf("indexing.bm25.analyzer: %w", err)
	}
	files, err := e.encode(bm25.NewBuilder(analyzer), nil, nil, nil)
	delete(files, segment.AccessFile)
	for name, file := range files {
		files[name] = file[:headBytes]
	}
	return files, err
}

// checkHead looks at the beginning of a file, which spares reading it: a file of an older format must not be kept beside
// newer ones.
func (e Env) checkHead(ctx context.Context, ref artifact.SegmentRef, name string, want []byte) error {
	key, err := artifact.SegmentKey(ref.Digest, name)
	if err != nil {
		return err
	}
	if ref.Files[name].Bytes < int64(len(want)) {
		return unfit("%s has %d bytes", key, ref.Files[name].Bytes)
	}
	head, _, err := artifact.ReadAll(ctx, e.Artifacts, key, artifact.Read{Length: int64(len(want))})
	if err != nil {
		return err
	}
	if !bytes.Equal(head, want) {
		return unfit("%s is of another format than this release writes", key)
	}
	return nil
}

// bury marks the documents of the parent that are gone, or are not what they were, as dead, and returns the others of docs:
// those that must be written. A document is what it was when its content, its date and its readers are: the readers too,
// because the overlay tells only of what has changed since this very snapshot.
func (b *base) bury(docs []source.Entry) (fresh []source.Entry, err error) {
	now, kept := byKey(docs), map[string]bool{}
	for _, s := range b.segments {
		for rank := range s.table.Len() {
			if s.dead.Contains(uint32(rank)) {
				continue
			}
			d := s.table.Doc(rank)
			was, known := b.before[d.Key]
			is, there := now[d.Key]
			same := known && there && cacheKey(was) == cacheKey(is) && was.Modified.Equal(is.Modified)
			if same {
				allow, err := access.NewAllow(is.Allow...)
				if err != nil {
					return nil, fmt.Errorf("access of %q: %w", d.Key, err)
				}
				same = allow.Equal(d.Allow)
			}
			if same {
				kept[d.Key] = true
			} else {
				s.dead.Add(uint32(rank))
			}
		}
	}
	for _, d := range docs {
		if !kept[d.Key] {
			fresh = append(fresh, d)
		}
	}
	return fresh, nil
}

func byKey(entries []source.Entry) map[string]source.Entry {
	out := make(map[string]source.Entry, len(entries))
	for _, d := range entries {
		out[d.Key] = d
	}
	return out
}

// compact drops the segments that the policy does not keep, and returns all documents that must be written then.
func (b *base) compact(docs, fresh []source.Entry, added uint64) []source.Entry {
	sizes := make([]Size, len(b.segments))
	for i, s := range b.segments {
		dead := uint64(segment.DeadChunks(s.table, s.dead))
		sizes[i] = Size{Living: uint64(s.ref.Chunks) - dead, Dead: dead}
	}
	write := map[string]bool{}
	for _, d := range fresh {
		write[d.Key] = true
	}
	var kept []baseSegment
	for i, goes := range Compact(sizes, added) {
		s := b.segments[i]
		if !goes {
			kept = append(kept, s)
			continue
		}
		for rank := range s.table.Len() {
			if !s.dead.Contains(uint32(rank)) {
				write[s.table.Doc(rank).Key] = true
			}
		}
	}
	b.segments = kept
	var out []source.Entry
	for _, d := range docs {
		if write[d.Key] {
			out = append(out, d)
		}
	}
	return out
}

// refs are the kept segments with their dead, whose lists are stored.
func (b *base) refs(ctx context.Context, bucket artifact.Bucket) (refs []artifact.SegmentRef, err error) {
	for _, s := range b.segments {
		ref := s.ref
		ref.Tombstones = nil
		if !s.dead.IsEmpty() {
			file := segment.EncodeTombstones(s.dead)
			ref.Tombstones = &artifact.Tombstones{
				FileRef:   artifact.FileRef{Digest: artifact.Digest(file), Bytes: int64(len(file))},
				Documents: uint32(s.dead.GetCardinality()), Chunks: segment.DeadChunks(s.table, s.dead),
			}
			key, err := artifact.TombstonesKey(ref.Digest, ref.Tombstones.Digest)
			if err != nil {
				return nil, err
			}
			if err := artifact.PutImmutable(ctx, bucket, key, file); err != nil {
				return nil, err
			}
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
