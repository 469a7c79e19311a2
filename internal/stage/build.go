package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/hnsw"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/source"
)

// Build makes an index of all documents that could be read. It keeps the segments of the parent, where there is one of the
// same settings: what was added or modified since goes into one new segment, what was modified or removed is marked dead in
// the old ones, and what the policy of compaction takes goes into the new one too. Without a parent one segment has all.
// Equal snapshots, settings and parents give equal bytes. Without a single chunk it is a *NoChunksError, and nothing is
// written.
func Build(ctx context.Context, e Env) (Report, error) {
	s, err := e.settings()
	if err != nil {
		return Report{}, err
	}
	r := Report{Stage: NameBuild}
	docs, err := e.allReadable(ctx, &r)
	if err != nil {
		return Report{}, err
	}
	if r.Chunks == 0 {
		return Report{}, &NoChunksError{Documents: int(r.Documents), Failed: int(r.Failed)}
	}
	p := progress{out: e.Out, report: &r, total: len(docs)}
	parent, write, err := e.divide(ctx, s, docs)
	if err != nil {
		return Report{}, err
	}
	m, err := e.writeSegments(ctx, s, parent, write)
	if err != nil {
		return Report{}, err
	}
	r.Chunks = livingChunks(m)
	m.Counts = artifact.Counts{Documents: r.Documents, FailedDocuments: r.Failed, Chunks: r.Chunks, Tokens: r.Tokens}
	if r.Manifest, r.ManifestDigest, err = artifact.WriteManifest(ctx, e.Artifacts, e.Config.ContentDigest, m); err != nil {
		return Report{}, err
	}
	p.line(len(docs))
	e.tellBuilt(int(r.Chunks), int(r.Chunks))
	return e.leave(ctx, r)
}

// tellBuilt tells of chunks: the graph takes nearly all the time of a build.
func (e Env) tellBuilt(done, total int) {
	if e.Progress != nil {
		e.Progress(NameBuild, done, total)
	}
}

// divide returns what is kept of the parent, and the documents that must be written.
func (e Env) divide(ctx context.Context, s settings, docs []source.Entry) (base, []source.Entry, error) {
	parent, err := e.openBase(ctx, s)
	if err != nil || len(parent.segments) == 0 {
		return base{}, docs, err
	}
	fresh, err := parent.bury(docs)
	if err != nil {
		return base{}, nil, err
	}
	cache, err := artifact.OpenCache(ctx, e.Artifacts, NameChunk, s.chunk)
	if err != nil {
		return base{}, nil, err
	}
	chunked, err := readAll(ctx, cache, NameChunk, fresh, decodeChunks)
	if err != nil {
		return base{}, nil, err
	}
	added := uint64(0)
	for _, d := range chunked {
		added += uint64(len(d.Chunks))
	}
	return parent, parent.compact(docs, fresh, added), nil
}

// writeSegments stores the new segment, if anything is to be written, and the tombstones of those that are kept.
func (e Env) writeSegments(ctx context.Context, s settings, parent base, write []source.Entry) (artifact.Manifest, error) {
	m := artifact.Manifest{
		FormatVersion: artifact.FormatVersion, Snapshot: e.Config.Snapshot, IndexingDigest: e.indexingDigest(s),
		Attestation: artifact.Attestation{EmbeddingModelDigest: s.encoder.Digest(), Dimensions: int32(s.encoder.Dimensions()),
			Analyzer: analyzerName(e.Config.Indexing.BM25), FormatVersion: artifact.FormatVersion},
	}
	var kernels []string
	var err error
	if m.Segments, err = parent.refs(ctx, e.Artifacts); err != nil {
		return m, err
	}
	if len(m.Segments) > 0 {
		m.Parent = e.Config.Parent.ManifestDigest
		kernels = strings.Split(parent.manifest.Attestation.EmbeddingKernels, ",")
	}
	if len(write) > 0 {
		made, err := e.assemble(ctx, s, write)
		if err != nil {
			return m, err
		}
		seg, err := e.upload(ctx, made)
		if err != nil {
			return m, err
		}
		seg.Documents = uint32(len(write))
		m.Segments, kernels = append(m.Segments, seg), append(kernels, made.kernels...)
	}
	slices.Sort(kernels)
	m.Attestation.EmbeddingKernels = strings.Trim(strings.Join(slices.Compact(kernels), ","), ",")
	return m, nil
}

// indexingDigest covers all that decides what a document becomes.
func (e Env) indexingDigest(s settings) string { return jsonDigest(e.Config.Indexing, s.embed) }

func livingChunks(m artifact.Manifest) (chunks int64) {
	for _, s := range m.Segments {
		chunks += int64(s.Chunks)
		if s.Tombstones != nil {
			chunks -= int64(s.Tombstones.Chunks)
		}
	}
	return chunks
}

// allReadable joins the shards in key order and sums their reports.
func (e Env) allReadable(ctx context.Context, r *Report) (docs []source.Entry, err error) {
	for shard := range e.shards() {
		part, report, err := e.readable(ctx, shard)
		if err != nil {
			return nil, err
		}
		docs = append(docs, part...)
		r.Documents += report.Documents
		r.Failed += report.Failed
		r.Chunks += report.Chunks
		r.Tokens += report.Tokens
		r.Failures = append(r.Failures, report.Failures...)
	}
	slices.SortFunc(docs, func(a, b source.Entry) int { return strings.Compare(a.Key, b.Key) })
	return docs, nil
}

// assembly is a segment before it is stored. kernels are those that made its vectors.
type assembly struct {
	files   map[string][]byte
	chunks  uint32
	kernels []string
}

// assemble makes the segment. The number of a chunk is its rank by (document, position).
func (e Env) assemble(ctx context.Context, s settings, docs []source.Entry) (made assembly, err error) {
	caches := [2]*artifact.Cache{}
	for i, c := range []struct{ stage, settings string }{{NameChunk, s.chunk}, {NameEmbed, s.embed}} {
		if caches[i], err = artifact.OpenCache(ctx, e.Artifacts, c.stage, c.settings); err != nil {
			return made, err
		}
	}
	chunked, err := readAll(ctx, caches[0], NameChunk, docs, decodeChunks)
	if err != nil {
		return made, err
	}
	contexts, err := e.readContexts(ctx, s, docs, chunked)
	if err != nil {
		return made, err
	}
	vectors, err := readAll(ctx, caches[1], NameEmbed, docs, decodeVectors(s.encoder.Dimensions()))
	if err != nil {
		return made, err
	}
	analyzer, err := bm25.NewAnalyzer(analyzerName(e.Config.Indexing.BM25))
	if err != nil {
		return made, fmt.Errorf("indexing.bm25.analyzer: %w", err)
	}
	postings := bm25.NewBuilder(analyzer)
	var passages []segment.Chunk
	var matrix [][]float32
	table := make([]access.Doc, len(docs))
	for i, d := range docs {
		if len(vectors[i].vectors) != len(chunked[i].Chunks) || len(contexts[i]) != len(chunked[i].Chunks) {
			return made, fmt.Errorf("%q has %d chunks, %d contexts and %d vectors: delete the damaged caches and build again",
				d.Key, len(chunked[i].Chunks), len(contexts[i]), len(vectors[i].vectors))
		}
		table[i] = access.Doc{Key: d.Key, Allow: d.Allow, FirstChunk: uint32(len(passages)), Chunks: uint32(len(chunked[i].Chunks))}
		for _, text := range indexedTexts(chunked[i], contexts[i]) {
			postings.Add(text)
		}
		passages = append(passages, passagesOf(d, chunked[i], contexts[i])...)
		matrix = append(matrix, vectors[i].vectors...)
	}
	made.chunks, made.kernels = uint32(len(passages)), kernelsOf(vectors)
	made.files, err = e.encode(postings, passages, matrix, table)
	return made, err
}

func kernelsOf(vectors []embedded) (names []string) {
	for _, v := range vectors {
		if len(v.vectors) > 0 {
			names = append(names, v.kernels)
		}
	}
	return names
}

// analyzerName is the name by which a segment remembers its analyzer.
func analyzerName(s v1alpha1.BM25Spec) string {
	if s.Accents == v1alpha1.AccentsFold {
		return s.Analyzer + bm25.Folded
	}
	return s.Analyzer
}

func passagesOf(d source.Entry, c ChunkedDocument, contexts []string) []segment.Chunk {
	out := make([]segment.Chunk, len(c.Chunks))
	for i, p := range c.Chunks {
		out[i] = segment.Chunk{Document: d.Key, Ordinal: uint32(i), Start: uint32(p.Start), End: uint32(p.End),
			Text: p.Text, Context: contexts[i], Headings: p.Headings, Page: p.Page, Modified: d.Modified}
	}
	return out
}

// Defaults of the graph, where a Config does not come from an API server.
const (
	defaultM              = 16
	defaultEfConstruction = 128
)

func (e Env) encode(postings *bm25.Builder, passages []segment.Chunk, matrix [][]float32, docs []access.Doc) (map[string][]byte, error) {
	graph := hnsw.Params{M: int(e.Config.Indexing.HNSW.M), EfConstruction: int(e.Config.Indexing.HNSW.EfConstruction), Progress: e.tellBuilt}
	if graph.M == 0 {
		graph.M = defaultM
	}
	if graph.EfConstruction == 0 {
		graph.EfConstruction = defaultEfConstruction
	}
	table, err := access.NewTable(docs)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{segment.BM25File: postings.Bytes(), segment.AccessFile: table.Encode()}
	if files[segment.ChunksFile], err = segment.Encode(passages); err != nil {
		return nil, err
	}
	if files[segment.VectorsFile], files[segment.GraphFile], err = hnsw.Build(matrix, graph); err != nil {
		return nil, err
	}
	return files, nil
}

// upload stores a segment, if its files can be read back: what is stored once is kept by many versions.
func (e Env) upload(ctx context.Context, made assembly) (artifact.SegmentRef, error) {
	seg := artifact.SegmentRef{Files: map[string]artifact.FileRef{}, Chunks: made.chunks}
	for name, body := range made.files {
		seg.Files[name] = artifact.FileRef{Digest: artifact.Digest(body), Bytes: int64(len(body))}
	}
	var err error
	if seg.Digest, err = artifact.SegmentDigest(seg.Files); err != nil {
		return seg, err
	}
	if err := segment.Check(seg, made.files); err != nil {
		return seg, fmt.Errorf("the new segment is damaged, nothing of it was stored: %w: if it is so again on another node, report it", err)
	}
	for name, body := range made.files {
		key, err := artifact.SegmentKey(seg.Digest, name)
		if err != nil {
			return seg, err
		}
		if err := artifact.PutImmutable(ctx, e.Artifacts, key, body); err != nil {
			return seg, err
		}
	}
	return seg, nil
}

// All runs every stage of every shard one after another, for a build without a cluster.
func All(ctx context.Context, e Env) (Report, error) {
	for _, stage := range []func(context.Context, Env, int) (Report, error){Chunk, Contextualize, Embed} {
		for shard := range e.shards() {
			if _, err := stage(ctx, e, shard); err != nil {
				return Report{}, err
			}
		}
	}
	return Build(ctx, e)
}

// ContentDigest names what the stages make of a snapshot, for a build without a cluster.
func ContentDigest(snapshot string, indexing v1alpha1.IndexingSpec) string {
	return jsonDigest(snapshot, indexing)
}
