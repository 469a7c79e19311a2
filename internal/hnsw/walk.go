package hnsw

import "slices"

// walker is the memory of best-first walks over one index.
type walker struct {
	v       *vectors
	p       point
	seen    []uint64  // a bit per node
	open    heap[key] // complements, so that the most similar comes first
	best    heap[key] // the ef most similar, the least of them first
	ef      int
	visited int // vectors compared since the caller last set it to 0

	fresh        []uint32 // nodes that a step found
	dots         []int32
	similarities []float32
}

func newWalker(v *vectors) *walker {
	return &walker{v: v, seen: make([]uint64, (v.count+63)/64)}
}

// start forgets the last walk and looks for the ef nodes nearest to p.
func (w *walker) start(p point, ef int) {
	w.p, w.ef = p, ef
	w.open, w.best = w.open[:0], w.best[:0]
	clear(w.seen)
}

// first marks a node, which is below count, and says whether it was not marked before.
func (w *walker) first(node uint32) bool {
	word, bit := &w.seen[node/64], uint64(1)<<(node%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// compare returns the similarities of nodes to p, valid until the next call.
func (w *walker) compare(nodes []uint32) []float32 {
	if len(nodes) > len(w.dots) {
		w.dots, w.similarities = make([]int32, 2*len(nodes)), make([]float32, 2*len(nodes))
	}
	w.visited += len(nodes)
	out := w.similarities[:len(nodes)]
	w.v.similarities(w.p, nodes, w.dots[:len(nodes)], out)
	return out
}

// offer compares nodes and keeps those that are among the best so far.
func (w *walker) offer(nodes []uint32) {
	for i, similarity := range w.compare(nodes) {
		k := pack(similarity, nodes[i])
		switch {
		case len(w.best) < w.ef:
			w.best.push(k)
		case k > w.best[0]:
			w.best.replace(k)
		default:
			continue
		}
		w.open.push(^k)
	}
}

// run follows links, nearest node first, as long as they improve the best. expand appends to fresh the nodes that a node
// leads to and that were not seen before.
func (w *walker) run(expand func(node uint32) error) error {
	for len(w.open) > 0 {
		k := ^w.open.pop()
		if len(w.best) == w.ef && k < w.best[0] {
			break
		}
		w.fresh = w.fresh[:0]
		if err := expand(k.node()); err != nil {
			return err
		}
		w.offer(w.fresh)
	}
	return nil
}

// found returns the best, most similar first, valid until the next start.
func (w *walker) found() []key {
	slices.Sort(w.best)
	slices.Reverse(w.best)
	return w.best
}

// climb goes from a node to the nearest of its neighbours until none is nearer: a walk of width 1, without a memory of what
// it saw. expand appends the neighbours of a node to fresh.
func (w *walker) climb(p point, from uint32, expand func(node uint32) error) (uint32, error) {
	w.p = p
	at := pack(w.compare([]uint32{from})[0], from)
	for {
		w.fresh = w.fresh[:0]
		if err := expand(at.node()); err != nil {
			return 0, err
		}
		next := at
		for i, similarity := range w.compare(w.fresh) {
			next = max(next, pack(similarity, w.fresh[i]))
		}
		if next == at {
			return at.node(), nil
		}
		at = next
	}
}
