package hnsw

import "github.com/RoaringBitmap/roaring/v2"

// After so many steps a walk looks for the first time how many of the nodes around it are allowed; then after 16, 32, 64 ...
const firstLook = 4

// trust is how many of the nodes nearest to the query must hold k allowed ones for a walk's answer to count. A walk finds
// what lies near the query, where links are dense, and misses too much of what lies farther away.
func trust(k, ef int) int { return max(10*k, ef) }

// walkThrough walks the graph through allowed and hidden nodes alike, so that it is as connected as without a filter, and
// keeps the allowed ones among those that it comes by. A hidden node steers the walk and shows in nothing else. It goes
// on until the width(k, ef) nearest allowed nodes are found, so it adapts to the share that is allowed where the query points,
// or for twice as many steps as there are nodes that it trusts.
//
// With mayGiveUp it returns nil when fewer than k of the nodes that it trusts are allowed, and mostly sees that in the first
// steps. It then also ends when it has compared more vectors than are allowed.
func (s *searcher) walkThrough(ground *layer, p point, at uint32, allow *roaring.Bitmap, allowed, k, ef int, mayGiveUp bool) ([]key, error) {
	trusted, steps := trust(k, ef), 0
	step := func(allow *roaring.Bitmap) error {
		steps++
		s.fresh = s.fresh[:0]
		err := s.take(ground, (^s.open.pop()).node())
		s.sift(s.fresh, allow, trusted)
		return err
	}
	s.start(p, width(k, ef))
	s.near = s.near[:0]
	s.first(at)
	s.sift([]uint32{at}, nil, trusted)
	for steps < firstLook && len(s.open) > 0 {
		if err := step(nil); err != nil {
			return nil, err
		}
	}
	for _, near := range s.near {
		if allow.Contains(near.node()) {
			s.keep(near)
		}
	}
	need := float64(k) / float64(trusted)
	if mayGiveUp && s.fewAllowed(allow, need*sureness(k, ef, allowed, s.v.count)) {
		return nil, nil
	}
	for len(s.open) > 0 && steps < 2*trusted {
		if len(s.best) == s.ef && ^s.open[0] < s.best[0] {
			break
		}
		if mayGiveUp && s.visited > allowed {
			return s.found(), nil
		}
		if mayGiveUp && steps >= 4*firstLook && steps&(steps-1) == 0 && s.fewAllowed(allow, need) {
			return nil, nil
		}
		if err := step(allow); err != nil {
			return nil, err
		}
	}
	if mayGiveUp && s.fewAllowed(allow, need) {
		return nil, nil
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

// sureness is how many times the share that it needs a walk must see at its first look, when few nodes tell it roughly.
func sureness(k, ef, allowed, all int) float64 {
	if scarce(k, ef, allowed, all) {
		return 3
	}
	return 0.75
}

// fewAllowed says whether less than a share of the nearest nodes so far are allowed. No node of the graph lacks a direction.
func (s *searcher) fewAllowed(allow *roaring.Bitmap, share float64) bool {
	n := 0
	for _, k := range s.near {
		if allow.Contains(k.node()) {
			n++
		}
	}
	return float64(n) < share*float64(len(s.near))
}
