// Package hnsw finds the chunks whose vectors are nearest to the query's, among those that the asker may see: by an exact
// scan where few are allowed, by a filtered walk over a flat immutable graph where many are. Its files are memory-mapped
// and opened without being read; whoever reads a number of them checks it first.
package hnsw

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/hnsw/dot"
	"quarry.dev/quarry/internal/segment/frame"
)

// Metric is what nearness means. A greater score is nearer.
type Metric uint32

const (
	// Cosine of the angle, from -1 to 1. A vector of length 0 has no direction, and is never a hit.
	Cosine Metric = iota
	// Dot is the inner product.
	Dot
	// L2 is the squared Euclidean distance, with a minus.
	L2
)

// The body of vectors.seg, little endian:
//
//	count, dimensions, metric, zeros   u32 each; zeros: vectors without direction (Cosine alone)
//	widest                             u32, the greatest squared length of a low half, which bounds what high halves hide
//	steps                              f32 x count
//	squares                            f32 x count, squared lengths; not for Cosine
//	directionless                      u32 x zeros, ascending
//	padding                            up to the next multiple of 64 bytes of the file
//	high, low                          i8 x count x stride each; stride: dimensions, rounded up to a multiple of 64
//
// Component j of a vector is step*(256*high[j]+low[j]): 16 bits of fixed point, cut into the half that a search compares
// and the half that only the best are scored with. Both are rows of signed bytes, so one kernel does all, and scores are
// integer sums, which no CPU rounds otherwise. The step belongs to its vector alone: nothing about one chunk depends on
// another. For Cosine it is 1 over the length in steps, so that the cosine of a vector with itself is 1.
var vectorsKind = frame.Kind{Name: "vectors.seg", Magic: [8]byte{'Q', 'R', 'Y', 'V', 'E', 'C', 'T', 0}, Version: 2}

const (
	// maxDimensions keeps sums of products of two bytes inside 32 bits.
	maxDimensions = 1 << 16
	maxCount      = math.MaxInt32
	// full is the greatest component in steps: 127 in the high half, 0 in the low one.
	full = 127 * 256
	// frameHeader is where a body begins in its file.
	frameHeader = 24
)

type vectors struct {
	kernel                    dot.Kernel
	metric                    Metric
	count, dimensions, stride int
	steps, squares            []byte
	high, low                 []byte
	directionless             *roaring.Bitmap
	widest                    uint32
}

func strideOf(dimensions int) int { return (dimensions + dot.Block - 1) / dot.Block * dot.Block }

// padding after n bytes of the body.
func padding(n uint64) uint64 { return -(n + frameHeader) % dot.Block }

// encodeVectors normalises and quantises. All must have the same number of finite components.
func encodeVectors(in [][]float32, m Metric) ([]byte, error) {
	dimensions := 0
	if len(in) > 0 {
		dimensions = len(in[0])
	}
	if dimensions > maxDimensions || (len(in) > 0 && dimensions == 0) || uint64(len(in)) > maxCount {
		return nil, fmt.Errorf("vectors: %d of %d dimensions: give at most %d of 1 to %d dimensions", len(in), dimensions, maxCount, maxDimensions)
	}
	for i, v := range in {
		if len(v) != dimensions {
			return nil, fmt.Errorf("vectors[%d]: %d dimensions, but vectors[0] has %d: embed all chunks with one model", i, len(v), dimensions)
		}
	}
	stride := strideOf(dimensions)
	points := make([]point, len(in))
	planes := make([]byte, 2*len(in)*stride)
	high, low := planes[:len(in)*stride], planes[len(in)*stride:]
	parallel(len(in), func(i int) {
		points[i] = fix(in[i], m, high[i*stride:][:stride], low[i*stride:][:stride])
	})
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(in)))
	head = binary.LittleEndian.AppendUint32(head, uint32(dimensions))
	head = binary.LittleEndian.AppendUint32(head, uint32(m))
	var steps, squares, zeros []byte
	widest := uint32(0)
	for i, p := range points {
		if p.broken {
			return nil, fmt.Errorf("vectors[%d]: a component is not a finite number, or the length is not: the embedding of that chunk is broken", i)
		}
		widest = max(widest, squaredLength(p.low))
		steps = binary.LittleEndian.AppendUint32(steps, math.Float32bits(p.step))
		if m != Cosine {
			squares = binary.LittleEndian.AppendUint32(squares, math.Float32bits(p.square))
		} else if p.step == 0 {
			zeros = binary.LittleEndian.AppendUint32(zeros, uint32(i))
		}
	}
	head = binary.LittleEndian.AppendUint32(head, uint32(len(zeros)/4))
	head = binary.LittleEndian.AppendUint32(head, widest)
	n := len(head) + len(steps) + len(squares) + len(zeros)
	pad := make([]byte, padding(uint64(n)))
	body := make([]byte, 0, n+len(pad)+len(planes))
	for _, part := range [][]byte{head, steps, squares, zeros, pad, planes} {
		body = append(body, part...)
	}
	return vectorsKind.Seal(body), nil
}

// openVectors reads the head and the list of those without direction, which is short.
func openVectors(file []byte) (*vectors, error) {
	body, err := vectorsKind.Body(file)
	if err != nil {
		return nil, err
	}
	in := frame.NewCursor(body)
	count, dimensions, metric, zeros := uint64(in.Uint32()), uint64(in.Uint32()), Metric(in.Uint32()), uint64(in.Uint32())
	if in.Bad() || count > maxCount || dimensions > maxDimensions || (dimensions == 0) != (count == 0) || metric > L2 || zeros > count || (zeros > 0 && metric != Cosine) {
		return nil, vectorsKind.Corrupt("%d vectors of %d dimensions, metric %d, %d without direction", count, dimensions, metric, zeros)
	}
	v := &vectors{kernel: dot.Available()[0], metric: metric, widest: in.Uint32(), count: int(count), dimensions: int(dimensions),
		stride: strideOf(int(dimensions)), directionless: roaring.New()}
	v.steps = in.Bytes(4 * count)
	if metric != Cosine {
		v.squares = in.Bytes(4 * count)
	}
	list := in.Bytes(4 * zeros)
	in.Bytes(padding(uint64(len(body) - in.Len())))
	v.high, v.low = in.Bytes(count*uint64(v.stride)), in.Bytes(count*uint64(v.stride))
	if in.Bad() || in.Len() != 0 {
		return nil, vectorsKind.Corrupt("%d vectors of %d dimensions do not fill the file", count, dimensions)
	}
	for i := range int(zeros) {
		node := at(list, i)
		if uint64(node) >= count || (i > 0 && node <= at(list, i-1)) {
			return nil, vectorsKind.Corrupt("vector %d without direction is out of order or range", node)
		}
		v.directionless.Add(node)
	}
	return v, nil
}

// check reads all of an open file.
func (v *vectors) check() error {
	for i := range uint32(v.count) {
		p, err := v.point(i)
		if err != nil {
			return err
		}
		if v.metric == Cosine && (p.step == 0) != v.directionless.Contains(i) {
			return vectorsKind.Corrupt("vector %d is not listed as without direction, or is and has one", i)
		}
		if squaredLength(p.low) > v.widest {
			return vectorsKind.Corrupt("the low half of vector %d is longer than the longest", i)
		}
		for j := range v.stride {
			if h := int8(p.high[j]); h == -128 || (j >= v.dimensions && (h != 0 || p.low[j] != 0)) {
				return vectorsKind.Corrupt("vector %d has a component %d that no build writes", i, j)
			}
		}
	}
	return nil
}

func squaredLength(row []byte) (sum uint32) {
	for _, c := range row {
		sum += uint32(int32(int8(c)) * int32(int8(c)))
	}
	return sum
}

func at(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

func f32(b []byte, i uint32) float32 { return math.Float32frombits(at(b, int(i))) }

// point is one vector in fixed point.
type point struct {
	high, low    []byte
	step, square float32
	broken       bool // it does not stand for any vector
}

// fix writes v to high and low.
func fix(v []float32, m Metric, high, low []byte) point {
	p := point{high: high, low: low}
	largest := 0.0
	for _, x := range v {
		largest = max(largest, math.Abs(float64(x))) // NaN stays NaN
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		p.broken = true
	}
	if p.broken || largest == 0 {
		return p
	}
	sum, ratio := int64(0), full/largest
	for j, x := range v {
		c := int64(math.RoundToEven(float64(x) * ratio))
		h := (c + 128) >> 8
		high[j], low[j] = byte(h), byte(c-h<<8)
		sum += c * c
	}
	if m == Cosine {
		p.step = float32(1 / math.Sqrt(float64(sum)))
		return p
	}
	p.step = float32(largest / full)
	p.square = float32(float64(sum) * float64(p.step) * float64(p.step))
	p.broken = math.IsInf(float64(p.square), 0)
	return p
}

// finite also refuses what is not a number.
func finite(f float32) bool { return f >= 0 && f <= math.MaxFloat32 }

// point i of the file; i is below count. The error says that its numbers are none that a build writes.
func (v *vectors) point(i uint32) (point, error) {
	p := point{high: v.high[int(i)*v.stride:][:v.stride], low: v.low[int(i)*v.stride:][:v.stride], step: f32(v.steps, i)}
	if v.squares != nil {
		p.square = f32(v.squares, i)
	}
	if !finite(p.step) || !finite(p.square) {
		return p, vectorsKind.Corrupt("vector %d has the step %v and the square %v", i, p.step, p.square)
	}
	return p, nil
}

// ofHighHalves are the same vectors with the lengths of their high halves, for building a graph of cosines. With the lengths of
// the full vectors, one whose high half came out a little long would look nearer to everybody than it is, and among texts
// of one template those few would gather all links.
func (v *vectors) ofHighHalves() *vectors {
	if v.metric != Cosine {
		return v
	}
	high := *v
	high.steps = make([]byte, 0, len(v.steps))
	for i := range v.count {
		step := float32(0)
		if square := squaredLength(v.high[i*v.stride:][:v.stride]); square > 0 {
			step = float32(1 / math.Sqrt(float64(square)))
		}
		high.steps = binary.LittleEndian.AppendUint32(high.steps, math.Float32bits(step))
	}
	return &high
}

// similarities writes to out what the high halves say of the nearness of p to nodes, which are below count: monotone in
// the score of two vectors of which one is fixed, and the same whichever is called p. dots is scratch as long as nodes. Each
// step rounds by itself, so the numbers are the same on every CPU.
func (v *vectors) similarities(p point, nodes []uint32, dots []int32, out []float32) {
	v.kernel.Rows(p.high, v.high, nodes, dots)
	if v.metric != L2 {
		for i, node := range nodes {
			out[i] = float32(dots[i]) * (p.step * f32(v.steps, node))
		}
		return
	}
	for i, node := range nodes {
		product := float32(float32(dots[i]) * (p.step * f32(v.steps, node)))
		out[i] = float32(product*(2*256*256)) - (p.square + f32(v.squares, node))
	}
}
