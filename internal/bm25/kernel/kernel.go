// Package kernel holds the inner loops of the lexical index, in plain Go and in the instruction set that makes them fast: a
// block of postings is unpacked, and what each posting gains is computed. Every operation rounds by itself, so every kernel
// gives the same numbers.
package kernel

import "math"

// Block is the number of postings that are packed together.
const Block = 128

// Kernel is the loops for one instruction set.
type Kernel struct {
	Name   string
	ascend func(out *uint32, packed, spread *byte, step int, present uint64, next uint32) (end, overflow uint32)
	values func(out *uint32, packed, spread *byte, step int, present uint64)
	gains  func(out *int64, chunks, tfs *uint32, n int, lengths *byte, weight, base, slope float64) (long uint32)
}

// Available lists the kernels that this CPU can run, the fastest first. The last one is plain Go.
func Available() []Kernel { return append(native(), Kernel{Name: "generic"}) }

// Ascend unpacks n differences less 1 of width bits each, at most 32, to the numbers that ascend from next on, and returns
// what comes after the last, or what no uint32 is when they pass its range. packed goes on for eight bytes behind the last
// difference.
func (k *Kernel) Ascend(out *[Block]uint32, packed []byte, width uint, n int, next uint64) (end uint64) {
	if k.ascend == nil || n < Block || width > widest {
		return ascend(out, packed, width, n, next)
	}
	s := &spreads[width]
	_ = packed[s.step*groups]
	last, overflow := k.ascend(&out[0], &packed[0], &s.order[0], s.step, s.present, uint32(next))
	if overflow != 0 {
		return math.MaxUint64
	}
	return uint64(last)
}

// Values unpacks n numbers less 1 of width bits each, at most 32. packed goes on for eight bytes behind the last one.
func (k *Kernel) Values(out *[Block]uint32, packed []byte, width uint, n int) {
	if k.values == nil || n < Block || width > widest {
		values(out, packed, width, n)
		return
	}
	s := &spreads[width]
	_ = packed[s.step*groups]
	k.values(&out[0], &packed[0], &s.order[0], s.step, s.present)
}

// Long as a length stands for any that is as long or longer.
const Long = math.MaxUint16

// Gains writes max(1, int(weight*tf/(tf+base+slope*length)+0.5)) of each posting to out; lengths holds a u16 for each chunk,
// and two bytes more. It returns false, and what it wrote is void, when a length is Long, and always in plain Go.
func (k *Kernel) Gains(out *[Block]int64, chunks, tfs []uint32, lengths []byte, weight, base, slope float64) bool {
	if k.gains == nil || len(lengths) > 2*math.MaxInt32 {
		return false
	}
	if len(chunks) == 0 {
		return true
	}
	return k.gains(&out[:len(chunks)][0], &chunks[0], &tfs[:len(chunks)][0], len(chunks), &lengths[0], weight, base, slope) == 0
}

const (
	groups = 8 // of 16 numbers in a block
	// widest is the most bits of a number that lies in four bytes wherever it begins.
	widest = 25
)

// spread says how to part 16 packed numbers: which four bytes hold each, where in them it begins, and how many bits count.
// step is the bytes of all, present a bit for each of them.
type spread struct {
	order   [64]byte
	shifts  [16]uint32
	mask    uint32
	step    int
	present uint64
}

var spreads = func() (all [widest + 1]spread) {
	for width := range uint32(len(all)) {
		s := &all[width]
		s.mask, s.step = 1<<width-1, 2*int(width)
		s.present = 1<<s.step - 1
		for i := range uint32(16) {
			s.shifts[i] = i * width % 8
			for j := range uint32(4) {
				s.order[4*i+j] = byte(i*width/8 + j)
			}
		}
	}
	return all
}()
