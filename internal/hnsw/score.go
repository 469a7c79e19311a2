package hnsw

import (
	"cmp"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// batch is how many vectors are compared at a time.
const batch = 256

// score appends the exact scores of nodes, which are below count, to hits: integer sums over both halves.
func (s *searcher) score(p point, nodes []uint32, hits []Hit) ([]Hit, error) {
	v := s.v
	for part := range slices.Chunk(nodes, batch) {
		var sums [batch]int64
		for _, term := range []struct {
			left, rows []byte
			weight     int64
		}{{p.high, v.high, 1 << 16}, {p.high, v.low, 1 << 8}, {p.low, v.high, 1 << 8}, {p.low, v.low, 1}} {
			v.kernel.Rows(term.left, term.rows, part, s.dots[:])
			for i := range part {
				sums[i] += term.weight * int64(s.dots[i])
			}
		}
		for i, node := range part {
			o, err := v.point(node)
			if err != nil {
				return hits, err
			}
			hits = append(hits, Hit{node, v.metric.score(float64(sums[i])*(float64(p.step)*float64(o.step)), p, o)})
		}
	}
	return hits, nil
}

func (m Metric) score(product float64, p, o point) float64 {
	switch m {
	case Cosine:
		return max(-1, min(product, 1))
	case L2:
		return min(0, 2*product-(float64(p.square)+float64(o.square)))
	}
	return product
}

// bounds returns an interval that holds the score of p and o, from the product of their high halves. By Cauchy and Schwarz,
//
//	|p*o - high(p)*high(o)| <= |high(p)|*|low(o)| + |low(p)|*|o|,
//
// where low(o) is no longer than the longest of the file.
type bounds struct {
	v         *vectors
	p         point
	perStep   float64 // |high(p)|*|low(o)| is at most this times the step of o
	perLength float64 // |low(p)|
	doubled   float64
}

func (v *vectors) bounds(p point) bounds {
	const slack = 1 + 1e-6 // of the roundings of steps, squares and what follows
	step := float64(p.step) * slack
	b := bounds{v: v, p: p, perStep: step * 256 * math.Sqrt(float64(squaredLength(p.high))) * math.Sqrt(float64(v.widest)),
		perLength: step * math.Sqrt(float64(squaredLength(p.low))), doubled: 1}
	if v.metric == L2 {
		b.doubled = 2
	}
	return b
}

// of returns the interval for vector node, whose high half gave that product.
func (b *bounds) of(node uint32, product int32) (low, high float64, err error) {
	step, square, length := f32(b.v.steps, node), float32(0), 1.0
	if b.v.squares != nil {
		square = f32(b.v.squares, node)
		length = math.Sqrt(float64(square))
	}
	if !finite(step) || !finite(square) {
		_, err = b.v.point(node)
		return 0, 0, err
	}
	middle := b.doubled * float64(product) * (1 << 16) * float64(b.p.step) * float64(step)
	slip := b.doubled*(b.perStep*float64(step)+b.perLength*length) + 1e-6*math.Abs(middle)
	if b.v.metric == L2 {
		squares := float64(b.p.square) + float64(square)
		middle, slip = middle-squares, slip+1e-6*squares
	}
	return middle - slip, middle + slip, nil
}

// bounded is a vector whose score is at most high.
type bounded struct {
	high float64
	node uint32
}

// scan returns the k best of the allowed, k at most their number, and is exact: the high halves of all give each score an
// interval, and whatever could be among the best is scored in full. So the answer depends on nothing but the allowed.
func (s *searcher) scan(p point, allow *roaring.Bitmap, k int) ([]Hit, error) {
	b := s.v.bounds(p)
	floor := worst{k: k} // of the lower ends
	limit, kept := 4*batch, s.kept[:0]
	for it := allow.ManyIterator(); ; {
		nodes := s.nodes[:it.NextMany(s.nodes[:])]
		end, _ := slices.BinarySearch(nodes, uint32(s.v.count))
		nodes = nodes[:end]
		if len(nodes) == 0 {
			break
		}
		s.v.kernel.Rows(p.high, s.v.high, nodes, s.dots[:])
		for i, node := range nodes {
			low, high, err := b.of(node, s.dots[i])
			if err != nil {
				return nil, err
			}
			if high >= floor.least() && !s.v.lacksDirection(node) {
				floor.offer(low)
				kept = append(kept, bounded{high, node})
			}
		}
		if len(kept) > limit {
			kept = slices.DeleteFunc(kept, func(c bounded) bool { return c.high < floor.least() })
			limit = 2*len(kept) + 4*batch
		}
	}
	kept = slices.DeleteFunc(kept, func(c bounded) bool { return c.high < floor.least() })
	s.kept = kept
	slices.SortFunc(kept, func(a, b bounded) int { return cmp.Or(cmp.Compare(b.high, a.high), cmp.Compare(a.node, b.node)) })
	return s.settle(p, kept, k)
}

// settle scores candidates, which descend by the upper end, until none that is left can be among the k best.
func (s *searcher) settle(p point, kept []bounded, k int) (hits []Hit, err error) {
	floor := worst{k: k}
	for i := 0; i < len(kept) && kept[i].high >= floor.least(); {
		nodes := s.nodes[:0]
		for ; i < len(kept) && len(nodes) < min(k, batch); i++ {
			nodes = append(nodes, kept[i].node)
		}
		scored := len(hits)
		if hits, err = s.score(p, nodes, hits); err != nil {
			return nil, err
		}
		for _, h := range hits[scored:] {
			floor.offer(h.Score)
		}
	}
	return best(hits, k), nil
}

func best(hits []Hit, k int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Chunk, b.Chunk)) })
	return hits[:min(k, len(hits))]
}

func (v *vectors) lacksDirection(node uint32) bool {
	return v.metric == Cosine && f32(v.steps, node) == 0
}

// worst keeps the k greatest numbers, the least of them first.
type worst struct {
	k    int
	heap heap[float64]
}

// least of the k greatest, or minus infinity while there are fewer.
func (w *worst) least() float64 {
	if len(w.heap) < w.k {
		return math.Inf(-1)
	}
	return w.heap[0]
}

func (w *worst) offer(f float64) {
	if len(w.heap) < w.k {
		w.heap.push(f)
	} else if f > w.heap[0] {
		w.heap.replace(f)
	}
}
