package segment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/hnsw"
)

// Names of a segment's files.
const (
	BM25File    = "bm25.seg"
	VectorsFile = "vectors.seg"
	GraphFile   = "hnsw.seg"
	ChunksFile  = "chunks.seg"
	AccessFile  = "access.seg"
)

// Role is a part of a serving stack; each loads only what it needs. Every role needs the access table.
type Role string

const (
	RoleBM25    Role = "bm25"
	RoleHNSW    Role = "hnsw"
	RoleGateway Role = "gateway"
	// RoleAll loads everything, for local search.
	RoleAll Role = "all"
)

func (r Role) files() ([]string, error) {
	switch r {
	case RoleBM25:
		return []string{AccessFile, BM25File}, nil
	case RoleHNSW:
		return []string{AccessFile, VectorsFile, GraphFile}, nil
	case RoleGateway:
		return []string{AccessFile, ChunksFile}, nil
	case RoleAll:
		return []string{AccessFile, ChunksFile, BM25File, VectorsFile, GraphFile}, nil
	}
	return nil, fmt.Errorf("role: is %q: use bm25, hnsw, gateway or all", r)
}

// Loaded is an index in memory, as far as its role needs it: the other fields are nil. Access and Chunks are of the whole
// index; BM25 and HNSW are by segment, and Numbers say which of their chunks is which. The files are memory-mapped; nothing
// may be used after Close.
type Loaded struct {
	Manifest artifact.Manifest
	Access   *access.Table
	Numbers  *Numbers
	Chunks   *Passages
	BM25     []*bm25.Segment
	HNSW     []*hnsw.Index

	maps [][]byte
}

// Load downloads the files of an index into dir, verifies the digests of the manifest and of every file, and opens them.
// Files that are in dir already are verified, not fetched again.
func Load(ctx context.Context, b artifact.Bucket, contentDigest, manifestDigest, dir string, role Role) (*Loaded, error) {
	files, err := role.files()
	if err != nil {
		return nil, err
	}
	l := &Loaded{}
	if l.Manifest, err = artifact.ReadManifest(ctx, b, contentDigest, manifestDigest); err != nil {
		return nil, err
	}
	parts := make([]part, len(l.Manifest.Segments))
	for i, seg := range l.Manifest.Segments {
		data := map[string][]byte{}
		for _, name := range files {
			if data[name], err = l.file(ctx, b, seg, name, dir); err != nil {
				return nil, errors.Join(err, l.Close())
			}
		}
		if parts[i], err = openPart(seg, data); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if parts[i].dead, err = ReadTombstones(ctx, b, seg, parts[i].access); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if err := l.join(parts); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ReadTombstones returns the dead of a segment with that table, nil where all live, and checks them against the manifest.
func ReadTombstones(ctx context.Context, b artifact.Bucket, seg artifact.SegmentRef, table *access.Table) (*roaring.Bitmap, error) {
	if seg.Tombstones == nil {
		return nil, nil
	}
	key, err := artifact.TombstonesKey(seg.Digest, seg.Tombstones.Digest)
	if err != nil {
		return nil, err
	}
	file, err := artifact.GetVerified(ctx, b, key, seg.Tombstones.Digest)
	if err != nil {
		return nil, err
	}
	dead, err := DecodeTombstones(file, table.Len())
	if err != nil {
		return nil, err
	}
	if n, chunks := dead.GetCardinality(), DeadChunks(table, dead); n != uint64(seg.Tombstones.Documents) || chunks != seg.Tombstones.Chunks {
		return nil, fmt.Errorf("segment %s: %d documents with %d chunks are dead, the manifest says %d with %d: build the index again",
			seg.Digest, n, chunks, seg.Tombstones.Documents, seg.Tombstones.Chunks)
	}
	return dead, nil
}

// DeadChunks counts the chunks of dead documents.
func DeadChunks(table *access.Table, dead *roaring.Bitmap) (chunks uint32) {
	for it := dead.Iterator(); it.HasNext(); {
		chunks += table.Doc(int(it.Next())).Chunks
	}
	return chunks
}

// part is one open segment.
type part struct {
	access *access.Table
	dead   *roaring.Bitmap
	chunks *Chunks
	bm25   *bm25.Segment
	hnsw   *hnsw.Index
}

// join makes one index of its segments. All parts hold the same files, since all were opened for one role.
func (l *Loaded) join(parts []part) (err error) {
	var tables []*access.Table
	var dead []*roaring.Bitmap
	var chunks []*Chunks
	for _, p := range parts {
		tables, dead = append(tables, p.access), append(dead, p.dead)
		if p.chunks != nil {
			chunks = append(chunks, p.chunks)
		}
		if p.bm25 != nil {
			l.BM25 = append(l.BM25, p.bm25)
		}
		if p.hnsw != nil {
			l.HNSW = append(l.HNSW, p.hnsw)
		}
	}
	if l.Access, l.Numbers, err = Merge(tables, dead); err != nil {
		return err
	}
	if chunks != nil {
		l.Chunks = NewPassages(l.Numbers, chunks)
	}
	return nil
}

func (l *Loaded) file(ctx context.Context, b artifact.Bucket, seg artifact.SegmentRef, name, dir string) ([]byte, error) {
	ref, ok := seg.Files[name]
	if !ok {
		return nil, fmt.Errorf("segment %s: has no file %s", seg.Digest, name)
	}
	key, err := artifact.SegmentKey(seg.Digest, name)
	if err != nil {
		return nil, err
	}
	h, err := artifact.DigestHex(ref.Digest)
	if err != nil {
		return nil, fmt.Errorf("segment file %s: %w", name, err)
	}
	path := filepath.Join(dir, h+"-"+name)
	if err := artifact.Download(ctx, b, key, path, ref.Digest); err != nil {
		return nil, err
	}
	m, err := mapFile(path)
	if err == nil && m != nil {
		l.maps = append(l.maps, m)
	}
	return m, err
}

// mapFile maps the whole file for reading; an empty file gives nil.
func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil || stat.Size() == 0 {
		return nil, err
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, int(stat.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", filepath.Base(path), err)
	}
	return m, nil
}

// openPart opens the files that are there; the access table must be.
func openPart(seg artifact.SegmentRef, data map[string][]byte) (p part, err error) {
	if p.access, err = access.DecodeTable(data[AccessFile]); err != nil {
		return p, err
	}
	counts := map[string]uint32{AccessFile: p.access.Chunks()}
	if file, ok := data[ChunksFile]; ok {
		if p.chunks, err = Open(file); err != nil {
			return p, err
		}
		counts[ChunksFile] = p.chunks.Len()
	}
	if file, ok := data[BM25File]; ok {
		if p.bm25, err = bm25.Open(file); err != nil {
			return p, err
		}
		counts[BM25File] = p.bm25.Chunks()
	}
	if file, ok := data[GraphFile]; ok {
		if p.hnsw, err = hnsw.Open(data[VectorsFile], file); err != nil {
			return p, err
		}
		counts[GraphFile] = uint32(p.hnsw.Len())
	}
	for name, n := range counts {
		if n != seg.Chunks {
			return p, fmt.Errorf("segment %s: %s holds %d chunks, not %d: build the index again", seg.Digest, name, n, seg.Chunks)
		}
	}
	return p, nil
}

// Check reads all files of a segment through, as no pod does that serves it: each for itself, and that they hold the same
// number of chunks. It is for those who have just written them, before anyone is told of them.
func Check(seg artifact.SegmentRef, files map[string][]byte) error {
	names, err := RoleAll.files()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := files[name]; !ok {
			return fmt.Errorf("segment %s: has no file %s", seg.Digest, name)
		}
	}
	if _, err := openPart(seg, files); err != nil {
		return err
	}
	return errors.Join(bm25.Check(files[BM25File]), hnsw.Check(files[VectorsFile], files[GraphFile]))
}

// Close unmaps the files.
func (l *Loaded) Close() error {
	var errs []error
	for _, m := range l.maps {
		errs = append(errs, syscall.Munmap(m))
	}
	l.maps = nil
	return errors.Join(errs...)
}
