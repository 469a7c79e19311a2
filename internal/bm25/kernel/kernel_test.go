package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// packed writes numbers of width bits each, and eight bytes of something else behind them.
func packed(numbers []uint32, width uint) []byte {
	out := make([]byte, (len(numbers)*int(width)+7)/8, len(numbers)*4+16)
	for i, v := range numbers {
		for bit := range width {
			at := uint(i)*width + bit
			out[at/8] |= byte(v>>bit&1) << (at % 8)
		}
	}
	return append(out, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
}

func random(rng *rand.Rand, n int, width uint) []uint32 {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = uint32(rng.Uint64() & (1<<width - 1))
	}
	return numbers
}

// TestUnpack holds what every kernel unpacks to what was packed, for every width, number and alignment.
func TestUnpack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range Available() {
		for width := range uint(33) {
			for _, n := range []int{Block, Block, 1 + rng.IntN(Block), 7, 8, 0} {
				numbers, next := random(rng, n, width), uint64(rng.IntN(1000))
				b := packed(numbers, width)
				var got [Block]uint32
				k.Values(&got, b, width, n)
				for i, v := range numbers {
					if got[i] != v+1 {
						t.Fatalf("%s: width %d: value %d of %d is %d, not %d", k.Name, width, i, n, got[i], v+1)
					}
				}
				want := next
				for _, v := range numbers {
					want += uint64(v) + 1
				}
				end := k.Ascend(&got, b, width, n, next)
				if want > math.MaxUint32 {
					if end <= math.MaxUint32 {
						t.Fatalf("%s: width %d: %d numbers from %d on end at %d, not beyond 32 bits", k.Name, width, n, next, end)
					}
					continue
				}
				if end != want {
					t.Fatalf("%s: width %d: %d numbers from %d on end at %d, not %d", k.Name, width, n, next, end, want)
				}
				for i, v := range numbers {
					next += uint64(v)
					if uint64(got[i]) != next {
						t.Fatalf("%s: width %d: number %d of %d is %d, not %d", k.Name, width, i, n, got[i], next)
					}
					next++
				}
			}
		}
	}
}

// TestGains holds what every kernel computes to the formula, to the last bit.
func TestGains(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const count = 5000
	lengths := make([]uint32, count)
	short := make([]byte, 0, 2*count+2)
	for i := range lengths {
		lengths[i] = uint32(rng.IntN([]int{300, Long}[rng.IntN(2)]))
		short = binary.LittleEndian.AppendUint16(short, uint16(lengths[i]))
	}
	short = append(short, 0xff, 0xff)
	for _, k := range Available() {
		for range 2000 {
			n := 1 + rng.IntN(Block)
			chunks, tfs := make([]uint32, n), make([]uint32, n)
			for i := range chunks {
				chunks[i], tfs[i] = uint32(rng.IntN(count)), 1+uint32(rng.Uint64()>>(32+rng.IntN(32)))
			}
			k1, b := 3*rng.Float64(), rng.Float64()
			weight, base, slope := math.Exp(30*rng.Float64()-1), k1*(1-b), k1*b/(1+200*rng.Float64())
			var got [Block]int64
			ok := k.Gains(&got, chunks, tfs, short, weight, base, slope)
			if ok != (k.gains != nil) {
				t.Fatalf("%s: computed is %t", k.Name, ok)
			}
			for i := range chunks {
				if !ok {
					break
				}
				tf := float64(tfs[i])
				share := tf / float64(tf+float64(base+float64(slope*float64(lengths[chunks[i]]))))
				if want := max(1, int64(float64(weight*share)+0.5)); got[i] != want {
					t.Fatalf("%s: tf %v, length %d, weight %v: %d, not %d", k.Name, tf, lengths[chunks[i]], weight, got[i], want)
				}
			}
		}
	}
}

// TestLongChunksAreNotComputed: a length that two bytes do not hold is the caller's to read.
func TestLongChunksAreNotComputed(t *testing.T) {
	lengths := []byte{5, 0, 0xff, 0xff, 7, 0, 0xff, 0xff}
	for _, k := range Available() {
		var out [Block]int64
		if k.Gains(&out, []uint32{0, 2, 1}, []uint32{1, 1, 1}, lengths, 1, 1, 1) {
			t.Errorf("%s computed the gain of a chunk of unknown length", k.Name)
		}
	}
}
