package search

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/hnsw"
	"quarry.dev/quarry/internal/segment"
)

const (
	defaultK1 = 0.9
	defaultB  = 0.4
	// minEf is the least width of a graph walk; recall falls off below it.
	minEf = 128
)

type lexical struct {
	numbers  *segment.Numbers
	segments []*bm25.Segment
	k1, b    float64
}

// NewLexical ranks by BM25 over all segments of an index.
func NewLexical(numbers *segment.Numbers, segments []*bm25.Segment, spec v1alpha1.BM25Spec) (Ranker, error) {
	if len(segments) != numbers.Segments() {
		return nil, fmt.Errorf("bm25: %d segments are open, the index has %d", len(segments), numbers.Segments())
	}
	for i, s := range segments {
		if first, own := segments[0].Analyzer().Name(), s.Analyzer().Name(); own != first {
			return nil, fmt.Errorf("bm25: segments[%d] was analyzed as %q, segments[0] as %q: build the index again", i, own, first)
		}
	}
	k1, b, err := ParseBM25(spec)
	if err != nil {
		return nil, err
	}
	return lexical{numbers, segments, k1, b}, nil
}

// ParseBM25 returns the parameters of a recipe, or their defaults; the error names the one that is out of range.
func ParseBM25(spec v1alpha1.BM25Spec) (k1, b float64, err error) {
	if k1, err = decimal("bm25.k1", spec.K1, defaultK1, 100); err != nil {
		return 0, 0, err
	}
	b, err = decimal("bm25.b", spec.B, defaultB, 1)
	return k1, b, err
}

// questions are one for each segment; all segments of an index have one analyzer.
func (l lexical) questions(query string, allow *roaring.Bitmap, k int) []bm25.Query {
	out := make([]bm25.Query, len(l.segments))
	terms := l.segments[0].Terms(query)
	for i, part := range l.numbers.Locals(allow) {
		out[i] = bm25.Query{Terms: terms, Allow: part, K: k, K1: l.k1, B: l.b}
	}
	return out
}

// statistics are those of all that may be seen, in whatever segment; nil where one segment has them all.
func (l lexical) statistics(questions []bm25.Query) (*bm25.Statistics, error) {
	if len(l.segments) == 1 {
		return nil, nil
	}
	sum := &bm25.Statistics{}
	for i, s := range l.segments {
		part, err := s.Statistics(questions[i])
		if err != nil {
			return nil, err
		}
		sum.Add(part)
	}
	return sum, nil
}

// Search asks one segment after another: the k-th best score so far tells the next one what is too low.
func (l lexical) Search(query string, allow *roaring.Bitmap, k int) (Ranking, error) {
	questions := l.questions(query, allow, k)
	over, err := l.statistics(questions)
	if err != nil {
		return Ranking{}, err
	}
	var out Ranking
	for i, s := range l.segments {
		if len(out.Hits) == k {
			questions[i].Floor = out.Hits[k-1].Score
		}
		result, err := s.SearchWith(over, questions[i])
		if err != nil {
			return Ranking{}, err
		}
		out.Bound = result.Bound
		for _, h := range result.Hits {
			if out.Hits, err = appendHit(out.Hits, l.numbers, i, h.Chunk, h.Score); err != nil {
				return Ranking{}, err
			}
		}
		if i > 0 && len(result.Hits) > 0 {
			out.Hits = best(out.Hits, k)
		}
	}
	return out, nil
}

func (l lexical) Score(query string, allow *roaring.Bitmap, chunks []uint32) ([]float64, error) {
	questions := l.questions(query, allow, 0)
	over, err := l.statistics(questions)
	if err != nil {
		return nil, err
	}
	return scoreParts(l.numbers, chunks, func(segment int, local []uint32) ([]float64, error) {
		return l.segments[segment].ScoreWith(over, questions[segment], local)
	})
}

// appendHit renames a hit of a segment. A segment returns nothing dead; should it, there is no answer.
func appendHit(hits []ChunkHit, n *segment.Numbers, i int, local uint32, score float64) ([]ChunkHit, error) {
	chunk, ok := n.Number(i, local)
	if !ok {
		return nil, fmt.Errorf("segment %d returned a chunk that does not live", i)
	}
	return append(hits, ChunkHit{chunk, score}), nil
}

// best are the k best by (score descending, chunk ascending) of what the segments returned, each in that order.
func best(hits []ChunkHit, k int) []ChunkHit {
	slices.SortFunc(hits, func(a, b ChunkHit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Chunk, b.Chunk))
	})
	return hits[:min(len(hits), max(k, 0))]
}

// scoreParts lets each segment score its own of these chunks; a chunk that does not live scores 0.
func scoreParts(n *segment.Numbers, chunks []uint32, score func(segment int, local []uint32) ([]float64, error)) ([]float64, error) {
	local, at := make([][]uint32, n.Segments()), make([][]int, n.Segments())
	for i, chunk := range chunks {
		if s, own, ok := n.Place(chunk); ok {
			local[s], at[s] = append(local[s], own), append(at[s], i)
		}
	}
	scores := make([]float64, len(chunks))
	for s := range local {
		if len(local[s]) == 0 {
			continue
		}
		part, err := score(s, local[s])
		if err != nil {
			return nil, err
		}
		for j, i := range at[s] {
			scores[i] = part[j]
		}
	}
	return scores, nil
}

type dense struct {
	numbers  *segment.Numbers
	segments []*hnsw.Index
	encoder  embed.Encoder
	vectors  *lru.Cache[asked, []float32]
}

// asked is a question of those who may see the same. A gateway asks it twice, to search and to score what the other
// retriever found; its vector is kept in between, and never for others: that somebody else has asked would show in the time.
type asked struct {
	allow *roaring.Bitmap
	query string
}

// keptVectors bounds the questions that are answered at the same time and embedded once.
const keptVectors = 256

func (d dense) vector(query string, allow *roaring.Bitmap) []float32 {
	if v, ok := d.vectors.Get(asked{allow, query}); ok {
		return v
	}
	v := d.encoder.Encode([]string{query})[0]
	d.vectors.Add(asked{allow, query}, v)
	return v
}

// NewDense ranks by the cosine of vectors over all segments of an index. The encoder must be the one that it was built with.
func NewDense(numbers *segment.Numbers, segments []*hnsw.Index, encoder embed.Encoder, builtWith string) (Ranker, error) {
	if len(segments) != numbers.Segments() {
		return nil, fmt.Errorf("hnsw: %d segments are open, the index has %d", len(segments), numbers.Segments())
	}
	if encoder.Digest() != builtWith {
		return nil, fmt.Errorf("embedding model: this image holds %s, the index was built with %s: serve it with the image that built it", encoder.Digest(), builtWith)
	}
	for _, s := range segments {
		if s.Len() > 0 && s.Dimensions() != encoder.Dimensions() {
			return nil, fmt.Errorf("embedding model: has %d dimensions, the index %d: build the index again", encoder.Dimensions(), s.Dimensions())
		}
	}
	vectors, err := lru.New[asked, []float32](keptVectors)
	return dense{numbers, segments, encoder, vectors}, err
}

// Search asks each segment for the k best; how each was searched is its own plan.
func (d dense) Search(query string, allow *roaring.Bitmap, k int) (Ranking, error) {
	vector := d.vector(query, allow)
	var out Ranking
	var plans []hnsw.Plan
	for i, part := range d.numbers.Locals(allow) {
		found, plan, err := d.segments[i].Search(vector, part, k, max(2*k, minEf))
		if err != nil {
			return Ranking{}, err
		}
		for _, h := range found {
			if out.Hits, err = appendHit(out.Hits, d.numbers, i, h.Chunk, h.Score); err != nil {
				return Ranking{}, err
			}
		}
		if plan.Branch != hnsw.Nothing {
			out.Bound = 1 // of a cosine
		}
		plans = append(plans, plan)
	}
	out.Hits, out.Plan = best(out.Hits, k), plans
	return out, nil
}

func (d dense) Score(query string, allow *roaring.Bitmap, chunks []uint32) ([]float64, error) {
	vector := d.vector(query, allow)
	scores, err := scoreParts(d.numbers, chunks, func(segment int, local []uint32) ([]float64, error) {
		return d.segments[segment].Score(vector, local)
	})
	for i, chunk := range chunks {
		if err == nil && !allow.Contains(chunk) {
			scores[i] = 0
		}
	}
	return scores, err
}
