package transformer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"quarry.dev/quarry/internal/embed/kernel"
)

func modelFile(t testing.TB) []byte {
	t.Helper()
	file, err := os.ReadFile("../models/minilm-l6-v2-int8.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func newModel(t testing.TB, file []byte, s *kernel.Set, threads int) *Model {
	t.Helper()
	m, err := New(file, s, threads)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// random sequences of n tokens each
func random(r *rand.Rand, lengths ...int) (ids [][]int32) {
	for _, n := range lengths {
		s := make([]int32, n)
		for i := range s {
			s[i] = int32(1000 + r.IntN(29000))
		}
		ids = append(ids, s)
	}
	return ids
}

// states of each sequence, in one slice a sequence
func states(m *Model, ids [][]int32) [][]float32 {
	out := make([][]float32, len(ids))
	m.Encode(ids, func(i int, s []float32) { out[i] = slices.Clone(s) })
	return out
}

// Neither the number of threads nor what else is encoded changes a bit of a sequence's states.
func TestStatesDependOnTheSequenceAlone(t *testing.T) {
	file := modelFile(t)
	for _, set := range kernel.Available() {
		t.Run(set.Name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			ids := random(r, 1, 2, 3, 5, 12, 31, 32, 33, 7, 7)
			if set.Name != "generic" { // which takes 25 times as long
				ids = append(ids, random(r, 256, 100, 64, 255, 97, 96, 95, 13, 29, 200, 18, 40)...)
			}
			alone := newModel(t, file, set, 1)
			var want [][]float32
			for i := range ids {
				want = append(want, states(alone, ids[i:i+1])[0])
			}
			check := func(m *Model, order []int) {
				t.Helper()
				some := make([][]int32, len(order))
				for k, i := range order {
					some[k] = ids[i]
				}
				for k, s := range states(m, some) {
					if !slices.Equal(s, want[order[k]]) {
						t.Fatalf("%d threads, %d sequences: one of %d tokens differs", cap(m.threads), len(order), len(some[k]))
					}
				}
			}
			for _, threads := range []int{1, 2, 3, 7} {
				m := newModel(t, file, set, threads)
				order := r.Perm(len(ids))
				check(m, order)
				check(m, order[:5])
				for i := range ids { // shared by all threads
					check(m, []int{i})
				}
			}
		})
	}
}

func TestConcurrentUse(t *testing.T) {
	file, r := modelFile(t), rand.New(rand.NewPCG(7, 8))
	m := newModel(t, file, kernel.Available()[0], 2)
	ids := random(r, 12, 100, 3, 256, 40, 40)
	want := states(m, ids)
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range ids {
				i = (i + k) % len(ids)
				if got := states(m, ids[i:]); !slices.Equal(got[0], want[i]) {
					t.Errorf("sequence %d differs under concurrent use", i)
				}
			}
		})
	}
	wg.Wait()
	if len(m.threads) != 2 {
		t.Errorf("%d threads are free afterwards, want 2", len(m.threads))
	}
}

// The second call of a kind takes the buffers of the first.
func TestScratchIsReused(t *testing.T) {
	m := newModel(t, modelFile(t), kernel.Available()[0], 1)
	ids := random(rand.New(rand.NewPCG(9, 9)), 40)
	run := func() { m.Encode(ids, func(int, []float32) {}) }
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 10
	for range n {
		run()
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / n; bytes > 16<<10 {
		t.Errorf("%d bytes are allocated for a sequence of 40 tokens, want at most 16 KiB", bytes)
	}
}

// A file that begins off a cache line gives the same states.
func TestMisalignedFile(t *testing.T) {
	file, set := modelFile(t), kernel.Available()[0]
	ids := random(rand.New(rand.NewPCG(1, 9)), 20)
	want := states(newModel(t, file, set, 1), ids)
	shifted := append(make([]byte, 4, len(file)+4), file...)[4:]
	if got := states(newModel(t, shifted, set, 1), ids); !slices.Equal(got[0], want[0]) {
		t.Error("states differ")
	}
}

func TestBadFiles(t *testing.T) {
	file := modelFile(t)
	n := int(binary.LittleEndian.Uint64(file))
	header := string(file[8 : 8+n])
	with := func(old, new string) []byte {
		if !strings.Contains(header, old) {
			t.Fatalf("the header has no %s", old)
		}
		h := strings.Replace(header, old, new, 1)
		h += strings.Repeat(" ", max(0, n-len(h)))
		return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), []byte(h), file[8+n:])
	}
	for want, f := range map[string][]byte{
		"too few":                file[:7],
		"header of":              file[:100],
		`no tensor "pos"`:        with(`"pos"`, `"pox"`),
		"no layer":               with(`"0.ln1"`, `"0.ln9"`),
		`tensor "1.qkv.q" is U8`: with(`"1.qkv.q": {"dtype": "I8"`, `"1.qkv.q": {"dtype": "U8"`),
		`tensor "word.s" is F32`: with(`"shape": [30522]`, `"shape": [30521]`),
		`tensor "5.ln1" is at`:   file[:len(file)-400_000],
		`no tensor "2.down.q"`:   with(`"2.down.q"`, `"2.down.p"`),
	} {
		if _, err := New(f, kernel.Available()[0], 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// BenchmarkEncode measures passages a second: tokens x sequences x threads.
func BenchmarkEncode(b *testing.B) {
	file := modelFile(b)
	for _, set := range kernel.Available() {
		for _, shape := range [][3]int{{12, 1, 1}, {32, 32, 1}, {128, 8, 1}, {256, 4, 1}, {32, 32, 2}, {128, 8, 2}, {256, 4, 2}, {256, 1, 1}, {256, 1, 2}} {
			b.Run(fmt.Sprintf("%s/%dx%d/threads=%d", set.Name, shape[0], shape[1], shape[2]), func(b *testing.B) {
				m := newModel(b, file, set, shape[2])
				ids := random(rand.New(rand.NewPCG(1, 1)), slices.Repeat(shape[:1], shape[1])...)
				b.ReportAllocs()
				for b.Loop() {
					m.Encode(ids, func(int, []float32) {})
				}
				b.ReportMetric(float64(b.N*shape[1])/b.Elapsed().Seconds(), "passages/s")
			})
		}
	}
}
