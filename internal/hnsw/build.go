package hnsw

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Params shape the graph. M is the number of links of a node, twice that on layer 0; EfConstruction is how many
// candidates a new node chooses them from.
type Params struct {
	M, EfConstruction int
	Metric            Metric // zero: Cosine
	// Progress, where set, is told now and then how many vectors of how many are in the graph.
	Progress func(done, total int)
}

func (p Params) check() error {
	if p.M < 2 || p.M > 128 {
		return fmt.Errorf("hnsw.m = %d: it must be from 2 to 128", p.M)
	}
	if p.EfConstruction < 1 || p.EfConstruction > 4096 {
		return fmt.Errorf("hnsw.efConstruction = %d: it must be from 1 to 4096", p.EfConstruction)
	}
	if p.Metric > L2 {
		return fmt.Errorf("hnsw.metric = %d: it must be Cosine, Dot or L2", p.Metric)
	}
	return nil
}

// maxBatch bounds how many nodes are placed before the graph learns of them.
const maxBatch = 256

// Build returns vectors.seg and hnsw.seg. The number of a chunk is its position. Equal input gives equal bytes, whatever
// the CPU and the number of threads: nodes come in batches, every node of a batch looks at the same frozen graph (and at
// the nodes before it in the batch), and similarities are integer sums, rounded once or twice. The error names what is not
// usable.
//
// The graph is that of Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical
// Navigable Small World graphs" (2018), with the heuristic of its algorithm 4.
func Build(in [][]float32, p Params) (vectorsSeg, graphSeg []byte, err error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	if uint64(len(in))*uint64(2*p.M) > math.MaxUint32 {
		return nil, nil, fmt.Errorf("vectors: %d with hnsw.m = %d may have more links than 32 bits count: lower hnsw.m, or build several segments", len(in), p.M)
	}
	if vectorsSeg, err = encodeVectors(in, p.Metric); err != nil {
		return nil, nil, err
	}
	v, err := openVectors(vectorsSeg)
	if err != nil {
		return nil, nil, err
	}
	graphSeg, err = buildGraph(v, vectorsSeg, p)
	return vectorsSeg, graphSeg, err
}

func buildGraph(v *vectors, vectorsSeg []byte, p Params) ([]byte, error) {
	b := newBuilder(v.ofHighHalves(), p)
	for done := 0; done < len(b.nodes); {
		n := min(max(1, done/8), maxBatch, len(b.nodes)-done)
		if err := b.insert(b.nodes[done : done+n]); err != nil {
			return nil, err
		}
		done += n
		if p.Progress != nil {
			p.Progress(done, len(b.nodes))
		}
	}
	if err := b.trim(); err != nil {
		return nil, err
	}
	return encodeGraph(v.count, p, vectorsSeg, b.entry, b.tiers, b.ring), nil
}

// link is a neighbour and how similar it is.
type link struct {
	node       uint32
	similarity float32
}

// tier is a layer while it is built.
type tier struct {
	members []uint32 // ascending; nil: node i is i
	lists   [][]link
	limit   int // of a list when it is done. Until then it may be longer by a quarter, which saves most prunings.
}

func (t *tier) list(node uint32) *[]link {
	if t.members == nil {
		return &t.lists[node]
	}
	i, _ := slices.BinarySearch(t.members, node)
	return &t.lists[i]
}

type builder struct {
	Params
	v       *vectors
	nodes   []uint32 // ascending
	ring    []uint32
	tiers   []tier
	height  int // tiers that hold a node
	entry   uint32
	walkers sync.Pool
}

func newBuilder(v *vectors, p Params) *builder {
	b := &builder{Params: p, v: v, entry: uint32(v.count)}
	b.walkers.New = func() any { return newWalker(v) }
	b.nodes, b.ring = v.twins()
	for _, node := range b.nodes {
		for layer := 1; layer <= b.top(node); layer++ {
			for len(b.tiers) <= layer {
				b.tiers = append(b.tiers, tier{limit: p.M})
			}
			b.tiers[layer].members = append(b.tiers[layer].members, node)
		}
	}
	if len(b.nodes) > 0 {
		if len(b.tiers) == 0 {
			b.tiers = append(b.tiers, tier{})
		}
		b.tiers[0].limit = 2 * p.M
	}
	for i := range b.tiers {
		t := &b.tiers[i]
		n := len(t.members)
		if i == 0 {
			n = v.count
		}
		t.lists = make([][]link, n)
		room := t.limit + t.limit/4
		slab := make([]link, n*room)
		for j := range t.lists {
			t.lists[j] = slab[j*room : j*room : (j+1)*room]
		}
	}
	return b
}

// top draws the highest layer of a node from its number alone: each further layer has the chance 1/M.
func (b *builder) top(node uint32) int {
	x := uint64(node) + 0x9e3779b97f4a7c15
	layer := 0
	for ; layer < maxLayers-1; layer++ {
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		if x%uint64(b.M) != 0 {
			break
		}
	}
	return layer
}

// insert places a batch: choose links in parallel, then let every target take its new links, in parallel again.
func (b *builder) insert(batch []uint32) error {
	chosen := make([][][]link, len(batch))
	failed := make([]error, len(batch))
	parallel(len(batch), func(i int) { chosen[i], failed[i] = b.choose(batch, i) })
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	for layer := range b.tiers {
		if err := b.connect(batch, chosen, layer); err != nil {
			return err
		}
	}
	for i, node := range batch {
		if len(chosen[i]) > b.height {
			b.height, b.entry = len(chosen[i]), node
		}
	}
	return nil
}

// connect writes what a batch chose on one layer, in both directions.
func (b *builder) connect(batch []uint32, chosen [][][]link, layer int) error {
	t := &b.tiers[layer]
	var targets []uint64 // target<<32 | position in incoming: sorted, they are grouped
	var incoming []link
	for i, node := range batch {
		if layer >= len(chosen[i]) {
			continue
		}
		list := t.list(node)
		*list = append(*list, chosen[i][layer]...)
		for _, l := range chosen[i][layer] {
			targets = append(targets, uint64(l.node)<<32|uint64(len(incoming)))
			incoming = append(incoming, link{node, l.similarity})
		}
	}
	slices.Sort(targets)
	var groups [][]uint64
	for len(targets) > 0 {
		n := 1
		for n < len(targets) && targets[n]>>32 == targets[0]>>32 {
			n++
		}
		groups, targets = append(groups, targets[:n]), targets[n:]
	}
	failed := make([]error, len(groups))
	parallel(len(groups), func(i int) {
		target := uint32(groups[i][0] >> 32)
		list := t.list(target)
		if len(*list)+len(groups[i]) <= cap(*list) {
			for _, g := range groups[i] {
				*list = append(*list, incoming[uint32(g)])
			}
			return
		}
		all := slices.Clone(*list)
		for _, g := range groups[i] {
			all = append(all, incoming[uint32(g)])
		}
		failed[i] = b.prune(target, list, all, t.limit)
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// trim brings all lists down to their limit.
func (b *builder) trim() error {
	for i := range b.tiers {
		t := &b.tiers[i]
		failed := make([]error, len(t.lists))
		parallel(len(t.lists), func(n int) {
			node := uint32(n)
			if t.members != nil {
				node = t.members[n]
			}
			if list := &t.lists[n]; len(*list) > t.limit {
				failed[n] = b.prune(node, list, slices.Clone(*list), t.limit)
			}
		})
		for _, err := range failed {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// prune writes the best of all to the list of a node.
func (b *builder) prune(node uint32, list *[]link, all []link, limit int) error {
	w := b.walkers.Get().(*walker)
	defer b.walkers.Put(w)
	found := make([]key, len(all))
	for i, l := range all {
		found[i] = pack(l.similarity, l.node)
	}
	slices.Sort(found)
	slices.Reverse(found)
	kept, err := b.diverse(w, found, limit)
	*list = append((*list)[:0], kept...)
	return err
}

// choose returns the links of batch[i] per layer. It reads the graph and changes nothing.
func (b *builder) choose(batch []uint32, i int) ([][]link, error) {
	node := batch[i]
	links := make([][]link, b.top(node)+1)
	w := b.walkers.Get().(*walker)
	defer b.walkers.Put(w)
	p, err := b.v.point(node)
	if err != nil {
		return nil, err
	}
	entries := []uint32{b.entry}
	for layer := max(b.height, len(links)) - 1; layer >= 0; layer-- {
		var found []key
		if layer < b.height {
			t := &b.tiers[layer]
			if layer >= len(links) {
				next, err := w.climb(p, entries[0], func(n uint32) error { w.takeAll(*t.list(n)); return nil })
				if err != nil {
					return nil, err
				}
				entries = []uint32{next}
				continue
			}
			w.start(p, b.EfConstruction)
			for _, e := range entries {
				w.first(e)
			}
			w.offer(entries)
			if err := w.run(func(n uint32) error { w.takeFresh(*t.list(n)); return nil }); err != nil {
				return nil, err
			}
			found = slices.Clone(w.found())
			entries = entries[:0]
			for _, k := range found {
				entries = append(entries, k.node())
			}
		}
		w.p = p
		links[layer], err = b.diverse(w, b.withBatch(w, found, batch[:i], layer), b.M)
		if err != nil {
			return nil, err
		}
	}
	return links, nil
}

func (w *walker) takeAll(list []link) {
	for _, l := range list {
		w.fresh = append(w.fresh, l.node)
	}
}

func (w *walker) takeFresh(list []link) {
	for _, l := range list {
		if w.first(l.node) {
			w.fresh = append(w.fresh, l.node)
		}
	}
}

// withBatch adds the nodes of a batch that the graph does not know yet.
func (b *builder) withBatch(w *walker, found []key, batch []uint32, layer int) []key {
	w.fresh = w.fresh[:0]
	for _, other := range batch {
		if layer == 0 || b.top(other) >= layer {
			w.fresh = append(w.fresh, other)
		}
	}
	for i, similarity := range w.compare(w.fresh) {
		found = append(found, pack(similarity, w.fresh[i]))
	}
	slices.Sort(found)
	slices.Reverse(found)
	return found
}

// diverse picks up to limit neighbours, best first, leaving out one that lies nearer to a picked one than to the node: its
// links then lead in all directions instead of into one cluster. What was left out fills up to half the limit, so that those
// of a cluster find each other.
func (b *builder) diverse(w *walker, found []key, limit int) ([]link, error) {
	picked, nodes := make([]link, 0, limit), make([]uint32, 0, limit)
	var rest []link
	for _, k := range found {
		if len(picked) == limit {
			break
		}
		candidate := link{k.node(), k.similarity()}
		p, err := b.v.point(candidate.node)
		if err != nil {
			return nil, err
		}
		w.p = p
		if b.covered(w, candidate, nodes) {
			rest = append(rest, candidate)
		} else {
			picked, nodes = append(picked, candidate), append(nodes, candidate.node)
		}
	}
	if missing := limit/2 - len(picked); missing > 0 {
		picked = append(picked, rest[:min(missing, len(rest))]...)
	}
	return picked, nil
}

// covered says whether a picked node lies nearer to the candidate, w.p, than the node that looks for neighbours.
func (b *builder) covered(w *walker, candidate link, nodes []uint32) bool {
	const few = 4 // the first picked are the nearest, and mostly decide
	for start := 0; start < len(nodes); start += few {
		end := min(start+few, len(nodes))
		for _, between := range w.compare(nodes[start:end]) {
			if between > candidate.similarity {
				return true
			}
		}
	}
	return false
}

// parallel calls work(0) to work(n-1) from as many threads as there are.
func parallel(n int, work func(i int)) {
	const grain = 8
	threads := min(runtime.GOMAXPROCS(0), (n+grain-1)/grain)
	if threads <= 1 {
		for i := range n {
			work(i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			for {
				start := int(next.Add(grain)) - grain
				if start >= n {
					return
				}
				for i := start; i < min(start+grain, n); i++ {
					work(i)
				}
			}
		})
	}
	group.Wait()
}
