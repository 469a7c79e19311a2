package hnsw

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Params shape the graph. M is the number of links of a node, twice that on layer 0; EfConstruction is how many
// candidates a new node chooses them from.
type Params struct{ M, EfConstruction int }

func (p Params) check() error {
	if p.M < 2 || p.M > 128 {
		return fmt.Errorf("hnsw.m = %d: it must be from 2 to 128", p.M)
	}
	if p.EfConstruction < 1 || p.EfConstruction > 4096 {
		return fmt.Errorf("hnsw.efConstruction = %d: it must be from 1 to 4096", p.EfConstruction)
	}
	return nil
}

// maxBatch bounds how many nodes are placed before the graph learns of them.
const maxBatch = 256

// Build returns vectors.seg and hnsw.seg. The number of a chunk is its position. Equal input gives equal bytes, whatever
// the CPU and the number of threads: nodes come in batches, every node of a batch looks at the same frozen graph (and at
// the nodes before it in the batch), and distances are integer sums. The error names the vector that is not usable.
func Build(in [][]float32, p Params) (vectorsSeg, graphSeg []byte, err error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	if vectorsSeg, err = encodeVectors(in); err != nil {
		return nil, nil, err
	}
	v, err := openVectors(vectorsSeg)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{Params: p, v: v, entry: uint32(v.count)}
	b.scratch.New = func() any { return newVisited(v.count) }
	var nodes []uint32
	for i := range uint32(v.count) {
		if !v.isZero(i) {
			nodes = append(nodes, i)
		}
	}
	for done := 0; done < len(nodes); {
		n := min(max(1, done/8), maxBatch, len(nodes)-done)
		b.insert(nodes[done : done+n])
		done += n
	}
	return vectorsSeg, encodeGraph(v.count, p, vectorsSeg, b.entry, b.links), nil
}

type builder struct {
	Params
	v       *vectors
	entry   uint32
	links   [][][]uint32 // [layer][node]
	scratch sync.Pool    // *visited
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
func (b *builder) insert(batch []uint32) {
	frozen := len(b.links)
	chosen := make([][][]uint32, len(batch))
	parallel(len(batch), func(i int) { chosen[i] = b.choose(batch, i, frozen) })

	type target struct {
		layer int
		node  uint32
	}
	incoming := map[target][]uint32{}
	var targets []target
	for i, node := range batch {
		for layer, links := range chosen[i] {
			if layer == len(b.links) {
				b.links = append(b.links, make([][]uint32, b.v.count))
			}
			b.links[layer][node] = append(make([]uint32, 0, len(links)), links...)
			for _, link := range links {
				t := target{layer, link}
				if incoming[t] == nil {
					targets = append(targets, t)
				}
				incoming[t] = append(incoming[t], node)
			}
		}
		if len(chosen[i]) > frozen {
			frozen, b.entry = len(chosen[i]), node
		}
	}
	parallel(len(targets), func(i int) {
		t := targets[i]
		b.links[t.layer][t.node] = b.prune(t.node, append(b.links[t.layer][t.node], incoming[t]...), b.limit(t.layer))
	})
}

func (b *builder) limit(layer int) int {
	if layer == 0 {
		return 2 * b.M
	}
	return b.M
}

// choose returns the links of batch[i] per layer. It reads the graph, which has that many layers, and changes nothing.
func (b *builder) choose(batch []uint32, i, layers int) [][]uint32 {
	node := batch[i]
	top := b.top(node)
	links := make([][]uint32, top+1)
	seen := b.scratch.Get().(*visited)
	defer b.scratch.Put(seen)
	similar := func(other uint32) float32 { return b.v.similarity(node, other) }
	var entries []candidate
	if layers > 0 {
		entries = []candidate{{similar(b.entry), b.entry}}
	}
	for layer := max(layers-1, top); layer >= 0; layer-- {
		ef := 1
		if layer <= top {
			ef = b.EfConstruction
		}
		var found []candidate
		if layer < layers {
			neighbours := func(n uint32) []uint32 { return b.links[layer][n] }
			found = walk(entries, ef, seen, neighbours, similar)
			entries = found
		}
		if layer > top {
			continue
		}
		found = slices.Clone(found)
		for _, other := range batch[:i] {
			if b.top(other) >= layer {
				found = append(found, candidate{similar(other), other})
			}
		}
		links[layer] = b.diverse(found, b.M)
	}
	return links
}

// prune keeps at most limit of a node's links.
func (b *builder) prune(node uint32, links []uint32, limit int) []uint32 {
	if len(links) <= limit {
		return links
	}
	found := make([]candidate, len(links))
	for i, link := range links {
		found[i] = candidate{b.v.similarity(node, link), link}
	}
	return b.diverse(found, limit)
}

// diverse picks up to limit neighbours, best first, leaving out one that lies nearer to a picked one than to the node: its
// links then lead in all directions instead of into one cluster. Of copies it picks one, or a text that stands in many
// documents would become an island. What was left out fills up to half the limit, so that copies find each other.
func (b *builder) diverse(found []candidate, limit int) []uint32 {
	slices.SortFunc(found, compareCandidates)
	var picked, rest []candidate
	for _, c := range found {
		if len(picked) == limit {
			break
		}
		covered := slices.ContainsFunc(picked, func(p candidate) bool {
			between := b.v.similarity(c.node, p.node)
			return between > c.similarity || (between == c.similarity && between == p.similarity)
		})
		if covered {
			rest = append(rest, c)
		} else {
			picked = append(picked, c)
		}
	}
	if missing := limit/2 - len(picked); missing > 0 {
		picked = append(picked, rest[:min(missing, len(rest))]...)
	}
	nodes := make([]uint32, len(picked))
	for i, c := range picked {
		nodes[i] = c.node
	}
	return nodes
}

// parallel calls work(0) to work(n-1) from as many threads as there are.
func parallel(n int, work func(i int)) {
	threads := min(runtime.GOMAXPROCS(0), n)
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
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				work(i)
			}
		})
	}
	group.Wait()
}
