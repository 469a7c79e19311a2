package dot

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// naive is the definition.
func naive(q, row []byte) (sum int32) {
	for i := range q {
		sum += int32(int8(q[i])) * int32(int8(row[i]))
	}
	return sum
}

// TestKernels compares every kernel with the definition: all numbers of rows up to some, lengths from one block to the
// longest, and the extremes, whose sums are the largest.
func TestKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{64, 128, 192, 384, 1024, 1 << 16} {
		const count = 11
		rows := make([]byte, count*length)
		for i := range rows {
			rows[i] = byte(rng.Uint32())
		}
		copy(rows, slices.Repeat([]byte{0x80}, length))
		copy(rows[length:], slices.Repeat([]byte{0x7f}, length))
		for n := range 20 {
			nodes, want := make([]uint32, n), make([]int32, n)
			q := rows[n%count*length:][:length]
			for i := range nodes {
				nodes[i] = rng.Uint32N(count)
				want[i] = naive(q, rows[int(nodes[i])*length:])
			}
			for _, k := range Available() {
				got := slices.Repeat([]int32{7}, n)
				if k.Rows(q, rows, nodes, got); !slices.Equal(got, want) {
					t.Fatalf("%s, rows %v of %d: %d, want %d", k.Name, nodes, length, got, want)
				}
			}
		}
	}
}

// TestRowsStaysInside: the word behind out is not written.
func TestRowsStaysInside(t *testing.T) {
	rows := slices.Repeat([]byte{1}, 2*Block)
	for _, k := range Available() {
		out := []int32{9, 9, 9}
		if k.Rows(rows[:Block], rows, []uint32{1, 0}, out[:2]); !slices.Equal(out, []int32{Block, Block, 9}) {
			t.Errorf("%s: %d", k.Name, out)
		}
	}
}

// Whoever knows the CPU, such as make test-arm64, says what it must choose.
func TestChoice(t *testing.T) {
	want := os.Getenv("QUARRY_TEST_KERNELS")
	if want == "" {
		t.Skip("QUARRY_TEST_KERNELS does not say which kernels this CPU has")
	}
	if got := Available()[0].Name; got != want {
		t.Errorf("chose %s, want %s", got, want)
	}
}

func BenchmarkRows(b *testing.B) {
	rows, nodes, out := make([]byte, 1000*384), make([]uint32, 100), make([]int32, 100)
	for i := range nodes {
		nodes[i] = uint32(i * 7)
	}
	for _, k := range Available() {
		b.Run(k.Name, func(b *testing.B) {
			for b.Loop() {
				k.Rows(rows[:384], rows, nodes, out)
			}
		})
	}
}
