package hnsw

import "github.com/RoaringBitmap/roaring/v2"

// After so many steps a walk looks for the first time how many of the nodes around it are allowed; then after 16, 32, 64 ...
const firstLook = 4

// trust is how many of the nodes nearest to the query must hold k allowed ones for a walk's answer to count. A walk finds
// what lies near the query, where links are dense, and misses too much of what lies farther away.
func trust(k, ef int) int { return max(10*k, ef) }

// walkThrough walks the graph through allowed and hidden nodes alike, so that it is as connected as without a filter, and
// keeps the nodes among those that it comes by which are allowed or have an allowed twin. A hidden node steers the walk and
// shows in nothing else. It goes on until the width(k, ef) nearest of these are found, so it adapts to the share that is
// allowed where the query points, or for twice as many steps as there are nodes that it trusts.
//
// With mayGiveUp it returns nil when fewer than k of the nodes that it trusts are allowed, and mostly sees that in the first
// steps. It then also ends when it has compared more vectors than are allowed.
func (s *searcher) walkThrough(g *graph, f filter, p point, at uint32, k, ef int, mayGiveUp bool) ([]key, error) {
	trusted, steps := trust(k, ef), 0
	step := func(keeps bool) error {
		steps++
		s.fresh = s.fresh[:0]
		if err := s.take(&g.layers[0], (^s.open.pop()).node()); err != nil {
			return err
		}
		return s.sift(g, f.allow, s.fresh, trusted, keeps)
	}
	s.start(p, width(k, ef))
	s.near = s.near[:0]
	clear(s.rings)
	s.first(at)
	if err := s.sift(g, f.allow, []uint32{at}, trusted, false); err != nil {
		return nil, err
	}
	for steps < firstLook && len(s.open) > 0 {
		if err := step(false); err != nil {
			return nil, err
		}
	}
	for _, near := range s.near {
		if err := s.keep(g, f.allow, near); err != nil {
			return nil, err
		}
	}
	need := float64(k) / float64(trusted)
	hopeless := func(share float64) (bool, error) {
		if !mayGiveUp {
			return false, nil
		}
		return s.fewAllowed(g, f.allow, share)
	}
	if gaveUp, err := hopeless(need * f.sureness(k, ef)); gaveUp || err != nil {
		return nil, err
	}
	for len(s.open) > 0 && steps < 2*trusted {
		if len(s.best) == s.ef && ^s.open[0] < s.best[0] {
			break
		}
		if mayGiveUp && s.visited > f.allowed {
			return s.found(), nil
		}
		if steps >= 4*firstLook && steps&(steps-1) == 0 {
			if gaveUp, err := hopeless(need); gaveUp || err != nil {
				return nil, err
			}
		}
		if err := step(true); err != nil {
			return nil, err
		}
	}
	if gaveUp, err := hopeless(need); gaveUp || err != nil {
		return nil, err
	}
	return s.found(), nil
}

// sift compares nodes and keeps the nearest of all, up to the number that is trusted, and with keeps the nearest of the
// allowed, which are left for later without.
func (s *searcher) sift(g *graph, allow *roaring.Bitmap, nodes []uint32, trusted int, keeps bool) error {
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
		if useful && keeps {
			if err := s.keep(g, allow, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep puts a node among the best, when it is one of them and some chunk of it is allowed.
func (s *searcher) keep(g *graph, allow *roaring.Bitmap, k key) error {
	allowed, err := s.anyAllowed(g, k.node(), allow)
	switch {
	case !allowed:
	case len(s.best) < s.ef:
		s.best.push(k)
	case k > s.best[0]:
		s.best.replace(k)
	}
	return err
}

// sureness is how many times the share that it needs a walk must see at its first look, when few nodes tell it roughly.
func (f filter) sureness(k, ef int) float64 {
	if f.scarce(k, ef) {
		return 3
	}
	return 0.75
}

// fewAllowed says whether less than a share of the nearest nodes so far are allowed. No node of the graph lacks a direction.
func (s *searcher) fewAllowed(g *graph, allow *roaring.Bitmap, share float64) (bool, error) {
	n := 0
	for _, k := range s.near {
		allowed, err := s.anyAllowed(g, k.node(), allow)
		if err != nil {
			return false, err
		}
		if allowed {
			n++
		}
	}
	return float64(n) < share*float64(len(s.near)), nil
}
