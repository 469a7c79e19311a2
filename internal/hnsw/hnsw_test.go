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
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/hnsw/dot"
	"quarry.dev/quarry/internal/segment/frame"
)

var params = Params{M: 16, EfConstruction: 128}

var metrics = map[Metric]string{Cosine: "cosine", Dot: "dot", L2: "L2"}

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

func open(t testing.TB, in [][]float32, p Params) *Index {
	t.Helper()
	vectorsSeg, graphSeg, err := Build(in, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(vectorsSeg, graphSeg); err != nil {
		t.Fatal(err)
	}
	x, err := Open(vectorsSeg, graphSeg)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// answer fails the test for a search that failed.
func answer(t testing.TB) func([]Hit, Plan, error) ([]Hit, Plan) {
	return func(hits []Hit, plan Plan, err error) ([]Hit, Plan) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return hits, plan
	}
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
	const n, dimensions, k, queries = 4000, 64, 10, 50
	rng := rand.New(rand.NewPCG(1, 2))
	in := clustered(rng, n, dimensions, 60)
	near := roaring.New() // the half of the chunks that lies on one side
	for i, v := range in {
		if v[0] > 0 {
			near.AddInt(i)
		}
	}
	filters := map[string]*roaring.Bitmap{
		"all": every(n), "all but one": randomSet(rng, n, 0.9), "50%": randomSet(rng, n, 0.5), "20%": randomSet(rng, n, 0.2), "half space": near,
	}
	for metric, name := range metrics {
		x := open(t, in, Params{M: 16, EfConstruction: 128, Metric: metric})
		for filter, allow := range filters {
			found := 0
			for range queries {
				q := in[rng.IntN(n)]
				want, _ := answer(t)(x.Scan(q, allow, k))
				got, plan := answer(t)(x.Walk(q, allow, k, 100))
				if len(got) != k || len(want) != k || plan.Branch != Graph {
					t.Fatalf("%s, %s: %d and %d hits, %+v", name, filter, len(got), len(want), plan)
				}
				for _, h := range got {
					if !allow.Contains(h.Chunk) {
						t.Fatalf("%s, %s: chunk %d is not allowed", name, filter, h.Chunk)
					}
					if h.Score >= want[k-1].Score {
						found++
					}
				}
			}
			if recall := float64(found) / (k * queries); recall < 0.95 {
				t.Errorf("%s, %s: recall@%d %.3f is below 0.95", name, filter, k, recall)
			}
		}
	}
}

// TestBytesAreEqual whatever the number of threads and the instruction set.
func TestBytesAreEqual(t *testing.T) {
	in := clustered(rand.New(rand.NewPCG(3, 4)), 1200, 24, 10)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for metric, name := range metrics {
		p := Params{M: 8, EfConstruction: 40, Metric: metric}
		runtime.GOMAXPROCS(1)
		v1, g1, err := Build(in, p)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GOMAXPROCS(7)
		v7, g7, _ := Build(in, p)
		if !bytes.Equal(v1, v7) || !bytes.Equal(g1, g7) {
			t.Errorf("%s: the bytes depend on the number of threads", name)
		}
		for _, k := range dot.Available() {
			v, _ := openVectors(v1)
			v.kernel = k
			if g, _ := buildGraph(v, v1, p); !bytes.Equal(g, g1) {
				t.Errorf("%s: the bytes of kernel %s differ", name, k.Name)
			}
		}
	}
}

// TestExactLeavesNoTrace: where the scan runs, the answer is that of an index that never held what is hidden.
func TestExactLeavesNoTrace(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 30 {
		p := Params{M: 4, EfConstruction: 8, Metric: Metric(i % 3)}
		in := clustered(rng, 1+rng.IntN(150), 9, 5)
		in[0] = make([]float32, 9)
		allow := randomSet(rng, len(in), rng.Float64())
		var rest [][]float32
		for it := allow.Iterator(); it.HasNext(); {
			rest = append(rest, in[it.Next()])
		}
		if len(rest) == 0 {
			continue
		}
		q := in[rng.IntN(len(in))]
		got, plan := answer(t)(open(t, in, p).Search(q, allow, 7, 50))
		want, _ := answer(t)(open(t, rest, p).Search(q, every(len(rest)), 7, 50))
		for i := range got {
			got[i].Chunk = uint32(allow.Rank(got[i].Chunk)) - 1
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if plan.Branch != Exact && plan.Branch != Nothing {
			t.Fatalf("the branch was %s", plan.Branch)
		}
	}
}

// TestScanIsExact: no copy that differs in the last bits, and no tie, escapes the intervals of the scan.
func TestScanIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for i := range 60 {
		n, k := 1+rng.IntN(2000), 1+rng.IntN(40)
		in := clustered(rng, n, 7, 1+rng.IntN(6))
		for range n / 3 { // copies, some of them longer
			a, b := rng.IntN(n), rng.IntN(n)
			in[a] = slices.Clone(in[b])
			for j := range in[a] {
				in[a][j] *= float32(1 + i%2)
			}
		}
		x := open(t, in, Params{M: 2, EfConstruction: 2, Metric: Metric(i % 3)})
		allow, q := randomSet(rng, n, 0.6), in[rng.IntN(n)]
		scores, err := x.Score(q, allow.ToArray())
		if err != nil {
			t.Fatal(err)
		}
		var want []Hit
		for i, chunk := range allow.ToArray() {
			want = append(want, Hit{chunk, scores[i]})
		}
		want = best(want, k)
		if got, _ := answer(t)(x.Scan(q, allow, k)); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestScore compares with the formulas in float64, on the raw vectors.
func TestScore(t *testing.T) {
	in := clustered(rand.New(rand.NewPCG(1, 9)), 50, 33, 3)
	in[7] = make([]float32, 33)
	for metric, name := range metrics {
		x := open(t, in, Params{M: 4, EfConstruction: 8, Metric: metric})
		got, err := x.Score(in[3], []uint32{49, 3, 7, 99})
		if err != nil {
			t.Fatal(err)
		}
		for i, chunk := range []int{49, 3, 7} {
			product, a, b := 0.0, 0.0, 0.0
			for j := range in[3] {
				p, q := float64(in[3][j]), float64(in[chunk][j])
				product, a, b = product+p*q, a+p*p, b+q*q
			}
			want := map[Metric]float64{Cosine: product / math.Sqrt(max(a*b, 1e-9)), Dot: product, L2: -(a + b - 2*product)}[metric]
			if scale := map[Metric]float64{Cosine: 1, Dot: a, L2: a + b}[metric]; math.Abs(got[i]-want) > 1e-5*scale {
				t.Errorf("%s of %d: %v, want %v", name, chunk, got[i], want)
			}
		}
		if got[3] != 0 {
			t.Errorf("%s of a chunk that does not exist: %v", name, got[3])
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
	x := open(t, in, params)
	hits, plan := answer(t)(x.search([]float32{0, 1}, every(len(in)), 10, func(filter, int, int) way { return byPlan }, 10))
	if len(hits) != 10 || hits[0].Chunk != 301 {
		t.Errorf("%d hits, %+v, plan %+v", len(hits), hits, plan)
	}
}

func TestBuildRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for want, f := range map[string]func() error{
		"hnsw.m = 1: it must be from 2 to 128":               func() error { _, _, err := Build(nil, Params{M: 1, EfConstruction: 10}); return err },
		"hnsw.efConstruction = 0: it must be from 1 to 4096": func() error { _, _, err := Build(nil, Params{M: 16}); return err },
		"hnsw.metric = 3: it must be Cosine, Dot or L2":      func() error { _, _, err := Build(nil, Params{M: 16, EfConstruction: 1, Metric: 3}); return err },
		"vectors[1]: 1 dimensions, but vectors[0] has 2":     func() error { _, _, err := Build([][]float32{{1, 2}, {1}}, params); return err },
		"vectors[1]: a component is not a finite number":     func() error { _, _, err := Build([][]float32{{1, 2}, {1, inf}}, params); return err },
		"vectors: 1 of 0 dimensions":                         func() error { _, _, err := Build([][]float32{{}}, params); return err },
		"vectors[0]: a component is not a finite number, or t": func() error {
			_, _, err := Build([][]float32{{3e38, 3e38}}, Params{M: 16, EfConstruction: 8, Metric: L2})
			return err
		},
	} {
		if err := f(); err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestRefusesDamage(t *testing.T) {
	in := clustered(rand.New(rand.NewPCG(9, 9)), 12, 3, 2)
	v, g, err := Build(in, params)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := Build(in[1:], params)
	if _, err := Open(other, g); !errors.Is(err, frame.ErrCorrupt) {
		t.Errorf("the graph of other vectors: %v", err)
	}
	for _, file := range []*[]byte{&v, &g} {
		good := *file
		for n := range good {
			*file = bytes.Clone(good)
			(*file)[n] ^= 1
			if Check(v, g) == nil {
				t.Fatalf("a flipped bit in byte %d passed", n)
			}
			*file = good[:n]
			if _, err := Open(v, g); err == nil {
				t.Fatalf("%d bytes passed", n)
			}
		}
		*file = good
	}
}

// exercise opens two bodies and searches by all branches: whatever they hold, that gives hits or an error.
func exercise(vb, gb []byte) {
	vectorsSeg := vectorsKind.Seal(vb)
	if len(gb) >= 16 {
		gb = bytes.Clone(gb)
		copy(gb[12:16], vectorsSeg[len(vectorsSeg)-4:])
	}
	graphSeg := graphKind.Seal(gb)
	x, err := Open(vectorsSeg, graphSeg)
	if err != nil {
		return
	}
	q := make([]float32, x.Dimensions())
	for i := range q {
		q[i] = float32(i + 1)
	}
	all := every(x.Len())
	half := randomSet(rand.New(rand.NewPCG(1, 1)), x.Len(), 0.5)
	for _, allow := range []*roaring.Bitmap{all, half} {
		x.Walk(q, allow, 3, 5)
		x.Scan(q, allow, 3)
		x.search(q, allow, 3, func(filter, int, int) way { return byPlan }, 5)
	}
	x.Score(q, []uint32{0, 1, 5})
	Check(vectorsSeg, graphSeg)
}

// bodies are of a small index with a vector that has no direction.
func bodies() (vb, gb []byte) {
	in := clustered(rand.New(rand.NewPCG(2, 9)), 60, 3, 2)
	in[3] = make([]float32, 3)
	v, g, _ := Build(in, Params{M: 2, EfConstruction: 8})
	vb, _ = vectorsKind.Open(v)
	gb, _ = graphKind.Open(g)
	return vb, gb
}

func TestDamageIsAnError(t *testing.T) {
	vb, gb := bodies()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 3000 {
		v, g := bytes.Clone(vb), bytes.Clone(gb)
		for range 1 + rng.IntN(4) {
			v[rng.IntN(len(v))] ^= byte(rng.Uint32()) & byte(rng.Uint32()) & byte(rng.Uint32())
			g[rng.IntN(len(g))] ^= byte(rng.Uint32())
		}
		exercise(v, g)
	}
	binaryLinks := bytes.Clone(gb)
	for i := len(gb) / 2; i < len(gb); i++ {
		binaryLinks[i] = 0xff
	}
	x, err := Open(sealPair(vb, binaryLinks))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Walk([]float32{1, 2, 3}, every(60), 3, 60); !errors.Is(err, frame.ErrCorrupt) {
		t.Errorf("links beyond the vectors: %v", err)
	}
}

func sealPair(vb, gb []byte) (v, g []byte) { return vectorsKind.Seal(vb), graphKind.Seal(gb) }

// FuzzOpen seals both bodies anew, so that the fuzzer gets past the checksums.
func FuzzOpen(f *testing.F) {
	vb, gb := bodies()
	f.Add(vb, gb)
	f.Fuzz(func(_ *testing.T, vb, gb []byte) { exercise(vb, gb) })
}

func BenchmarkSearch(b *testing.B) {
	const n = 20000
	rng := rand.New(rand.NewPCG(1, 1))
	in := clustered(rng, n, 384, 200)
	x := open(b, in, params)
	for _, share := range []float64{1, 0.5, 0.1} {
		allow := randomSet(rng, n, share)
		b.Run(fmt.Sprintf("allow=%v%%/walk", share*100), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				answer(b)(x.Walk(in[i%n], allow, 10, 100))
			}
		})
		b.Run(fmt.Sprintf("allow=%v%%/scan", share*100), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				answer(b)(x.Scan(in[i%n], allow, 10))
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	in := clustered(rand.New(rand.NewPCG(1, 1)), 5000, 384, 100)
	for b.Loop() {
		if _, _, err := Build(in, params); err != nil {
			b.Fatal(err)
		}
	}
}
