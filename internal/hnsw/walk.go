package hnsw

import (
	"cmp"
	"slices"
)

type candidate struct {
	similarity float32
	node       uint32
}

// compareCandidates orders by similarity descending, then node ascending.
func compareCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.node, b.node))
}

// visited marks nodes; a new round forgets all marks at once.
type visited struct {
	round uint32
	marks []uint32
}

func newVisited(n int) *visited { return &visited{marks: make([]uint32, n)} }

func (v *visited) reset() {
	if v.round++; v.round == 0 {
		clear(v.marks)
		v.round = 1
	}
}

// first marks a node and says whether it was not marked before.
func (v *visited) first(node uint32) bool {
	if v.marks[node] == v.round {
		return false
	}
	v.marks[node] = v.round
	return true
}

// walk is the best-first search of one layer: from the entries it follows neighbours as long as they improve the ef best,
// which it returns best first.
func walk(entries []candidate, ef int, seen *visited, neighbours func(uint32) []uint32, similar func(uint32) float32) []candidate {
	seen.reset()
	var open, best heap
	open.before = func(a, b candidate) bool { return compareCandidates(a, b) < 0 }
	best.before = func(a, b candidate) bool { return compareCandidates(a, b) > 0 }
	offer := func(c candidate) {
		if len(best.items) == ef && compareCandidates(c, best.items[0]) > 0 {
			return
		}
		open.push(c)
		best.push(c)
		if len(best.items) > ef {
			best.pop()
		}
	}
	for _, e := range entries {
		if seen.first(e.node) {
			offer(e)
		}
	}
	for len(open.items) > 0 {
		c := open.pop()
		if len(best.items) == ef && compareCandidates(c, best.items[0]) > 0 {
			break
		}
		for _, node := range neighbours(c.node) {
			if seen.first(node) {
				offer(candidate{similar(node), node})
			}
		}
	}
	slices.SortFunc(best.items, compareCandidates)
	return best.items
}

// heap is a binary heap whose root comes before all others.
type heap struct {
	items  []candidate
	before func(a, b candidate) bool
}

func (h *heap) push(c candidate) {
	h.items = append(h.items, c)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *heap) pop() candidate {
	root, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	for i := 0; ; {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.before(h.items[child], h.items[first]) {
				first = child
			}
		}
		if first == i {
			return root
		}
		h.items[i], h.items[first] = h.items[first], h.items[i]
		i = first
	}
}
