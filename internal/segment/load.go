package segment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

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

// Loaded is an index in memory, as far as its role needs it: the other fields are nil. The files are memory-mapped;
// nothing may be used after Close.
type Loaded struct {
	Manifest artifact.Manifest
	Access   *access.Table
	Chunks   *Chunks
	BM25     *bm25.Segment
	HNSW     *hnsw.Index

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
	if n := len(l.Manifest.Segments); n != 1 {
		return nil, fmt.Errorf("manifest %s: has %d segments, this release serves exactly one: serve it with the image that built it", manifestDigest, n)
	}
	seg := l.Manifest.Segments[0]
	data := map[string][]byte{}
	for _, name := range files {
		if data[name], err = l.file(ctx, b, seg, name, dir); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if err := l.open(seg, data); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
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

func (l *Loaded) open(seg artifact.SegmentRef, data map[string][]byte) (err error) {
	if l.Access, err = access.DecodeTable(data[AccessFile]); err != nil {
		return err
	}
	counts := map[string]uint32{AccessFile: l.Access.Chunks()}
	if file, ok := data[ChunksFile]; ok {
		if l.Chunks, err = Open(file); err != nil {
			return err
		}
		counts[ChunksFile] = l.Chunks.Len()
	}
	if file, ok := data[BM25File]; ok {
		if l.BM25, err = bm25.Open(file); err != nil {
			return err
		}
		counts[BM25File] = l.BM25.Chunks()
	}
	if file, ok := data[GraphFile]; ok {
		if l.HNSW, err = hnsw.Open(data[VectorsFile], file); err != nil {
			return err
		}
		counts[GraphFile] = uint32(l.HNSW.Len())
	}
	for name, n := range counts {
		if n != seg.Chunks {
			return fmt.Errorf("segment %s: %s holds %d chunks, the manifest says %d: build the index again", seg.Digest, name, n, seg.Chunks)
		}
	}
	return nil
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
