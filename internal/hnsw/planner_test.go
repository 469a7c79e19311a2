package hnsw

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

func TestBranches(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	in := clustered(rng, 400, 8, 4)
	in[5] = make([]float32, 8) // an empty text
	x := open(t, in, params)
	few := roaring.BitmapOf(5, 6, 7, 4000)
	for _, tt := range []struct {
		name     string
		q        []float32
		allow    *roaring.Bitmap
		k        int
		way      way
		want     Branch
		allowed  int
		wantHits int
	}{
		{"nil allows nothing", in[0], nil, 5, byPlan, Nothing, 0, 0},
		{"empty set", in[0], roaring.New(), 5, byPlan, Nothing, 0, 0},
		{"beyond the index", in[0], roaring.BitmapOf(400, 9000), 5, byPlan, Nothing, 0, 0},
		{"k of 0", in[0], few, 0, byPlan, Nothing, 2, 0},
		{"no direction", in[5], every(400), 5, byPlan, Nothing, 399, 0},
		{"few", in[0], few, 5, byScan, Exact, 2, 2},
		{"many", in[0], every(4000), 5, byPlan, Graph, 399, 5},
		{"as many as there are", in[0], every(400), 1000, byPlan, GraphThenExact, 399, 399},
		{"dearer than a scan", in[0], randomSet(rng, 400, 0.3), 5, byPlan, GraphThenExact, 0, 5},
		{"far from the query", in[0], farthest(x, in[0], 100), 5, byPlan, ExactNearby, 100, 5},
	} {
		hits, plan := answer(t)(x.search(tt.q, tt.allow, tt.k, func(filter, int, int) way { return tt.way }, 16))
		if plan.Branch != tt.want || len(hits) != tt.wantHits || (tt.allowed > 0 && plan.Allowed != tt.allowed) {
			t.Errorf("%s: plan %+v, %d hits; want %s, %d, %d", tt.name, plan, len(hits), tt.want, tt.allowed, tt.wantHits)
		}
	}
	if hits, plan := answer(t)(open(t, nil, params).Search(in[0], every(3), 5, 16)); len(hits) > 0 || plan.Branch != Nothing {
		t.Errorf("an empty index: %v, %+v", hits, plan)
	}
	for name, q := range map[string][]float32{"dimensions": in[0][:3], "not a number": {float32(math.NaN()), 0, 0, 0, 0, 0, 0, 0}} {
		if _, _, err := x.Search(q, every(400), 5, 16); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// farthest allows the n chunks that lie farthest from q.
func farthest(x *Index, q []float32, n int) *roaring.Bitmap {
	hits, _, _ := x.Scan(q, every(x.Len()), x.Len())
	set := roaring.New()
	for _, h := range hits[len(hits)-n:] {
		set.Add(h.Chunk)
	}
	return set
}

// TestWorthWalking holds the planner's rule at its edges: small sets are scanned, and sets that are selective for their size.
func TestWorthWalking(t *testing.T) {
	for _, tt := range []struct {
		k, ef, allowed, all int
		want                bool
	}{
		{10, 100, 6_500, 6_500, false},
		{10, 100, 6_501, 6_501, true},
		{10, 200, 6_501, 6_501, false},
		{10, 100, 24_999, 50_000, false}, // what is hidden may be what the query asks for
		{10, 100, 25_001, 50_000, true},
		{10, 100, 39_999, 200_000, false},
		{10, 100, 40_001, 200_000, true},
		{10, 100, 100_000, 666_000, true},
		{10, 100, 100_000, 667_000, false}, // too few for a walk that finds 10 of 100 allowed, unless they lie together
		{10, 100, 150_000, 3_000_000, true},
		{1, 1000, 90_000, 200_000, false}, // 2,000 steps
		{1, 1000, 140_000, 200_000, true},
		{100, 200, 60_000, 150_000, true},
		{100, 200, 60_000, 290_000, false}, // 1,005 steps
		{10, 100, 0, 1_000_000, false},
	} {
		if got := (filter{allowed: tt.allowed, all: tt.all}).worthWalking(tt.k, tt.ef); got != tt.want {
			t.Errorf("worthWalking(%d, %d, %d, %d) = %v", tt.k, tt.ef, tt.allowed, tt.all, got)
		}
	}
}

// TestPlannedRecall: whatever is allowed around the query, a walk finds it or gives up and leaves it to the scan.
func TestPlannedRecall(t *testing.T) {
	const n, k, queries = 5000, 10, 60
	rng := rand.New(rand.NewPCG(21, 22))
	in := clustered(rng, n, 48, 60)
	x := open(t, in, params)
	for _, tt := range []struct {
		name  string
		allow func(q []float32) *roaring.Bitmap
		want  Branch // mostly
	}{
		{"half", func([]float32) *roaring.Bitmap { return randomSet(rng, n, 0.5) }, Graph},
		{"three tenths", func([]float32) *roaring.Bitmap { return randomSet(rng, n, 0.3) }, Graph},
		{"a hundredth", func([]float32) *roaring.Bitmap { return randomSet(rng, n, 0.01) }, ExactNearby},
		{"the nearest tenth", func(q []float32) *roaring.Bitmap { return nearest(x, q, n/10) }, GraphThenExact}, // 500 are few
		{"the nearest half", func(q []float32) *roaring.Bitmap { return nearest(x, q, n/2) }, Graph},
		{"the farthest nine tenths", func(q []float32) *roaring.Bitmap { return farthest(x, q, n*9/10) }, ExactNearby},
	} {
		found, branches := 0, map[Branch]int{}
		for range queries {
			q := in[rng.IntN(n)]
			allow := tt.allow(q)
			want, _ := answer(t)(x.Scan(q, allow, k))
			got, plan := answer(t)(x.search(q, allow, k, func(filter, int, int) way { return byPlan }, 100))
			branches[plan.Branch]++
			if len(got) != len(want) {
				t.Fatalf("%s: %d hits of %d, %+v", tt.name, len(got), len(want), plan)
			}
			for _, h := range got {
				if !allow.Contains(h.Chunk) {
					t.Fatalf("%s: chunk %d is not allowed", tt.name, h.Chunk)
				}
				if h.Score >= want[len(want)-1].Score {
					found++
				}
			}
		}
		if recall := float64(found) / (k * queries); recall < 0.99 {
			t.Errorf("%s: recall@%d %.3f is below 0.99 (%v)", tt.name, k, recall, branches)
		}
		if branches[tt.want] < queries*3/4 {
			t.Errorf("%s: the branches were %v, not mostly %s", tt.name, branches, tt.want)
		}
	}
}

// TestWalkAdapts: what a walk compares follows the share that is allowed where the query points, not that of the index.
func TestWalkAdapts(t *testing.T) {
	const n = 5000
	rng := rand.New(rand.NewPCG(31, 32))
	in := clustered(rng, n, 48, 60)
	x := open(t, in, params)
	all, random, near := 0, 0, 0
	for range 40 {
		q := in[rng.IntN(n)]
		for visited, allow := range map[*int]*roaring.Bitmap{&all: every(n), &random: randomSet(rng, n, 0.1), &near: nearest(x, q, n/10)} {
			_, plan := answer(t)(x.Walk(q, allow, 10, 50))
			*visited += plan.Visited
		}
	}
	if random < 2*all || near > all*11/10 {
		t.Errorf("%d vectors compared without a filter, %d in a random tenth, %d in the nearest tenth", all, random, near)
	}
}

// TestSegmentsRecall: walks over the parts of an index find together what a walk over all of it finds.
func TestSegmentsRecall(t *testing.T) {
	const n, parts, k, queries = 6000, 4, 10, 100
	rng := rand.New(rand.NewPCG(41, 42))
	in := clustered(rng, n, 48, 80)
	small := Params{M: 6, EfConstruction: 20} // finds less than all
	one := open(t, in, small)
	var segments []*Index
	for part := range slices.Chunk(in, n/parts) {
		segments = append(segments, open(t, part, small))
	}
	walk := func(x *Index, q []float32, first int) []Hit {
		hits, _ := answer(t)(x.Walk(q, every(x.Len()), k, 20))
		for i := range hits {
			hits[i].Chunk += uint32(first)
		}
		return hits
	}
	whole, merged := 0, 0
	for range queries {
		q := in[rng.IntN(n)]
		truth, _ := answer(t)(one.Scan(q, every(n), k))
		var hits []Hit
		for i, x := range segments {
			hits = append(hits, walk(x, q, i*n/parts)...)
		}
		for _, way := range []struct {
			hits  []Hit
			found *int
		}{{walk(one, q, 0), &whole}, {best(hits, k), &merged}} {
			for _, h := range way.hits {
				if slices.Contains(truth, h) {
					*way.found++
				}
			}
		}
	}
	if a, b := float64(whole)/(k*queries), float64(merged)/(k*queries); b < a-0.01 || a < 0.9 || a > 0.9999 {
		t.Errorf("recall@%d %.3f of %d segments, %.3f of one", k, b, parts, a)
	}
}

// nearest allows the n chunks that lie nearest to q.
func nearest(x *Index, q []float32, n int) *roaring.Bitmap {
	hits, _, _ := x.Scan(q, every(x.Len()), n)
	set := roaring.New()
	for _, h := range hits {
		set.Add(h.Chunk)
	}
	return set
}
