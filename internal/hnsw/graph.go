package hnsw

import (
	"encoding/binary"
	"slices"

	"quarry.dev/quarry/internal/segment/frame"
)

// The body of hnsw.seg, all u32, little endian:
//
//	count, M, efConstruction, checksum of vectors.seg, entry, layers, rings
//	nodes, links                       for each layer from 0 up
//	[node x nodes], end x nodes, link x links   for each layer from 0 up
//	next x rings
//
// entry is a node of the highest layer, or count when the graph is empty. Layer 0 holds every vector, so it lists no
// nodes; a higher layer is a subset of the one below. end is where the links of a node end, and those of the next begin.
// Links are chunk numbers, ascending, and stay on their layer. rings is count where chunks have twins, else 0; see twins.
var graphKind = frame.Kind{Name: "hnsw.seg", Magic: [8]byte{'Q', 'R', 'Y', 'H', 'N', 'S', 'W', 0}, Version: 3}

const maxLayers = 32

type graph struct {
	m, efConstruction int
	entry             uint32
	layers            []layer
	ring              []byte // u32 per chunk; nil: no chunk has a twin
}

// layer is a flat adjacency list.
type layer struct {
	nodes       []byte // u32; nil: node i is i
	ends, links []byte // u32
}

// checksum is the one that a sealed file carries.
func checksum(file []byte) uint32 { return binary.LittleEndian.Uint32(file[len(file)-4:]) }

// openGraph reads the head. The vectors must be those of vectorsFile, which is open.
func openGraph(file, vectorsFile []byte, v *vectors) (*graph, error) {
	body, err := graphKind.Body(file)
	if err != nil {
		return nil, err
	}
	in := frame.NewCursor(body)
	count, m, ef, sum := in.Uint32(), in.Uint32(), in.Uint32(), in.Uint32()
	g := &graph{m: int(m), efConstruction: int(ef), entry: in.Uint32()}
	layers, rings := in.Uint32(), in.Uint32()
	if in.Bad() || layers > maxLayers || (Params{M: g.m, EfConstruction: g.efConstruction}).check() != nil {
		return nil, graphKind.Corrupt("its head is not one that a build writes")
	}
	if int64(count) != int64(v.count) || sum != checksum(vectorsFile) {
		return nil, graphKind.Corrupt("it was built for other vectors than those of vectors.seg")
	}
	if rings != 0 && rings != count {
		return nil, graphKind.Corrupt("it has rings of %d chunks for %d vectors", rings, count)
	}
	sizes := frame.NewCursor(in.Bytes(8 * uint64(layers)))
	for i := range layers {
		nodes, links := sizes.Uint32(), sizes.Uint32()
		l := layer{}
		if i > 0 {
			l.nodes = in.Bytes(4 * uint64(nodes))
		} else if nodes != count {
			return nil, graphKind.Corrupt("layer 0 has %d nodes for %d vectors", nodes, count)
		}
		l.ends, l.links = in.Bytes(4*uint64(nodes)), in.Bytes(4*uint64(links))
		g.layers = append(g.layers, l)
	}
	if rings > 0 {
		g.ring = in.Bytes(4 * uint64(rings))
	}
	if in.Bad() || in.Len() != 0 || (layers == 0) != (g.entry == count) {
		return nil, graphKind.Corrupt("its layers do not fill the file")
	}
	return g, nil
}

// position of a node in the arrays of the layer.
func (l *layer) position(node uint32) (int, bool) {
	if l.nodes == nil {
		return int(node), int64(node) < int64(len(l.ends)/4)
	}
	low, high := 0, len(l.nodes)/4
	for low < high {
		mid := (low + high) / 2
		if at(l.nodes, mid) < node {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(l.nodes)/4 && at(l.nodes, low) == node
}

// neighbours returns the links of a node as raw u32.
func (l *layer) neighbours(node uint32) ([]byte, error) {
	i, ok := l.position(node)
	if !ok {
		return nil, graphKind.Corrupt("node %d is not on a layer that links to it", node)
	}
	start, end := uint32(0), at(l.ends, i)
	if i > 0 {
		start = at(l.ends, i-1)
	}
	if start > end || int64(end) > int64(len(l.links)/4) {
		return nil, graphKind.Corrupt("the links of node %d lie outside the file", node)
	}
	return l.links[4*int(start) : 4*int(end)], nil
}

// outside is the error for a link beyond the vectors.
func outside(link uint32) error {
	return graphKind.Corrupt("a link leads to %d, which is no vector", link)
}

// check reads the whole graph.
func (g *graph) check(v *vectors) error {
	isNode, err := g.checkRing(v)
	if err != nil {
		return err
	}
	for i := range g.layers {
		l, limit := &g.layers[i], g.m
		if i == 0 {
			limit = 2 * g.m
		}
		for n := range len(l.ends) / 4 {
			node := uint32(n)
			if i > 0 {
				node = at(l.nodes, n)
				_, below := g.layers[i-1].position(node)
				if !below || (n > 0 && at(l.nodes, n-1) >= node) {
					return graphKind.Corrupt("node %d of layer %d is out of order, or not on the layer below", node, i)
				}
			}
			links, err := l.neighbours(node)
			if err != nil {
				return err
			}
			if len(links)/4 > limit || (len(links) > 0 && !isNode[node]) {
				return graphKind.Corrupt("node %d has %d links on layer %d", node, len(links)/4, i)
			}
			for j := range len(links) / 4 {
				link := at(links, j)
				if _, ok := l.position(link); !ok || !isNode[link] || link == node || (j > 0 && at(links, j-1) >= link) {
					return graphKind.Corrupt("a link of node %d on layer %d leads to %d", node, i, link)
				}
			}
		}
	}
	if n := len(g.layers); n > 0 {
		if _, ok := g.layers[n-1].position(g.entry); !ok {
			return graphKind.Corrupt("the entry %d is not on the highest layer", g.entry)
		}
	}
	return nil
}

// encodeGraph lays out the tiers of a build.
func encodeGraph(count int, p Params, vectorsFile []byte, entry uint32, tiers []tier, ring []uint32) []byte {
	head := []int{count, p.M, p.EfConstruction, int(checksum(vectorsFile)), int(entry), len(tiers), len(ring)}
	words := len(ring)
	for _, t := range tiers {
		links := 0
		for _, list := range t.lists {
			links += len(list)
		}
		head = append(head, len(t.lists), links)
		words += len(t.members) + len(t.lists) + links
	}
	body := make([]byte, 0, 4*(len(head)+words))
	put := func(v uint32) { body = binary.LittleEndian.AppendUint32(body, v) }
	for _, v := range head {
		put(uint32(v))
	}
	for _, t := range tiers {
		for _, node := range t.members {
			put(node)
		}
		end := uint32(0)
		for _, list := range t.lists {
			end += uint32(len(list))
			put(end)
		}
		for _, list := range t.lists {
			slices.SortFunc(list, func(a, b link) int { return int(int64(a.node) - int64(b.node)) })
			for _, l := range list {
				put(l.node)
			}
		}
	}
	for _, next := range ring {
		put(next)
	}
	return graphKind.Seal(body)
}
