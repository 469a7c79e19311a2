package hnsw

import "github.com/RoaringBitmap/roaring/v2"

// After so many steps a walk looks how many of the nodes around it are allowed.
const firstLook, secondLook = 4, 16

// trust is how many of the nodes nearest to the query must hold k allowed ones for a walk's answer to count. A walk finds
// what lies near the query, where links are dense, and misses too much of what lies farther away.
func trust(k, ef int) int { return max(10*k, ef) }

// walkThrough walks the graph through allowed and hidden nodes alike, so that it is as connected as without a filter, and
// keeps the allowed ones among those that it comes by. A hidden node steers the walk and shows in nothing else. The walk
// takes at least ef steps and goes on until the pool(k) nearest allowed nodes are found, so it adapts to the share that is
// allowed where the query points, and looks no farther than twice the nodes that it trusts.
//
// With mayGiveUp it returns nil when its first steps say that fewer than k of the nodes that it trusts are allowed, and it ends
// when it has compared more vectors than are allowed.
func (s *searcher) walkThrough(ground *layer, p point, at uint32, allow *roaring.Bitmap, allowed, k, ef int, mayGiveUp bool) ([]key, error) {
	trusted, steps := trust(k, ef), 0
	step := func(allow *roaring.Bitmap) error {
		steps++
		s.fresh = s.fresh[:0]
		err := s.take(ground, (^s.open.pop()).node())
		s.sift(s.fresh, allow, trusted)
		return err
	}
	s.start(p, pool(k))
	s.near = s.near[:0]
	s.first(at)
	s.sift([]uint32{at}, nil, trusted)
	for steps < firstLook && len(s.open) > 0 {
		if err := step(nil); err != nil {
			return nil, err
		}
	}
	kept := 0
	for _, near := range s.near {
		if allow.Contains(near.node()) {
			s.keep(near)
			kept++
		}
	}
	if mayGiveUp && 4*kept*trusted < 3*k*len(s.near) { // the share is told roughly
		return nil, nil
	}
	for len(s.open) > 0 && steps < 2*trusted {
		if steps >= ef && len(s.best) == s.ef && ^s.open[0] < s.best[0] {
			break
		}
		if mayGiveUp && s.visited > allowed {
			return s.found(), nil
		}
		if mayGiveUp && steps == secondLook && s.allowedNear(allow)*trusted < k*len(s.near) {
			return nil, nil
		}
		if err := step(allow); err != nil {
			return nil, err
		}
	}
	return s.found(), nil
}

// sift compares nodes and keeps the nearest of all, up to the number that is trusted, and the nearest of the allowed. nil
// leaves these for later.
func (s *searcher) sift(nodes []uint32, allow *roaring.Bitmap, trusted int) {
	for i, similarity := range s.compare(nodes) {
		k := pack(similarity, nodes[i])
		useful := len(s.best) < s.ef || k > s.best[0]
		switch {
		case len(s.near) < trusted:
			s.near.push(k)
		case k > s.near[0]:
			s.near.replace(k)
		case !useful:
			continue
		}
		s.open.push(^k)
		if useful && allow != nil && allow.Contains(nodes[i]) {
			s.keep(k)
		}
	}
}

// keep puts an allowed node among the best, when it is one of them.
func (s *searcher) keep(k key) {
	if len(s.best) < s.ef {
		s.best.push(k)
	} else if k > s.best[0] {
		s.best.replace(k)
	}
}

// allowedNear counts the allowed among the nearest of all. No node of the graph lacks a direction.
func (s *searcher) allowedNear(allow *roaring.Bitmap) (n int) {
	for _, k := range s.near {
		if allow.Contains(k.node()) {
			n++
		}
	}
	return n
}
