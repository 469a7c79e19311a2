package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/chunk"
	"quarry.dev/quarry/internal/parse"
	"quarry.dev/quarry/internal/source"
)

// Documents are read and parsed a batch at a time. Both bounds together keep a pod's memory small.
const (
	batchDocuments = 16
	batchBytes     = 64 << 20
)

// nextBatch is at least one document.
func nextBatch(todo []source.Entry) []source.Entry {
	total := int64(0)
	for i, d := range todo {
		if total += d.Size; i > 0 && (i == batchDocuments || total > batchBytes) {
			return todo[:i]
		}
	}
	return todo
}

// Chunk reads, parses and chunks the documents of a shard that no earlier version chunked under the same settings.
// Results are flushed as they come, so that a pod that is tried again goes on where the last one ended. An error means
// that the source or the settings are at fault; a document at fault is a Failure of the report.
func Chunk(ctx context.Context, e Env, shard int) (Report, error) {
	s, err := e.settings()
	if err != nil {
		return Report{}, err
	}
	docs, err := e.documents(ctx, shard)
	if err != nil {
		return Report{}, err
	}
	cache, err := artifact.OpenCache(ctx, e.Artifacts, NameChunk, s.chunk)
	if err != nil {
		return Report{}, err
	}
	r := Report{Stage: NameChunk, Shard: shard, Documents: int64(len(docs))}
	if err := reuse(ctx, cache, docs, &r); err != nil {
		return Report{}, err
	}
	var todo []source.Entry
	for _, d := range docs {
		if !cache.Has(cacheKey(d)) {
			todo = append(todo, d)
		}
	}
	w := cache.NewWriter()
	err = e.chunkAll(ctx, s, todo, len(docs), w, &r)
	// What was done is kept also after an error, even where ctx has ended.
	if err := errors.Join(err, w.Flush(context.WithoutCancel(ctx))); err != nil {
		return Report{}, err
	}
	return e.leave(ctx, r)
}

// reuse counts what the cache holds already.
func reuse(ctx context.Context, cache *artifact.Cache, docs []source.Entry, r *Report) error {
	return cache.Each(ctx, cacheKeys(docs), func(i int, value []byte) error {
		d, err := decodeChunks(value)
		if err != nil {
			return fmt.Errorf("cached chunks of %q: %w: delete the damaged cache and build again", docs[i].Key, err)
		}
		r.add(d)
		r.Reused += int64(len(d.Chunks))
		return nil
	})
}

func (r *Report) add(d ChunkedDocument) {
	r.Chunks += int64(len(d.Chunks))
	for _, c := range d.Chunks {
		r.Tokens += int64(c.Tokens)
	}
}

func (r *Report) fail(f Failure) {
	r.Failed++
	r.Failures = append(r.Failures, f)
}

func (e Env) chunkAll(ctx context.Context, s settings, todo []source.Entry, total int, w *artifact.Writer, r *Report) error {
	p := progress{out: e.Out, tell: e.Progress, report: r, total: total}
	denied := 0
	for start := 0; start < len(todo); {
		part := nextBatch(todo[start:])
		start += len(part)
		results, failures, err := e.chunkBatch(ctx, s, part)
		if err != nil {
			return err
		}
		for i, d := range part {
			if f := failures[i]; f != nil {
				if f.Reason == ReasonAccessDenied {
					denied++
				}
				r.fail(*f)
				continue
			}
			r.add(results[i])
			value, err := json.Marshal(results[i])
			if err != nil {
				return err
			}
			if err := w.Add(ctx, cacheKey(d), value); err != nil {
				return err
			}
		}
		p.line(total - len(todo) + start)
	}
	if denied > 0 && denied == len(todo) {
		return fmt.Errorf("the source's key may list but not read: all of %d documents were denied: let it read the objects below the prefix (%s)",
			denied, r.Failures[len(r.Failures)-1].Message)
	}
	p.line(total)
	return nil
}

func (e Env) chunkBatch(ctx context.Context, s settings, docs []source.Entry) ([]ChunkedDocument, []*Failure, error) {
	results, failures := make([]ChunkedDocument, len(docs)), make([]*Failure, len(docs))
	g, ctx := errgroup.WithContext(ctx)
	for i, d := range docs {
		g.Go(func() (err error) {
			results[i], err = e.chunkOne(ctx, s, d)
			var failed *parse.Failure
			if errors.As(err, &failed) {
				failures[i] = &Failure{Document: d.Key, Reason: string(failed.Reason), Message: failed.Message}
				return nil
			}
			return err
		})
	}
	return results, failures, g.Wait()
}

// chunkOne returns a *parse.Failure for all that is wrong with the document alone.
func (e Env) chunkOne(ctx context.Context, s settings, d source.Entry) (ChunkedDocument, error) {
	data, err := e.fetch(ctx, d)
	if err != nil {
		return ChunkedDocument{}, err
	}
	return chunkDocument(s, e.Config.Indexing.Chunking, d, data)
}

func (e Env) fetch(ctx context.Context, d source.Entry) ([]byte, error) {
	data, _, err := artifact.ReadAll(ctx, e.Source, d.Key, artifact.Read{IfMatch: d.ETag, MaxBytes: parse.MaxBytes})
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, artifact.ErrPrecondition), errors.Is(err, artifact.ErrNotFound):
		return nil, &parse.Failure{Reason: ReasonChanged, Message: "the object was replaced or deleted after it was listed: the index of the next snapshot takes it as it is then"}
	case errors.Is(err, artifact.ErrTooLarge):
		return nil, &parse.Failure{Reason: parse.TooLarge, Message: fmt.Sprintf("the object has more than %d bytes: split it, or exclude it", parse.MaxBytes)}
	case artifact.ReasonOf(err) == artifact.ReasonAccessDenied:
		return nil, &parse.Failure{Reason: ReasonAccessDenied, Message: err.Error()}
	}
	return nil, fmt.Errorf("read document %q: %w", d.Key, err)
}

// chunkDocument turns a panic of a parser into a failure of the document: one poisoned file must not stop the others.
func chunkDocument(s settings, spec v1alpha1.ChunkingSpec, d source.Entry, data []byte) (out ChunkedDocument, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &parse.Failure{Reason: parse.Malformed, Message: fmt.Sprintf("the document broke its parser (%v): report it, or exclude the object", p)}
		}
	}()
	doc, err := parse.Parse(d.Key, data)
	if err != nil {
		return ChunkedDocument{}, err
	}
	chunks, err := chunk.Split(doc, spec, s.encoder)
	if err != nil {
		return ChunkedDocument{}, fmt.Errorf("indexing.chunking: %w", err)
	}
	if len(chunks) == 0 {
		return ChunkedDocument{}, &parse.Failure{Reason: parse.Empty, Message: "the document holds no text: nothing of it can be found"}
	}
	return ChunkedDocument{Key: d.Key, ETag: d.ETag, Title: doc.Title, Chunks: chunks}, nil
}
