// Package hnsw finds the chunks whose vectors point the same way as the query's, among those that the asker may see: by an
// exact scan where few are allowed, by a filtered walk over a flat immutable graph where many are.
package hnsw

import (
	"encoding/binary"
	"fmt"
	"math"

	"quarry.dev/quarry/internal/segment/frame"
)

// The body of vectors.seg: count u32, dimensions u32, scales f32 x count, codes i8 x count x dimensions, unit vectors f32 x
// count x dimensions. A component is about code*scale; the scale belongs to its vector alone, so nothing about one chunk
// depends on another. A vector of length zero (an empty text) has scale 0: it has no direction, and is never a hit.
var vectorsKind = frame.Kind{Name: "vectors.seg", Magic: [8]byte{'Q', 'R', 'Y', 'V', 'E', 'C', 'T', 0}, Version: 1}

// maxDimensions bounds sums of products of two codes well inside 32 bits.
const maxDimensions = 1 << 16

type vectors struct {
	count, dimensions int
	scales            []byte // f32
	codes             []byte // i8
	units             []byte // f32
}

// encodeVectors normalises and quantises. All must have the same number of finite components.
func encodeVectors(in [][]float32) ([]byte, error) {
	dimensions := 0
	if len(in) > 0 {
		dimensions = len(in[0])
	}
	if dimensions > maxDimensions || (len(in) > 0 && dimensions == 0) || uint64(len(in)) > math.MaxInt32 {
		return nil, fmt.Errorf("vectors: %d of %d dimensions: give at most %d of 1 to %d dimensions", len(in), dimensions, math.MaxInt32, maxDimensions)
	}
	var scales, codes, units []byte
	for i, v := range in {
		if len(v) != dimensions {
			return nil, fmt.Errorf("vectors[%d]: %d dimensions, but vectors[0] has %d: embed all chunks with one model", i, len(v), dimensions)
		}
		unit, ok := normalise(v)
		if !ok {
			return nil, fmt.Errorf("vectors[%d]: a component is not a finite number: the embedding of that chunk is broken", i)
		}
		scale, code := quantise(unit)
		scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(scale))
		for j, x := range unit {
			codes = append(codes, byte(code[j]))
			units = binary.LittleEndian.AppendUint32(units, math.Float32bits(x))
		}
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(in)))
	body = binary.LittleEndian.AppendUint32(body, uint32(dimensions))
	for _, part := range [][]byte{scales, codes, units} {
		body = append(body, part...)
	}
	return vectorsKind.Seal(body), nil
}

// openVectors checks shape and every number.
func openVectors(file []byte) (*vectors, error) {
	body, err := vectorsKind.Open(file)
	if err != nil {
		return nil, err
	}
	in := frame.NewCursor(body)
	count, dimensions := uint64(in.Uint32()), uint64(in.Uint32())
	if in.Bad() || count > math.MaxInt32 || dimensions > maxDimensions || (dimensions == 0) != (count == 0) {
		return nil, vectorsKind.Corrupt("%d vectors of %d dimensions", count, dimensions)
	}
	v := &vectors{count: int(count), dimensions: int(dimensions)}
	v.scales, v.codes, v.units = in.Bytes(4*count), in.Bytes(count*dimensions), in.Bytes(4*count*dimensions)
	if in.Bad() || in.Len() != 0 {
		return nil, vectorsKind.Corrupt("%d vectors of %d dimensions do not fill the file", count, dimensions)
	}
	for i := range v.count {
		if s := v.scale(uint32(i)); !(s >= 0 && s <= 1) {
			return nil, vectorsKind.Corrupt("the scale of vector %d is %v", i, s)
		}
	}
	for i := range v.count * v.dimensions {
		if x := f32(v.units, i); !(x >= -1.001 && x <= 1.001) {
			return nil, vectorsKind.Corrupt("vector %d has a component %v", i/v.dimensions, x)
		}
	}
	return v, nil
}

func f32(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

func (v *vectors) scale(i uint32) float32 { return f32(v.scales, int(i)) }

func (v *vectors) code(i uint32) []byte {
	return v.codes[int(i)*v.dimensions : (int(i)+1)*v.dimensions]
}

// isZero says that vector i has no direction.
func (v *vectors) isZero(i uint32) bool { return v.scale(i) == 0 }

// similarity is the approximate cosine of two vectors: an integer sum and two roundings, the same on every CPU.
func (v *vectors) similarity(a, b uint32) float32 {
	return float32(dotCodes(v.code(a), v.code(b))) * (v.scale(a) * v.scale(b))
}

// cosine is the exact cosine of a unit query with vector i. A product of two float32 is exact in float64, so the sum does
// not depend on fused instructions.
func (v *vectors) cosine(unit []float32, i uint32) float64 {
	row := v.units[4*int(i)*v.dimensions:]
	row = row[:4*v.dimensions]
	var s0, s1, s2, s3 float64
	j := 0
	for ; j+4 <= len(unit) && len(row) >= 16; j += 4 {
		u := unit[j : j+4 : j+4]
		s0 += float64(u[0]) * float64(math.Float32frombits(binary.LittleEndian.Uint32(row)))
		s1 += float64(u[1]) * float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4:])))
		s2 += float64(u[2]) * float64(math.Float32frombits(binary.LittleEndian.Uint32(row[8:])))
		s3 += float64(u[3]) * float64(math.Float32frombits(binary.LittleEndian.Uint32(row[12:])))
		row = row[16:]
	}
	for ; j < len(unit) && len(row) >= 4; j++ {
		s0 += float64(unit[j]) * float64(math.Float32frombits(binary.LittleEndian.Uint32(row)))
		row = row[4:]
	}
	return (s0 + s1) + (s2 + s3)
}

// dotCodes is the sum of products of two rows of codes of equal length.
func dotCodes(a, b []byte) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += int32(int8(a[0]))*int32(int8(b[0])) + int32(int8(a[4]))*int32(int8(b[4]))
		s1 += int32(int8(a[1]))*int32(int8(b[1])) + int32(int8(a[5]))*int32(int8(b[5]))
		s2 += int32(int8(a[2]))*int32(int8(b[2])) + int32(int8(a[6]))*int32(int8(b[6]))
		s3 += int32(int8(a[3]))*int32(int8(b[3])) + int32(int8(a[7]))*int32(int8(b[7]))
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		s0 += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return s0 + s1 + s2 + s3
}

// normalise returns v at length 1, or all zeros for a vector of length 0; not ok when a component is not finite.
func normalise(v []float32) (unit []float32, ok bool) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, false
	}
	unit = make([]float32, len(v))
	if sum == 0 {
		return unit, true
	}
	length := math.Sqrt(sum)
	for i, x := range v {
		unit[i] = float32(float64(x) / length)
	}
	return unit, true
}

// quantise maps the largest component onto 127.
func quantise(unit []float32) (scale float32, codes []int8) {
	largest := float32(0)
	for _, x := range unit {
		largest = max(largest, x, -x)
	}
	codes = make([]int8, len(unit))
	if largest == 0 {
		return 0, codes
	}
	for i, x := range unit {
		codes[i] = int8(math.RoundToEven(float64(x) * 127 / float64(largest)))
	}
	return largest / 127, codes
}
