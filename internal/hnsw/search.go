package hnsw

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// Hit is a chunk and the cosine of its vector with the query's, computed from the full vectors.
type Hit struct {
	Chunk uint32
	Score float64
}

// Branch is the way that a search went.
type Branch string

// The ways of a search.
const (
	// Nothing: nothing is allowed, the query has no direction, or k is below 1.
	Nothing Branch = "Nothing"
	// Refused: the query does not have the dimensions of the index or holds a number that is not finite.
	Refused Branch = "Refused"
	// Exact: all allowed vectors were compared.
	Exact Branch = "Exact"
	// Graph: the filtered graph was walked.
	Graph Branch = "Graph"
	// GraphThenExact: the walk found fewer than k, or became dearer than the scan, and the scan answered.
	GraphThenExact Branch = "GraphThenExact"
)

// Plan tells an operator what a search did. It depends on chunks that are hidden from the asker: never tell a user.
type Plan struct {
	Branch  Branch
	Allowed int // allowed chunks of this index that have a direction
	Visited int // vectors compared with the query
}

// Below these the scan is at least as fast as the walk: by count, and by share of the index.
const (
	exactBelow = 20_000
	exactShare = 50 // one in so many
)

// Index is an open pair of files, whose bytes it shares and which must not change. It is safe for concurrent use.
type Index struct {
	v          *vectors
	g          *graph
	exactBelow int
	scratch    sync.Pool // *searcher
}

// Open checks both files and that they belong together. The error wraps frame.ErrCorrupt.
func Open(vectorsSeg, graphSeg []byte) (*Index, error) {
	v, err := openVectors(vectorsSeg)
	if err != nil {
		return nil, err
	}
	g, err := openGraph(graphSeg, vectorsSeg, v)
	if err != nil {
		return nil, err
	}
	x := &Index{v: v, g: g, exactBelow: exactBelow}
	x.scratch.New = func() any {
		return &searcher{seen: newVisited(v.count), allowed: make([]uint64, (v.count+63)/64)}
	}
	return x, nil
}

// Len is the number of chunks, visible or not: never tell a user.
func (x *Index) Len() int { return x.v.count }

// Dimensions is the length of every vector, 0 for an index without chunks.
func (x *Index) Dimensions() int { return x.v.dimensions }

// Search returns up to k of the allowed chunks by (score descending, chunk ascending): exactly the best ones where the
// plan says Exact, most of them where it says Graph; k whenever k exist. Greater ef finds more of them and takes longer.
// A nil allow set allows nothing.
func (x *Index) Search(q []float32, allow *roaring.Bitmap, k, ef int) ([]Hit, Plan) {
	if x.v.count > 0 && len(q) != x.v.dimensions {
		return nil, Plan{Branch: Refused}
	}
	unit, ok := normalise(q)
	if !ok {
		return nil, Plan{Branch: Refused}
	}
	s := x.scratch.Get().(*searcher)
	defer x.scratch.Put(s)
	s.reset(x, allow)
	plan := Plan{Branch: Nothing, Allowed: len(s.list)}
	scale, code := quantise(unit)
	if k < 1 || len(s.list) == 0 || scale == 0 {
		return nil, plan
	}
	if len(s.list) < max(x.exactBelow, x.v.count/exactShare) {
		plan.Branch, plan.Visited = Exact, len(s.list)
		return x.best(unit, s.list, k), plan
	}
	s.setQuery(code)
	found := x.walkAllowed(s, max(k, ef))
	plan.Branch, plan.Visited = Graph, s.visits
	if len(found) < min(k, len(s.list)) || s.visits > len(s.list) {
		plan.Branch, plan.Visited = GraphThenExact, s.visits+len(s.list)
		return x.best(unit, s.list, k), plan
	}
	nodes := make([]uint32, len(found))
	for i, c := range found {
		nodes[i] = c.node
	}
	return x.best(unit, nodes, k), plan
}

// Score returns the exact cosine of each chunk, 0 for one that has no direction or does not exist and when the query is
// refused. It asks no permission: pass chunks that are allowed.
func (x *Index) Score(q []float32, chunks []uint32) []float64 {
	scores := make([]float64, len(chunks))
	unit, ok := normalise(q)
	if !ok || len(q) != x.v.dimensions {
		return scores
	}
	for i, chunk := range chunks {
		if int64(chunk) < int64(x.v.count) {
			scores[i] = x.v.cosine(unit, chunk)
		}
	}
	return scores
}

// best scores nodes by their full vectors and returns the k best. It sorts what it has kept whenever that is twice k.
func (x *Index) best(unit []float32, nodes []uint32, k int) []Hit {
	k = min(k, len(nodes))
	kept := make([]Hit, 0, 2*k)
	cut := false // kept[k-1] is the k-th best so far
	for _, node := range nodes {
		hit := Hit{node, x.v.cosine(unit, node)}
		if cut && compareHits(hit, kept[k-1]) > 0 {
			continue
		}
		if kept = append(kept, hit); len(kept) == 2*k {
			slices.SortFunc(kept, compareHits)
			kept, cut = kept[:k], true
		}
	}
	slices.SortFunc(kept, compareHits)
	return kept[:k]
}

// compareHits orders by score descending, then chunk ascending.
func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Chunk, b.Chunk))
}

// searcher is the memory of one search.
type searcher struct {
	seen    *visited
	second  []uint32 // neighbours of one step, reused
	code    []byte   // of the query
	allowed []uint64 // a bit per chunk
	list    []uint32 // the same as numbers
	visits  int
}

// reset reads the allow set: numbers beyond the index and vectors without direction are dropped.
func (s *searcher) reset(x *Index, allow *roaring.Bitmap) {
	clear(s.allowed)
	s.list, s.visits, s.code = s.list[:0], 0, s.code[:0]
	if allow == nil {
		return
	}
	for it := allow.Iterator(); it.HasNext(); {
		node := it.Next()
		if int64(node) >= int64(x.v.count) {
			return
		}
		if !x.v.isZero(node) {
			s.allowed[node/64] |= 1 << (node % 64)
			s.list = append(s.list, node)
		}
	}
}

func (s *searcher) setQuery(code []int8) {
	for _, c := range code {
		s.code = append(s.code, byte(c))
	}
}

func (s *searcher) isAllowed(node uint32) bool { return s.allowed[node/64]>>(node%64)&1 != 0 }

// similar leaves out the scale of the query, which is the same for all.
func (s *searcher) similar(v *vectors) func(uint32) float32 {
	return func(node uint32) float32 {
		s.visits++
		return float32(dotCodes(s.code, v.code(node))) * v.scale(node)
	}
}

// seeds is how many allowed nodes, spread evenly, start a filtered walk besides the entry point: the entry's surroundings
// may hold none.
const seeds = 8

// walkAllowed descends to the entry of layer 0 and searches it for the ef best allowed nodes. A neighbour that is not
// allowed is not compared; its own neighbours stand in for it, so that the allowed ones stay connected. The walk is given
// up when it compares more nodes than are allowed.
func (x *Index) walkAllowed(s *searcher, ef int) []candidate {
	similar := s.similar(x.v)
	entry := []candidate{{similar(x.g.entry), x.g.entry}}
	for layer := len(x.g.layers) - 1; layer > 0; layer-- {
		entry = walk(entry, 1, s.seen, func(n uint32) []uint32 { return s.decode(x.g.layers[layer].neighbours(n)) }, similar)
	}
	ground := &x.g.layers[0]
	var entries []candidate
	for _, node := range append(s.allowedNear(ground, entry[0].node), s.sample()...) {
		entries = append(entries, candidate{similar(node), node})
	}
	return walk(entries, ef, s.seen, func(n uint32) []uint32 {
		if s.visits > len(s.list) {
			return nil
		}
		return s.allowedNear(ground, n)
	}, similar)
}

// sample takes some allowed nodes at even steps.
func (s *searcher) sample() []uint32 {
	n := min(seeds, len(s.list))
	nodes := make([]uint32, n)
	for i := range nodes {
		nodes[i] = s.list[i*len(s.list)/n]
	}
	return nodes
}

// allowedNear returns the node itself, its neighbours, and the neighbours of hidden neighbours, as far as they are allowed.
// The walk drops repetitions.
func (s *searcher) allowedNear(l *layer, node uint32) []uint32 {
	near := s.second[:0]
	if s.isAllowed(node) {
		near = append(near, node)
	}
	for links := l.neighbours(node); len(links) > 0; links = links[4:] {
		link := binary.LittleEndian.Uint32(links)
		if s.isAllowed(link) {
			near = append(near, link)
			continue
		}
		for next := l.neighbours(link); len(next) > 0; next = next[4:] {
			if hop := binary.LittleEndian.Uint32(next); s.isAllowed(hop) {
				near = append(near, hop)
			}
		}
	}
	s.second = near
	return near
}

// decode returns raw links as numbers.
func (s *searcher) decode(links []byte) []uint32 {
	s.second = s.second[:0]
	for ; len(links) > 0; links = links[4:] {
		s.second = append(s.second, binary.LittleEndian.Uint32(links))
	}
	return s.second
}
