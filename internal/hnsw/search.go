package hnsw

import (
	"errors"
	"fmt"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// Hit is a chunk and the score of its vector, see Metric.
type Hit struct {
	Chunk uint32
	Score float64
}

// ErrQuery is wrapped by the error about a query vector that does not fit the index.
var ErrQuery = errors.New("query vector")

// Index is an open pair of files, whose bytes it shares and which must not change. It is safe for concurrent use.
type Index struct {
	v         *vectors
	g         *graph
	searchers sync.Pool // *searcher
}

// Open reads the heads of both files, so that it takes the same time for files of any size; their digests are their
// reader's to verify. The error wraps frame.ErrCorrupt, or names a version that this build does not read.
func Open(vectorsSeg, graphSeg []byte) (*Index, error) {
	v, err := openVectors(vectorsSeg)
	if err != nil {
		return nil, err
	}
	g, err := openGraph(graphSeg, vectorsSeg, v)
	if err != nil {
		return nil, err
	}
	x := &Index{v: v, g: g}
	x.searchers.New = func() any { return &searcher{walker: newWalker(v), rings: map[uint32]bool{}} }
	return x, nil
}

// Check reads all of both files: checksums, and every number. It is for those who have just written them.
func Check(vectorsSeg, graphSeg []byte) error {
	if _, err := vectorsKind.Open(vectorsSeg); err != nil {
		return err
	}
	if _, err := graphKind.Open(graphSeg); err != nil {
		return err
	}
	x, err := Open(vectorsSeg, graphSeg)
	if err != nil {
		return err
	}
	if err := x.v.check(); err != nil {
		return err
	}
	return x.g.check(x.v)
}

// Len is the number of chunks, visible or not: never tell a user.
func (x *Index) Len() int { return x.v.count }

// Dimensions of the vectors.
func (x *Index) Dimensions() int { return x.v.dimensions }

// Metric that the graph was built for.
func (x *Index) Metric() Metric { return x.v.metric }

// Kernel names the instruction set of the inner loop. Answers do not depend on it.
func (x *Index) Kernel() string { return x.v.kernel.Name }

// Search returns the at most k best of the allowed chunks, best first, ties by chunk, and how it went about it. nil allows
// nothing. ef is the width of a walk, should the planner choose one: a greater one finds more and takes longer. The error
// wraps ErrQuery or frame.ErrCorrupt.
func (x *Index) Search(q []float32, allow *roaring.Bitmap, k, ef int) ([]Hit, Plan, error) {
	return x.search(q, allow, k, filter.choose, ef)
}

// Scan is Search by the exact branch.
func (x *Index) Scan(q []float32, allow *roaring.Bitmap, k int) ([]Hit, Plan, error) {
	return x.search(q, allow, k, func(filter, int, int) way { return byScan }, 0)
}

// Walk is Search by the graph whatever that costs, and without the scan that would make up for too few hits: for measuring.
func (x *Index) Walk(q []float32, allow *roaring.Bitmap, k, ef int) ([]Hit, Plan, error) {
	return x.search(q, allow, k, func(filter, int, int) way { return byWalk }, ef)
}

func (x *Index) search(q []float32, allow *roaring.Bitmap, k int, choose func(f filter, k, ef int) way, ef int) ([]Hit, Plan, error) {
	s := x.searchers.Get().(*searcher)
	defer x.searchers.Put(s)
	if x.v.count == 0 { // nor has it dimensions
		return nil, Plan{Branch: Nothing}, nil
	}
	p, err := s.query(q)
	if err != nil {
		return nil, Plan{}, err
	}
	plan := Plan{Branch: Nothing, Allowed: x.allowed(allow)}
	if k = min(k, plan.Allowed); k < 1 || (x.v.metric == Cosine && p.step == 0) {
		return nil, plan, nil
	}
	f, ef := filter{allow, plan.Allowed, x.directed()}, max(k, ef)
	hits, err := x.follow(s, choose(f, k, ef), p, f, k, ef, &plan)
	return hits, plan, err
}

// allowed counts the chunks of the index that have a direction and are in the set.
func (x *Index) allowed(allow *roaring.Bitmap) int {
	if allow == nil {
		return 0
	}
	return int(allow.Rank(uint32(x.v.count-1)) - allow.AndCardinality(x.v.directionless))
}

// Score returns the score of each chunk, 0 for one that has no direction or does not exist, or when the query has none.
// It asks no permission: pass chunks that are allowed. The error wraps ErrQuery or frame.ErrCorrupt.
func (x *Index) Score(q []float32, chunks []uint32) ([]float64, error) {
	s := x.searchers.Get().(*searcher)
	defer x.searchers.Put(s)
	scores := make([]float64, len(chunks))
	if x.v.count == 0 {
		return scores, nil
	}
	p, err := s.query(q)
	if err != nil {
		return nil, err
	}
	for i, chunk := range chunks {
		if int64(chunk) >= int64(x.v.count) {
			continue
		}
		hit, err := s.score(p, []uint32{chunk}, nil)
		if err != nil {
			return nil, err
		}
		scores[i] = hit[0].Score
	}
	return scores, nil
}

// searcher is the memory of one search.
type searcher struct {
	*walker
	planes []byte          // of the query
	near   heap[key]       // the nearest to the query, allowed or not
	rings  map[uint32]bool // by node, whether a twin is allowed
	nodes  [batch]uint32
	dots   [batch]int32
	kept   []bounded
}

// query brings q into fixed point, where it stays until the next query.
func (s *searcher) query(q []float32) (point, error) {
	if len(q) != s.v.dimensions {
		return point{}, fmt.Errorf("%w: it has %d dimensions, the index %d: embed it with the model of the index", ErrQuery, len(q), s.v.dimensions)
	}
	s.planes = append(s.planes[:0], make([]byte, 2*s.v.stride)...)
	p := fix(q, s.v.metric, s.planes[:s.v.stride], s.planes[s.v.stride:])
	if p.broken {
		return point{}, fmt.Errorf("%w: a component or its length is not a finite number", ErrQuery)
	}
	return p, nil
}
