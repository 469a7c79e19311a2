package stage

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/contextual"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/source"
)

// Contextualize writes, for each chunk of a shard, what is indexed before its text.
func Contextualize(ctx context.Context, e Env, shard int) (Report, error) {
	return e.derive(ctx, NameContextualize, shard, func(b batch) ([][]byte, error) {
		values := make([][]byte, len(b.chunked))
		for i, d := range b.chunked {
			var err error
			if values[i], err = json.Marshal(e.contexts(d)); err != nil {
				return nil, err
			}
		}
		return values, nil
	})
}

// contexts of a document's chunks: pure, and quick for Heading.
func (e Env) contexts(d ChunkedDocument) []string {
	out := make([]string, len(d.Chunks))
	if e.contextType() == v1alpha1.ContextHeading {
		for i, c := range d.Chunks {
			out[i] = contextual.Heading(d.Title, c)
		}
	}
	return out
}

// Embed makes the vectors of the chunks of a shard that no earlier version embedded under the same settings.
func Embed(ctx context.Context, e Env, shard int) (Report, error) {
	return e.derive(ctx, NameEmbed, shard, func(b batch) ([][]byte, error) {
		texts := make([][]string, len(b.chunked))
		for i, d := range b.chunked {
			texts[i] = indexedTexts(d, b.contexts[i])
		}
		vectors, err := encodeAll(ctx, b.encoder, slices.Concat(texts...), b.tell)
		if err != nil {
			return nil, err
		}
		values := make([][]byte, len(texts))
		for i := range values {
			values[i] = encodeVectors(b.encoder.Kernels(), vectors[:len(texts[i])])
			vectors = vectors[len(texts[i]):]
		}
		return values, nil
	})
}

// encodeBatch texts keep all cores busy, and are done in a second or two.
const encodeBatch = 64

// encodeAll returns a vector per text, or the error of ctx soon after that is done. It tells how many there are so far.
func encodeAll(ctx context.Context, encoder embed.Encoder, texts []string, tell func(done int)) ([][]float32, error) {
	vectors := make([][]float32, 0, len(texts))
	for part := range slices.Chunk(texts, encodeBatch) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors = append(vectors, encoder.Encode(part)...)
		tell(len(vectors))
	}
	return vectors, nil
}

// indexedTexts are what is embedded and put into postings.
func indexedTexts(d ChunkedDocument, contexts []string) []string {
	texts := make([]string, len(d.Chunks))
	for i, c := range d.Chunks {
		texts[i] = contextual.Indexed(contexts[i], c.Text)
	}
	return texts
}

// batch is some documents of which a value each is to be made. tell is told how many of their chunks are done.
type batch struct {
	settings
	chunked  []ChunkedDocument
	contexts [][]string
	tell     func(done int)
}

// derive runs a stage that works on chunks: it makes the values that are not cached, a batch of documents at a time.
func (e Env) derive(ctx context.Context, name string, shard int, work func(batch) ([][]byte, error)) (Report, error) {
	s, err := e.settings()
	if err != nil {
		return Report{}, err
	}
	docs, chunkReport, err := e.readable(ctx, shard)
	if err != nil {
		return Report{}, err
	}
	out := s.context
	if name == NameEmbed {
		out = s.embed
	}
	cache, err := artifact.OpenCache(ctx, e.Artifacts, name, out)
	if err != nil {
		return Report{}, err
	}
	chunks, err := artifact.OpenCache(ctx, e.Artifacts, NameChunk, s.chunk)
	if err != nil {
		return Report{}, err
	}
	r := Report{Stage: name, Shard: shard, Documents: chunkReport.Documents, Failed: chunkReport.Failed, Tokens: chunkReport.Tokens, Chunks: chunkReport.Chunks}
	todo := missing(cache, docs)
	p := progress{out: e.Out, report: &r, total: len(docs)}
	made, w := 0, cache.NewWriter()
	tell := func(done int) {
		if e.Progress != nil {
			e.Progress(name, done, int(r.Chunks))
		}
	}
	// What is cached is counted in documents. Of how many chunks these are is a guess until the end.
	cached := int(r.Chunks) * (len(docs) - len(todo)) / max(len(docs), 1)
	err = func() error {
		for start := 0; start < len(todo); start += deriveBatch {
			part := todo[start:min(start+deriveBatch, len(todo))]
			b := batch{settings: s, tell: func(done int) { tell(min(cached+made+done, int(r.Chunks))) }}
			n, err := e.deriveBatch(ctx, b, name, part, chunks, w, work)
			if err != nil {
				return err
			}
			made += n
			p.line(len(docs) - len(todo) + start + len(part))
		}
		return nil
	}()
	if err := errors.Join(err, w.Flush(context.WithoutCancel(ctx))); err != nil {
		return Report{}, err
	}
	r.Reused = r.Chunks - int64(made)
	p.line(len(docs))
	tell(int(r.Chunks))
	return e.leave(ctx, r)
}

// deriveBatch documents are decoded at a time.
const deriveBatch = 256

func (e Env) deriveBatch(ctx context.Context, b batch, name string, docs []source.Entry, chunks *artifact.Cache, w *artifact.Writer,
	work func(batch) ([][]byte, error)) (made int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if b.chunked, err = readAll(ctx, chunks, NameChunk, docs, decodeChunks); err != nil {
		return 0, err
	}
	if name == NameEmbed {
		if b.contexts, err = e.readContexts(ctx, b.settings, docs, b.chunked); err != nil {
			return 0, err
		}
	}
	values, err := work(b)
	if err != nil {
		return 0, err
	}
	for i, d := range docs {
		made += len(b.chunked[i].Chunks)
		if err := w.Add(ctx, cacheKey(d), values[i]); err != nil {
			return 0, err
		}
	}
	return made, nil
}

// readContexts reads what the stage before wrote; without contexts that stage does not run.
func (e Env) readContexts(ctx context.Context, s settings, docs []source.Entry, chunked []ChunkedDocument) ([][]string, error) {
	if e.contextType() == v1alpha1.ContextNone {
		out := make([][]string, len(docs))
		for i, d := range chunked {
			out[i] = e.contexts(d)
		}
		return out, nil
	}
	cache, err := artifact.OpenCache(ctx, e.Artifacts, NameContextualize, s.context)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, cache, NameContextualize, docs, decodeContexts)
}

func missing(cache *artifact.Cache, docs []source.Entry) (out []source.Entry) {
	for _, d := range docs {
		if !cache.Has(cacheKey(d)) {
			out = append(out, d)
		}
	}
	return out
}
