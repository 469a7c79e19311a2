package stage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/chunk"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/source"
)

// Versions of the stages' code are part of their cache settings: raise one when its results change.
const (
	chunkVersion   = "chunk/1"
	contextVersion = "contextualize/1"
	embedVersion   = "embed/2"
)

// ChunkedDocument is the cached result of the chunk stage.
type ChunkedDocument struct {
	Key    string        `json:"key"`
	ETag   string        `json:"etag"`
	Title  string        `json:"title"`
	Chunks []chunk.Chunk `json:"chunks"`
}

// settings are the digests under which each stage caches.
type settings struct {
	encoder               embed.Encoder
	chunk, context, embed string
}

func (e Env) settings() (s settings, err error) {
	if kind := e.Config.Indexing.Embedding.Type; kind != "" && kind != "Builtin" {
		return s, fmt.Errorf("indexing.embedding.type: %q is not yet supported: use Builtin", kind)
	}
	if s.encoder, err = embed.Builtin(e.Config.Indexing.Embedding.Model); err != nil {
		return s, fmt.Errorf("indexing.embedding.model: %w", err)
	}
	s.chunk = jsonDigest(chunkVersion, e.Config.Indexing.Chunking, s.encoder.Digest())
	s.context = jsonDigest(contextVersion, s.chunk, string(e.contextType()))
	s.embed = jsonDigest(embedVersion, s.context, s.encoder.Digest())
	return s, nil
}

func (e Env) contextType() v1alpha1.ContextType {
	if t := e.Config.Indexing.Context.Type; t != "" {
		return t
	}
	return v1alpha1.ContextNone
}

func jsonDigest(parts ...any) string {
	body, err := json.Marshal(parts)
	if err != nil {
		panic(err) // plain data structures
	}
	return artifact.Digest(body)
}

// cacheKey is the content of a document, as far as the listing knows it.
func cacheKey(e source.Entry) string {
	return artifact.Digest(fmt.Appendf(nil, "%s\x00%s\x00%d", e.Key, e.ETag, e.Size))
}

// shardOf spreads documents by key, so that a document stays in its shard when others come and go.
func shardOf(key string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(shards))
}

// documents of one shard, in key order.
func (e Env) documents(ctx context.Context, shard int) ([]source.Entry, error) {
	if shard < 0 || shard >= e.shards() {
		return nil, fmt.Errorf("shard: is %d: this index has shards 0 to %d", shard, e.shards()-1)
	}
	snapshot, err := source.ReadSnapshot(ctx, e.Artifacts, e.Config.Snapshot)
	if err != nil {
		return nil, err
	}
	var mine []source.Entry
	for _, d := range snapshot.Entries {
		if shardOf(d.Key, e.shards()) == shard {
			mine = append(mine, d)
		}
	}
	return mine, nil
}

// readable are the documents of a shard without those that the chunk stage put in quarantine.
func (e Env) readable(ctx context.Context, shard int) ([]source.Entry, Report, error) {
	docs, err := e.documents(ctx, shard)
	if err != nil {
		return nil, Report{}, err
	}
	report, err := e.readReport(ctx, NameChunk, shard)
	if err != nil {
		return nil, Report{}, err
	}
	failed := map[string]bool{}
	for _, f := range report.Failures {
		failed[f.Document] = true
	}
	kept := docs[:0]
	for _, d := range docs {
		if !failed[d.Key] {
			kept = append(kept, d)
		}
	}
	return kept, report, nil
}

func cacheKeys(docs []source.Entry) []string {
	keys := make([]string, len(docs))
	for i, d := range docs {
		keys[i] = cacheKey(d)
	}
	return keys
}

// readAll decodes the cached value of every document, in their order; one that is absent is an error, since the stage
// before must have written it.
func readAll[T any](ctx context.Context, c *artifact.Cache, stage string, docs []source.Entry, decode func([]byte) (T, error)) ([]T, error) {
	values, have := make([]T, len(docs)), make([]bool, len(docs))
	err := c.Each(ctx, cacheKeys(docs), func(i int, value []byte) (err error) {
		if values[i], err = decode(value); err != nil {
			return fmt.Errorf("cached %s of %q: %w: delete the damaged cache and build again", stage, docs[i].Key, err)
		}
		have[i] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range have {
		if !have[i] {
			return nil, fmt.Errorf("%q has no cached result of stage %s: run that stage again", docs[i].Key, stage)
		}
	}
	return values, nil
}

func decodeChunks(value []byte) (d ChunkedDocument, err error) {
	err = json.Unmarshal(value, &d)
	return d, err
}

func decodeContexts(value []byte) (c []string, err error) {
	err = json.Unmarshal(value, &c)
	return c, err
}

// embedded is the cached result of the embed stage. The nodes of a cluster may differ, and what is reused may come of other
// kernels than what is made now, so each document remembers its own.
type embedded struct {
	kernels string
	vectors [][]float32
}

// encodeVectors writes the length and the name of the kernels, then a matrix of float32, little endian, row by row.
func encodeVectors(kernels string, vectors [][]float32) []byte {
	size := 1 + len(kernels)
	for _, v := range vectors {
		size += 4 * len(v)
	}
	out := append(append(make([]byte, 0, size), byte(len(kernels))), kernels...)
	for _, v := range vectors {
		for _, x := range v {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out
}

func decodeVectors(dimensions int) func([]byte) (embedded, error) {
	return func(value []byte) (e embedded, err error) {
		if len(value) == 0 || len(value) < 1+int(value[0]) {
			return e, fmt.Errorf("%d bytes do not hold the name of the kernels", len(value))
		}
		name := 1 + int(value[0])
		e.kernels, value = string(value[1:name]), value[name:]
		row := 4 * dimensions
		if len(value)%row != 0 {
			return e, fmt.Errorf("%d bytes are no rows of %d dimensions", len(value), dimensions)
		}
		e.vectors = make([][]float32, 0, len(value)/row)
		for ; len(value) > 0; value = value[row:] {
			v := make([]float32, dimensions)
			for i := range v {
				v[i] = math.Float32frombits(binary.LittleEndian.Uint32(value[4*i:]))
			}
			e.vectors = append(e.vectors, v)
		}
		return e, nil
	}
}
