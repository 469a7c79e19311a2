package search

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/hnsw"
)

const (
	defaultK1 = 0.9
	defaultB  = 0.4
	// minEf is the least width of a graph walk; recall falls off below it.
	minEf = 128
)

type lexical struct {
	segment *bm25.Segment
	k1, b   float64
}

// NewLexical ranks by BM25.
func NewLexical(segment *bm25.Segment, spec v1alpha1.BM25Spec) (Ranker, error) {
	k1, err := decimal("bm25.k1", spec.K1, defaultK1, 100)
	if err != nil {
		return nil, err
	}
	b, err := decimal("bm25.b", spec.B, defaultB, 1)
	if err != nil {
		return nil, err
	}
	return lexical{segment, k1, b}, nil
}

func (l lexical) Search(query string, allow *roaring.Bitmap, k int) (Ranking, error) {
	result, err := l.segment.Search(bm25.Query{Text: query, Allow: allow, K: k, K1: l.k1, B: l.b})
	if err != nil {
		return Ranking{}, err
	}
	hits := make([]ChunkHit, len(result.Hits))
	for i, h := range result.Hits {
		hits[i] = ChunkHit(h)
	}
	return Ranking{Hits: hits, Bound: result.Bound}, nil
}

func (l lexical) Score(query string, allow *roaring.Bitmap, chunks []uint32) ([]float64, error) {
	return l.segment.Score(bm25.Query{Text: query, Allow: allow, K1: l.k1, B: l.b}, chunks)
}

type dense struct {
	index   *hnsw.Index
	encoder embed.Encoder
}

// NewDense ranks by the cosine of vectors. The encoder must be the one that the index was built with.
func NewDense(index *hnsw.Index, encoder embed.Encoder, builtWith string) (Ranker, error) {
	if encoder.Digest() != builtWith {
		return nil, fmt.Errorf("embedding model: this image holds %s, the index was built with %s: serve it with the image that built it", encoder.Digest(), builtWith)
	}
	if index.Len() > 0 && index.Dimensions() != encoder.Dimensions() {
		return nil, fmt.Errorf("embedding model: has %d dimensions, the index %d: build the index again", encoder.Dimensions(), index.Dimensions())
	}
	return dense{index, encoder}, nil
}

func (d dense) Search(query string, allow *roaring.Bitmap, k int) (Ranking, error) {
	found, plan, err := d.index.Search(d.encoder.Encode([]string{query})[0], allow, k, max(2*k, minEf))
	if err != nil {
		return Ranking{}, err
	}
	hits := make([]ChunkHit, len(found))
	for i, h := range found {
		hits[i] = ChunkHit(h)
	}
	out := Ranking{Hits: hits, Plan: plan}
	if plan.Branch != hnsw.Nothing {
		out.Bound = 1 // of a cosine
	}
	return out, nil
}

func (d dense) Score(query string, allow *roaring.Bitmap, chunks []uint32) ([]float64, error) {
	scores, err := d.index.Score(d.encoder.Encode([]string{query})[0], chunks)
	if err != nil {
		return nil, err
	}
	for i, chunk := range chunks {
		if !allow.Contains(chunk) {
			scores[i] = 0
		}
	}
	return scores, nil
}
