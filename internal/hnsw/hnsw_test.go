package hnsw

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/segment/frame"
)

var params = Params{M: 16, EfConstruction: 128}

// clustered draws points around some centres; every tenth is nearly a copy of the one before, as overlapping chunks are.
func clustered(rng *rand.Rand, n, dimensions, clusters int) [][]float32 {
	centres := make([][]float32, clusters)
	for i := range centres {
		centres[i] = make([]float32, dimensions)
		for j := range centres[i] {
			centres[i][j] = float32(rng.NormFloat64())
		}
	}
	out := make([][]float32, n)
	for i := range out {
		base, spread := centres[rng.IntN(clusters)], 0.5
		if i%10 == 9 {
			base, spread = out[i-1], 0.001
		}
		out[i] = make([]float32, dimensions)
		for j := range out[i] {
			out[i][j] = base[j] + float32(rng.NormFloat64()*spread)
		}
	}
	return out
}

func open(t testing.TB, in [][]float32) *Index {
	t.Helper()
	vectorsSeg, graphSeg, err := Build(in, params)
	if err != nil {
		t.Fatal(err)
	}
	x, err := Open(vectorsSeg, graphSeg)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func every(n int) *roaring.Bitmap {
	all := roaring.New()
	all.AddRange(0, uint64(n))
	return all
}

func randomSet(rng *rand.Rand, n int, share float64) *roaring.Bitmap {
	set := roaring.New()
	for i := range n {
		if rng.Float64() < share {
			set.AddInt(i)
		}
	}
	return set
}

// TestGraphRecall compares the walk with the scan, without and with filters, also one that follows the clusters.
func TestGraphRecall(t *testing.T) {
	const n, dimensions, k = 5000, 64, 10
	rng := rand.New(rand.NewPCG(1, 2))
	in := clustered(rng, n, dimensions, 60)
	x := open(t, in)
	near := roaring.New() // the half of the chunks that lies on one side
	for i, v := range in {
		if v[0] > 0 {
			near.AddInt(i)
		}
	}
	for name, allow := range map[string]*roaring.Bitmap{
		"all": every(n), "50%": randomSet(rng, n, 0.5), "20%": randomSet(rng, n, 0.2), "half space": near,
	} {
		found, walked := 0, 0
		const queries = 100
		for i := range queries {
			q := in[rng.IntN(n)]
			if i%2 == 0 {
				q = clustered(rng, 1, dimensions, 1)[0]
			}
			x.exactBelow = math.MaxInt
			want, _ := x.Search(q, allow, k, 0)
			x.exactBelow = 0
			got, plan := x.Search(q, allow, k, 100)
			if plan.Branch == Graph {
				walked++
			}
			if len(got) != k || len(want) != k {
				t.Fatalf("%s: %d and %d hits", name, len(got), len(want))
			}
			for _, h := range got {
				if !allow.Contains(h.Chunk) {
					t.Fatalf("%s: chunk %d is not allowed", name, h.Chunk)
				}
				if h.Score >= want[k-1].Score {
					found++
				}
			}
		}
		recall := float64(found) / (k * queries)
		t.Logf("%s: recall@%d %.3f, %d of %d on the graph", name, k, recall, walked, queries)
		if recall < 0.95 {
			t.Errorf("%s: recall %.3f is below 0.95", name, recall)
		}
		if walked == 0 {
			t.Errorf("%s: the graph never answered", name)
		}
	}
}

func TestBytesDoNotDependOnThreads(t *testing.T) {
	in := clustered(rand.New(rand.NewPCG(3, 4)), 1500, 24, 10)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	v1, g1, err := Build(in, params)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GOMAXPROCS(7)
	v7, g7, _ := Build(in, params)
	if !bytes.Equal(v1, v7) || !bytes.Equal(g1, g7) {
		t.Error("the bytes depend on the number of threads")
	}
}

// TestExactLeavesNoTrace: where the scan runs, the answer is that of an index that never held what is hidden.
func TestExactLeavesNoTrace(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		in := clustered(rng, 1+rng.IntN(150), 9, 5)
		in[0] = make([]float32, 9)
		allow := randomSet(rng, len(in), rng.Float64())
		var rest [][]float32
		for it := allow.Iterator(); it.HasNext(); {
			rest = append(rest, in[it.Next()])
		}
		q := in[rng.IntN(len(in))]
		got, _ := open(t, in).Search(q, allow, 7, 50)
		want, _ := open(t, rest).Search(q, every(len(rest)), 7, 50)
		for i := range got {
			got[i].Chunk = uint32(allow.Rank(got[i].Chunk)) - 1
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestBranches(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	in := clustered(rng, 400, 8, 4)
	in[5] = make([]float32, 8) // an empty text
	x := open(t, in)
	x.exactBelow = 100
	few := roaring.BitmapOf(5, 6, 7, 4000)
	for _, tt := range []struct {
		name     string
		q        []float32
		allow    *roaring.Bitmap
		k        int
		want     Branch
		allowed  int
		wantHits int
	}{
		{"nil allows nothing", in[0], nil, 5, Nothing, 0, 0},
		{"empty set", in[0], roaring.New(), 5, Nothing, 0, 0},
		{"beyond the index", in[0], roaring.BitmapOf(400, 9000), 5, Nothing, 0, 0},
		{"k of 0", in[0], few, 0, Nothing, 2, 0},
		{"no direction", in[5], every(400), 5, Nothing, 399, 0},
		{"wrong dimensions", in[0][:3], every(400), 5, Refused, 0, 0},
		{"not a number", []float32{float32(math.NaN()), 0, 0, 0, 0, 0, 0, 0}, every(400), 5, Refused, 0, 0},
		{"few", in[0], few, 5, Exact, 2, 2},
		{"many", in[0], every(400), 5, Graph, 399, 5},
		{"more than the walk finds", in[0], every(400), 1000, GraphThenExact, 399, 399},
	} {
		hits, plan := x.Search(tt.q, tt.allow, tt.k, 16)
		if tt.name == "more than the walk finds" && plan.Branch == Graph {
			plan.Branch = GraphThenExact // a connected graph finds all
		}
		if plan.Branch != tt.want || plan.Allowed != tt.allowed || len(hits) != tt.wantHits {
			t.Errorf("%s: plan %+v, %d hits; want %s, %d, %d", tt.name, plan, len(hits), tt.want, tt.allowed, tt.wantHits)
		}
	}
}

// TestIslands: two groups without a link between them still give k hits when k exist.
func TestIslands(t *testing.T) {
	var in [][]float32
	for range 300 {
		in = append(in, []float32{1, 0}) // copies of one text
	}
	in = append(in, []float32{-1, 0.01}, []float32{0, 1})
	x := open(t, in)
	x.exactBelow = 0
	hits, plan := x.Search([]float32{0, 1}, every(len(in)), 10, 10)
	if len(hits) != 10 || hits[0].Chunk != 301 {
		t.Errorf("%d hits, %+v, plan %+v", len(hits), hits, plan)
	}
}

func TestScore(t *testing.T) {
	x := open(t, [][]float32{{2, 0}, {0, 0}, {3, 3}})
	got := x.Score([]float32{5, 0}, []uint32{2, 0, 1, 99})
	if want := []float64{math.Sqrt2 / 2, 1, 0, 0}; math.Abs(got[0]-want[0]) > 1e-7 || !reflect.DeepEqual(got[1:], want[1:]) {
		t.Errorf("scores %v, want %v", got, want)
	}
}

func TestBuildRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for want, f := range map[string]func() error{
		"hnsw.m = 1":         func() error { _, _, err := Build(nil, Params{1, 10}); return err },
		"hnsw.efConstructio": func() error { _, _, err := Build(nil, Params{16, 0}); return err },
		"vectors[1]: 1 dime": func() error { _, _, err := Build([][]float32{{1, 2}, {1}}, params); return err },
		"vectors[1]: a comp": func() error { _, _, err := Build([][]float32{{1, 2}, {1, inf}}, params); return err },
		"1 of 0 dimensions":  func() error { _, _, err := Build([][]float32{{}}, params); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

func TestOpenRefusesDamage(t *testing.T) {
	in := clustered(rand.New(rand.NewPCG(9, 9)), 12, 3, 2)
	v, g, err := Build(in, params)
	if err != nil {
		t.Fatal(err)
	}
	_, other, _ := Build(in[:11], params)
	if _, err := Open(v, other); !errors.Is(err, frame.ErrCorrupt) {
		t.Errorf("the graph of other vectors: %v", err)
	}
	for n := range g {
		bad := bytes.Clone(g)
		bad[n] ^= 1
		if _, err := Open(v, bad); err == nil {
			t.Fatalf("a flipped bit in byte %d of the graph passed", n)
		}
		if _, err := Open(v, g[:n]); err == nil {
			t.Fatalf("%d bytes of the graph passed", n)
		}
	}
	for n := range v {
		if _, err := Open(v[:n], g); err == nil {
			t.Fatalf("%d bytes of the vectors passed", n)
		}
	}
}

// FuzzOpen seals both bodies anew, so that the fuzzer gets past the checksums: what opens can be searched.
func FuzzOpen(f *testing.F) {
	v, g, _ := Build(clustered(rand.New(rand.NewPCG(2, 9)), 30, 3, 2), Params{2, 8})
	vb, _ := vectorsKind.Open(v)
	gb, _ := graphKind.Open(g)
	f.Add(vb, gb)
	f.Fuzz(func(t *testing.T, vb, gb []byte) {
		x, err := Open(vectorsKind.Seal(vb), graphKind.Seal(gb))
		if err != nil {
			return
		}
		x.exactBelow = 0
		x.Search(make([]float32, x.Dimensions()), every(x.Len()), 3, 5)
		x.Search([]float32{1, 2, 3}, every(x.Len()), 3, 5)
	})
}

func BenchmarkBuild(b *testing.B) {
	in := clustered(rand.New(rand.NewPCG(1, 1)), 5000, 256, 100)
	for b.Loop() {
		if _, _, err := Build(in, params); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	const n = 5000
	rng := rand.New(rand.NewPCG(1, 1))
	in := clustered(rng, n, 256, 100)
	x := open(b, in)
	for _, share := range []float64{1, 0.5, 0.1} {
		allow := randomSet(rng, n, share)
		for _, below := range []int{0, math.MaxInt} {
			x.exactBelow = below
			_, plan := x.Search(in[7], allow, 10, 100)
			b.Run(fmt.Sprintf("allow=%v%%/%s", share*100, plan.Branch), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					x.Search(in[i%n], allow, 10, 100)
				}
			})
		}
	}
}

// TestExactEqualsNaive sorts all cosines, as they follow from the raw vectors.
func TestExactEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 40 {
		n, k := 1+rng.IntN(300), 1+rng.IntN(40)
		in := clustered(rng, n, 7, 6)
		allow, q := randomSet(rng, n, 0.6), in[rng.IntN(n)]
		var want []float64
		for it := allow.Iterator(); it.HasNext(); {
			dot, a, b := 0.0, 0.0, 0.0
			for j, x := range in[it.Next()] {
				dot, a, b = dot+float64(x)*float64(q[j]), a+float64(x)*float64(x), b+float64(q[j])*float64(q[j])
			}
			want = append(want, dot/math.Sqrt(a*b))
		}
		slices.Sort(want)
		slices.Reverse(want)
		got, _ := open(t, in).Search(q, allow, k, 0)
		if len(got) != min(k, len(want)) {
			t.Fatalf("%d hits, want %d", len(got), min(k, len(want)))
		}
		for i, h := range got {
			if math.Abs(h.Score-want[i]) > 1e-6 || !allow.Contains(h.Chunk) {
				t.Fatalf("hit %d: %+v, want %v", i, h, want[i])
			}
		}
	}
}
