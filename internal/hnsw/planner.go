package hnsw

import (
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"
)

// Branch is the way that a search went.
type Branch string

// The ways of a search.
const (
	// Nothing: nothing is allowed, the query has no direction, or k is below 1.
	Nothing Branch = "Nothing"
	// Exact: all allowed vectors were compared, because they are few.
	Exact Branch = "Exact"
	// Graph: the graph was walked.
	Graph Branch = "Graph"
	// ExactNearby: all allowed vectors were compared, because too few of those nearest to the query are allowed.
	ExactNearby Branch = "ExactNearby"
	// GraphThenExact: the walk found fewer than k, or became dearer than the scan, and the scan answered.
	GraphThenExact Branch = "GraphThenExact"
)

// Plan tells an operator what a search did. It depends on chunks that are hidden from the asker: never tell a user.
type Plan struct {
	Branch  Branch
	Allowed int // allowed chunks of this index that have a direction
	Visited int // vectors compared with the query, with the hidden ones that a walk passed
}

// way is what a search is told to do.
type way int

const (
	byScan way = iota
	byPlan     // walk, and scan if that turns out to be better
	byWalk
)

// The planner's constants, from the curves of the benchmark's bar hnsw-cost; docs/engine.md shows them.
const (
	// walkCost is how many vectors a scan compares in the time that a walk takes for a step.
	walkCost = 65
	// dearScan is how many vectors must be allowed before a walk is tried that hidden ones may spoil, times the share that is
	// hidden: finding out that no walk is worth it takes about a hundredth of so long a scan.
	dearScan = 50_000
)

// worthWalking compares the cost of a walk with that of a scan. Where a share of the nodes is allowed, a walk comes by the
// allowed ones that it looks for after width(k, ef)/share steps. The more is hidden, the likelier it is that the walk gives
// up, and the longer the scan must be beside which that does not count; three times as long where it is to be expected.
func (f filter) worthWalking(k, ef int) bool {
	share := float64(f.allowed) / float64(f.all)
	dear := dearScan * (1 - share)
	if f.scarce(k, ef) {
		dear *= 3
	}
	steps := min(float64(width(k, ef))/share, float64(2*trust(k, ef)))
	return float64(f.allowed) > walkCost*steps && float64(f.allowed) >= dear
}

// scarce says that a walk succeeds only where the query points to more allowed nodes than there are elsewhere.
func (f filter) scarce(k, ef int) bool { return 2*f.allowed*trust(k, ef) < 3*k*f.all }

// width is how many of the allowed nodes a walk looks for: more than k, as it orders them by their high halves alone.
func width(k, ef int) int { return max(ef, 2*k+8) }

// choose is the part of the plan that needs no look at the graph.
func (f filter) choose(k, ef int) way {
	if f.worthWalking(k, ef) {
		return byPlan
	}
	return byScan
}

// filter is an allow set, and how many chunks with a direction are in it and in the index.
type filter struct {
	allow        *roaring.Bitmap
	allowed, all int
}

// directed is the number of chunks with a direction.
func (x *Index) directed() int { return x.v.count - int(x.v.directionless.GetCardinality()) }

// follow goes the way that was chosen. k is at most the number of allowed chunks.
func (x *Index) follow(s *searcher, w way, p point, f filter, k, ef int, plan *Plan) ([]Hit, error) {
	scan := func(b Branch) ([]Hit, error) {
		plan.Branch = b
		plan.Visited += f.allowed
		return s.scan(p, f.allow, k)
	}
	if w == byScan {
		return scan(Exact)
	}
	s.visited = 0
	near, err := x.walk(s, p, f, k, ef, w == byPlan)
	plan.Branch, plan.Visited = Graph, s.visited
	if err != nil {
		return nil, err
	}
	if w == byPlan && near == nil {
		return scan(ExactNearby)
	}
	chunks, err := x.g.allowed(near, f.allow)
	if err != nil {
		return nil, err
	}
	if w == byPlan && (len(chunks) < k || s.visited > f.allowed) {
		return scan(GraphThenExact)
	}
	hits, err := s.score(p, chunks, make([]Hit, 0, len(chunks)))
	return best(hits, k), err
}

// walk returns the nearest of the allowed, most similar first. With mayGiveUp it may return nil, because too few are allowed
// where the query points.
func (x *Index) walk(s *searcher, p point, f filter, k, ef int, mayGiveUp bool) ([]key, error) {
	at, err := x.descend(s, p)
	if err != nil {
		return nil, err
	}
	if f.allowed < f.all {
		return s.walkThrough(x.g, f, p, at, k, ef, mayGiveUp)
	}
	s.start(p, width(k, ef))
	s.first(at)
	s.offer([]uint32{at})
	err = s.run(func(n uint32) error { return s.take(&x.g.layers[0], n) })
	return s.found(), err
}

// descend climbs each layer above the ground in turn.
func (x *Index) descend(s *searcher, p point) (at uint32, err error) {
	at = x.g.entry
	if int64(at) >= int64(x.v.count) {
		return 0, outside(at)
	}
	for i := len(x.g.layers) - 1; i > 0; i-- {
		l := &x.g.layers[i]
		at, err = s.climb(p, at, func(n uint32) error {
			links, err := l.neighbours(n)
			for ; len(links) > 0; links = links[4:] {
				link := binary.LittleEndian.Uint32(links)
				if int64(link) >= int64(x.v.count) {
					return outside(link)
				}
				s.fresh = append(s.fresh, link)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return at, nil
}

// take appends the neighbours of a node that were not seen before to fresh.
func (w *walker) take(l *layer, node uint32) error {
	links, err := l.neighbours(node)
	for ; len(links) > 0; links = links[4:] {
		link := binary.LittleEndian.Uint32(links)
		if int64(link) >= int64(w.v.count) {
			return outside(link)
		}
		if w.first(link) {
			w.fresh = append(w.fresh, link)
		}
	}
	return err
}
