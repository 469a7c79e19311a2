package hnsw

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"quarry.dev/quarry/internal/segment/frame"
)

// The body of hnsw.seg, all u32: count, M, efConstruction, CRC-32 of vectors.seg, entry point (count when the graph is
// empty), number of layers; then per layer from 0 up: number of nodes, the nodes ascending, per node the end of its links,
// the links. The links of a node ascend. A layer holds a subset of the one below, and links only its own nodes.
var graphKind = frame.Kind{Name: "hnsw.seg", Magic: [8]byte{'Q', 'R', 'Y', 'H', 'N', 'S', 'W', 0}, Version: 1}

const maxLayers = 32

type graph struct {
	m, efConstruction int
	entry             uint32
	layers            []layer
}

// layer is a flat adjacency list. dense says that every vector is a node, so that a node's position is its number.
type layer struct {
	nodes, ends, links []byte // u32 each
	dense              bool
}

func at(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// neighbours returns the links of a node as raw u32, none when the layer does not hold it.
func (l *layer) neighbours(node uint32) []byte {
	i, ok := int(node), true
	if !l.dense {
		i, ok = l.position(node)
	}
	if !ok {
		return nil
	}
	start := uint32(0)
	if i > 0 {
		start = at(l.ends, i-1)
	}
	return l.links[4*int(start) : 4*int(at(l.ends, i))]
}

func (l *layer) position(node uint32) (int, bool) {
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

// encodeGraph lays out links[layer][node]; a nil list is a node that the layer does not hold.
func encodeGraph(count int, p Params, vectorsFile []byte, entry uint32, links [][][]uint32) []byte {
	body := make([]byte, 0, 64)
	put := func(v int) { body = binary.LittleEndian.AppendUint32(body, uint32(v)) }
	for _, v := range []int{count, p.M, p.EfConstruction, int(crc32.ChecksumIEEE(vectorsFile)), int(entry), len(links)} {
		put(v)
	}
	for _, layer := range links {
		var nodes []int
		for node, list := range layer {
			if list != nil {
				nodes = append(nodes, node)
			}
		}
		put(len(nodes))
		for _, node := range nodes {
			put(node)
		}
		end := 0
		for _, node := range nodes {
			end += len(layer[node])
			put(end)
		}
		for _, node := range nodes {
			for _, link := range slices.Sorted(slices.Values(layer[node])) {
				put(int(link))
			}
		}
	}
	return graphKind.Seal(body)
}

// openGraph checks that every link leads to a node of its layer, so that a walk cannot leave the arrays.
func openGraph(file, vectorsFile []byte, v *vectors) (*graph, error) {
	body, err := graphKind.Open(file)
	if err != nil {
		return nil, err
	}
	in := frame.NewCursor(body)
	count, m, ef, sum := in.Uint32(), in.Uint32(), in.Uint32(), in.Uint32()
	g := &graph{m: int(m), efConstruction: int(ef), entry: in.Uint32()}
	layers := in.Uint32()
	if in.Bad() || layers > maxLayers || (Params{g.m, g.efConstruction}).check() != nil {
		return nil, graphKind.Corrupt("its head is not one that a build writes")
	}
	if int(count) != v.count || sum != crc32.ChecksumIEEE(vectorsFile) {
		return nil, graphKind.Corrupt("it was built for other vectors than those of vectors.seg")
	}
	for i := range int(layers) {
		l := layer{}
		nodes := in.Uint32()
		l.nodes, l.ends = in.Bytes(4*uint64(nodes)), in.Bytes(4*uint64(nodes))
		if in.Bad() || nodes == 0 {
			return nil, graphKind.Corrupt("layer %d is cut short", i)
		}
		l.links = in.Bytes(4 * uint64(at(l.ends, int(nodes)-1)))
		l.dense = nodes == count
		g.layers = append(g.layers, l)
		if in.Bad() || !g.checkLayer(i, v) {
			return nil, graphKind.Corrupt("layer %d has nodes or links out of order or range", i)
		}
	}
	if in.Len() != 0 || (layers == 0) != (g.entry == count) {
		return nil, graphKind.Corrupt("its layers do not fill the file")
	}
	if layers > 0 {
		if _, ok := g.layers[layers-1].position(g.entry); !ok {
			return nil, graphKind.Corrupt("the entry point %d is not on the top layer", g.entry)
		}
	}
	return g, nil
}

func (g *graph) checkLayer(i int, v *vectors) bool {
	l, limit := &g.layers[i], g.m
	if i == 0 {
		limit = 2 * g.m
	}
	start := uint32(0)
	for n := range len(l.nodes) / 4 {
		node, end := at(l.nodes, n), at(l.ends, n)
		if int64(node) >= int64(v.count) || (n > 0 && at(l.nodes, n-1) >= node) || v.isZero(node) ||
			end < start || int(end-start) > limit || int(end) > len(l.links)/4 {
			return false
		}
		if i > 0 {
			if _, ok := g.layers[i-1].position(node); !ok {
				return false
			}
		}
		for j := int(start); j < int(end); j++ {
			link := at(l.links, j)
			if _, ok := l.position(link); !ok || link == node || (j > int(start) && at(l.links, j-1) >= link) {
				return false
			}
		}
		start = end
	}
	return true
}
