package hnsw

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Chunks of one text, as templates and copies leave them, have one vector. As nodes they would link to each other and to
// little else: most could not be reached, and a hidden one would stand before a visible one. So vectors of equal high halves
// are twins: the first of them is a node of the graph and stands for all, and a ring leads from each to the next. A walk
// passes the node when any of its ring is allowed, and answers with those that are.

// twins parts the chunks with a direction into nodes, ascending, and a ring: the next twin of each chunk, of the last one the
// first, of a chunk without twins itself. The ring is nil when no chunk has a twin.
func (v *vectors) twins() (nodes, ring []uint32) {
	for node := range uint32(v.count) {
		if !v.lacksDirection(node) {
			nodes = append(nodes, node)
		}
	}
	order := slices.Clone(nodes)
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(v.compareHigh(a, b), cmp.Compare(a, b)) })
	var later []bool // has a twin before it
	for len(order) > 0 {
		n := 1
		for n < len(order) && v.compareHigh(order[0], order[n]) == 0 {
			n++
		}
		if n > 1 && ring == nil {
			ring, later = make([]uint32, v.count), make([]bool, v.count)
			for i := range ring {
				ring[i] = uint32(i)
			}
		}
		for i := 1; i < n; i++ {
			ring[order[i-1]], later[order[i]] = order[i], true
		}
		if n > 1 {
			ring[order[n-1]] = order[0]
		}
		order = order[n:]
	}
	if ring == nil {
		return nodes, nil
	}
	return slices.DeleteFunc(nodes, func(node uint32) bool { return later[node] }), ring
}

// compareHigh orders vectors by their high halves and, where the metric knows lengths, their steps.
func (v *vectors) compareHigh(a, b uint32) int {
	row := func(i uint32) []byte { return v.high[int(i)*v.stride:][:v.stride] }
	order := bytes.Compare(row(a), row(b))
	if v.metric == Cosine {
		return order
	}
	return cmp.Or(order, cmp.Compare(f32(v.steps, a), f32(v.steps, b)))
}

// next is the twin after a chunk, which is below count. Numbers ascend around a ring up to its last chunk, where ok is false.
func (g *graph) next(chunk uint32) (twin uint32, ok bool, err error) {
	if g.ring == nil {
		return 0, false, nil
	}
	if twin = at(g.ring, int(chunk)); int64(twin) >= int64(len(g.ring)/4) {
		return 0, false, outside(twin)
	}
	return twin, twin > chunk, nil
}

// anyAllowed says whether a node or a twin of it is allowed. A walk asks again and again, and a ring may be long, so what was
// found of one is remembered until the walk ends.
func (s *searcher) anyAllowed(g *graph, node uint32, allow *roaring.Bitmap) (found bool, err error) {
	twin, ok, err := g.next(node)
	if allow.Contains(node) || !ok || err != nil {
		return allow.Contains(node), err
	}
	found, known := s.rings[node]
	if known {
		return found, nil
	}
	for ; ok && err == nil && !found; twin, ok, err = g.next(twin) {
		found = allow.Contains(twin)
	}
	s.rings[node] = found
	return found, err
}

// allowed returns what is allowed of some nodes and their twins, node by node.
func (g *graph) allowed(nodes []key, allow *roaring.Bitmap) (chunks []uint32, err error) {
	for _, k := range nodes {
		for chunk, ok := k.node(), true; ok; {
			if allow.Contains(chunk) {
				chunks = append(chunks, chunk)
			}
			if chunk, ok, err = g.next(chunk); err != nil {
				return nil, err
			}
		}
	}
	return chunks, nil
}

// checkRing holds the ring to what a build writes, and says which chunks are nodes.
func (g *graph) checkRing(v *vectors) (isNode []bool, err error) {
	nodes, want := v.twins()
	isNode = make([]bool, v.count)
	for _, node := range nodes {
		isNode[node] = true
	}
	if len(g.ring) != 4*len(want) {
		return nil, graphKind.Corrupt("it joins %d chunks to rings, not %d", len(g.ring)/4, len(want))
	}
	for i, next := range want {
		if at(g.ring, i) != next {
			return nil, graphKind.Corrupt("the ring of chunk %d leads to %d, not %d", i, at(g.ring, i), next)
		}
	}
	return isNode, nil
}
