package hnsw

import (
	"encoding/binary"
	"math"
	"math/bits"

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
	// Graph: the filtered graph was walked.
	Graph Branch = "Graph"
	// ExactNearby: all allowed vectors were compared, because hardly any lies where the query points.
	ExactNearby Branch = "ExactNearby"
	// GraphThenExact: the walk found fewer than k, or became dearer than the scan, and the scan answered.
	GraphThenExact Branch = "GraphThenExact"
)

// Plan tells an operator what a search did. It depends on chunks that are hidden from the asker: never tell a user.
type Plan struct {
	Branch  Branch
	Allowed int // allowed chunks of this index that have a direction
	Visited int // vectors compared with the query
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
	// walkCost is how many vectors a scan compares in the time of a walk over an unfiltered graph, per unit of its width.
	walkCost = 65
	// costExponent: where a share of the graph is allowed, a walk of the same width costs 1/share^costExponent as much.
	costExponent = 0.4
	// leastShare is the least share in which a walk finds 99 % of the best among a million. In less, the nodes of a cluster
	// that are allowed come to lie more than two links apart, and no width makes up for that.
	leastShare = 0.3
	// probe is how many nodes nearest to the query tell which share of its surroundings is allowed.
	probe = 16
	// unlike is how many times smaller than that of the whole index this share must be to count: 16 nodes tell it roughly.
	unlike = 3
	// seeds is about how many allowed nodes, spread evenly, start a filtered walk.
	seeds = 64
)

// width is that of a walk which finds in a share of the graph what one of width ef finds in all of it.
func width(ef int, share float64) int { return int(math.Ceil(float64(ef) / share)) }

// worthWalking compares the cost of such a walk with that of a scan: a set is scanned when it is selective, and when it is
// small.
func worthWalking(ef int, share float64, allowed int) bool {
	return share >= leastShare && walkCost*float64(width(ef, share))/math.Pow(share, costExponent) < float64(allowed)
}

// choose is the part of the plan that needs no look at the graph.
func (x *Index) choose(allowed, ef int) way {
	if worthWalking(ef, float64(allowed)/float64(x.directed()), allowed) {
		return byPlan
	}
	return byScan
}

// directed is the number of chunks with a direction.
func (x *Index) directed() int { return x.v.count - int(x.v.directionless.GetCardinality()) }

// follow goes the way that was chosen. k is at most the number of allowed chunks.
func (x *Index) follow(s *searcher, w way, p point, allow *roaring.Bitmap, k, ef int, plan *Plan) ([]Hit, error) {
	scan := func(b Branch) ([]Hit, error) {
		plan.Branch = b
		plan.Visited += plan.Allowed
		return s.scan(p, allow, k)
	}
	if w == byScan {
		return scan(Exact)
	}
	s.visited = 0
	near, err := x.walk(s, p, allow, plan.Allowed, ef, w == byPlan)
	plan.Branch, plan.Visited = Graph, s.visited
	switch {
	case err != nil:
		return nil, err
	case w == byPlan && near == nil:
		return scan(ExactNearby)
	case w == byPlan && (len(near) < k || s.visited > plan.Allowed):
		return scan(GraphThenExact)
	}
	nodes := make([]uint32, len(near))
	for i, found := range near {
		nodes[i] = found.node()
	}
	hits, err := s.score(p, nodes, make([]Hit, 0, len(nodes)))
	return best(hits, k), err
}

// walk returns the about ef nearest of the allowed. With mayGiveUp it plans anew with the share that is allowed around the
// query, should that be less than the share of all: it may return nil, because a scan is cheaper. Where nothing is allowed
// around the query, the nearest allowed chunks lie apart from each other, and no walk finds them.
func (x *Index) walk(s *searcher, p point, allow *roaring.Bitmap, allowed, ef int, mayGiveUp bool) ([]key, error) {
	at, err := x.descend(s, p)
	if err != nil {
		return nil, err
	}
	ground := &x.g.layers[0]
	if allowed == x.directed() {
		s.start(p, ef)
		s.enter(at)
		err := s.run(func(n uint32) error { return s.take(ground, n) })
		return s.found(), err
	}
	s.start(p, probe)
	s.enter(at)
	if err := s.run(func(n uint32) error { return s.take(ground, n) }); err != nil {
		return nil, err
	}
	s.readAllowed(allow)
	var entries []uint32
	for _, near := range s.found() {
		if s.isAllowed(near.node()) {
			entries = append(entries, near.node())
		}
	}
	if mayGiveUp {
		share := float64(allowed) / float64(x.directed())
		if near := float64(len(entries)) / float64(len(s.best)); near < share/unlike {
			share = near
		}
		if !worthWalking(ef, share, allowed) {
			return nil, nil
		}
		ef = width(ef, share)
	}
	s.start(p, ef)
	s.enter(append(entries, s.sample()...)...)
	err = s.run(func(n uint32) error {
		if mayGiveUp && s.visited > allowed {
			return nil
		}
		return s.takeAllowed(ground, n, x.g.m)
	})
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

// enter starts a walk from nodes.
func (w *walker) enter(nodes ...uint32) {
	w.fresh = w.fresh[:0]
	for _, n := range nodes {
		if w.first(n) {
			w.fresh = append(w.fresh, n)
		}
	}
	w.offer(w.fresh)
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

// takeAllowed appends to fresh the allowed neighbours of a node. Where fewer than enough are allowed, it goes on with those
// of the hidden ones, until it has found enough, so that the allowed ones stay connected: ACORN-1 of Patel and others,
// "ACORN: Performant and predicate-agnostic search over vector embeddings and structured data" (2024). A hidden node is
// never compared, and stands in once.
func (s *searcher) takeAllowed(l *layer, node uint32, enough int) error {
	links, err := l.neighbours(node)
	if err != nil {
		return err
	}
	near := 0
	for b := links; len(b) > 0; b = b[4:] {
		link := binary.LittleEndian.Uint32(b)
		if int64(link) >= int64(s.v.count) {
			return outside(link)
		}
		if s.isAllowed(link) {
			near++
			if s.first(link) {
				s.fresh = append(s.fresh, link)
			}
		}
	}
	for b := links; len(b) > 0 && near < enough; b = b[4:] {
		link := binary.LittleEndian.Uint32(b)
		if s.isAllowed(link) || !s.first(link) {
			continue
		}
		next, err := l.neighbours(link)
		if err != nil {
			return err
		}
		for ; len(next) > 0; next = next[4:] {
			hop := binary.LittleEndian.Uint32(next)
			if int64(hop) >= int64(s.v.count) {
				return outside(hop)
			}
			if s.isAllowed(hop) && s.first(hop) {
				s.fresh = append(s.fresh, hop)
				near++
			}
		}
	}
	return nil
}

// readAllowed makes the set one bit per chunk, without those that have no direction.
func (s *searcher) readAllowed(allow *roaring.Bitmap) {
	clear(s.allowed)
	within := allow
	if allow.Maximum() >= uint32(s.v.count) {
		within = allow.Clone()
		within.RemoveRange(uint64(s.v.count), 1<<32)
	}
	within.WriteDenseTo(s.allowed)
	for it := s.v.directionless.Iterator(); it.HasNext(); {
		node := it.Next()
		s.allowed[node/64] &^= 1 << (node % 64)
	}
}

func (s *searcher) isAllowed(node uint32) bool { return s.allowed[node/64]>>(node%64)&1 != 0 }

// sample takes some allowed nodes at about even steps.
func (s *searcher) sample() []uint32 {
	nodes := make([]uint32, 0, seeds)
	step := max(1, len(s.allowed)/seeds)
	for i := 0; i < len(s.allowed); i += step {
		for j, word := range s.allowed[i:min(i+step, len(s.allowed))] {
			if word != 0 {
				nodes = append(nodes, uint32((i+j)*64+bits.TrailingZeros64(word)))
				break
			}
		}
	}
	return nodes
}
