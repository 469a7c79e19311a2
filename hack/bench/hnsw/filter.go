package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/hnsw"
)

// shares of the index that a reader may see.
var shares = []float64{1, 0.6, 0.2, 0.05, 0.01, 0.001, 0.0001}

// kinds of allow sets, made for each question:
//
//	random      any chunk with the same chance
//	near        the clusters nearest to the question
//	far         the clusters farthest from it
//	groups      50 groups of many; a group holds parts of a few clusters
var kinds = []string{"random", "near", "far", "groups"}

// allowed makes a set of about share of the chunks, at least one.
func (s *set) allowed(kind string, share float64, q []float32, rng *rand.Rand) *roaring.Bitmap {
	n := len(s.labels)
	if share == 1 {
		return everything(n)
	}
	words := make([]uint64, (n+63)/64)
	allow := func(i int) { words[i/64] |= 1 << (i % 64) }
	want := max(1, int(share*float64(n)))
	switch kind {
	case "random":
		for i := range n {
			if rng.Float64() < share {
				allow(i)
			}
		}
		allow(rng.IntN(n))
	case "groups":
		groups := int(50 / share)
		chosen := make([]bool, groups)
		for _, g := range rng.Perm(groups)[:50] {
			chosen[g] = true
		}
		for i, label := range s.labels {
			if chosen[(label*7919+i%5*104729)%groups] {
				allow(i)
			}
		}
		allow(rng.IntN(n))
	default:
		chosen := s.clustersBy(q, kind == "near")
		taken := make([]bool, len(s.centres))
		for _, c := range chosen[:(want+perCluster-1)/perCluster] {
			taken[c] = true
		}
		for i, label := range s.labels {
			if taken[label] && want > 0 {
				allow(i)
				want--
			}
		}
	}
	set := roaring.FromDense(words, false)
	set.RunOptimize()
	return set
}

// clustersBy orders clusters by the cosine of their centres with q.
func (s *set) clustersBy(q []float32, nearest bool) []int {
	cosines, order := make([]float64, len(s.centres)), make([]int, len(s.centres))
	for c, centre := range s.centres {
		product, square := 0.0, 0.0
		for j, x := range centre {
			product += float64(x) * float64(q[j])
			square += float64(x) * float64(x)
		}
		cosines[c], order[c] = product/math.Sqrt(square), c
	}
	slices.SortFunc(order, func(a, b int) int {
		if nearest {
			a, b = b, a
		}
		return cmp.Compare(cosines[a], cosines[b])
	})
	return order
}

// cell is one kind and share of the sweep.
type cell struct {
	kind                 string
	share                float64
	planned, exact, walk []float64 // seconds of each question
	recall, walkRecall   float64
	missing              int // hits that exist and were not returned
	branches             map[hnsw.Branch]int
}

func p99(seconds []float64) float64 { return quantile(seconds, 0.99) }

func quantile(seconds []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(seconds))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// answer is one way to answer a question, and what came of it.
type answer struct {
	run     func() ([]hnsw.Hit, hnsw.Plan, error)
	hits    []hnsw.Hit
	plan    hnsw.Plan
	seconds float64 // CPU time of this thread, the best of all turns
}

// inTurns runs all ways several times, one after the other, so that what else the machine does hits all alike.
func inTurns(answers ...*answer) (err error) {
	for turn := range 5 {
		for _, a := range answers {
			start := threadSeconds()
			if a.hits, a.plan, err = a.run(); err != nil {
				return err
			}
			if took := threadSeconds() - start; turn == 0 || took < a.seconds {
				a.seconds = took
			}
		}
	}
	return nil
}

func (s *set) sweep(x *hnsw.Index, kind string, share float64) (*cell, error) {
	c := &cell{kind: kind, share: share, branches: map[hnsw.Branch]int{}}
	rng := rand.New(rand.NewPCG(7, uint64(share*1e6)))
	found, walked, exist := 0, 0, 0
	for _, q := range s.queries {
		allow := s.allowed(kind, share, q, rng)
		exact := &answer{run: func() ([]hnsw.Hit, hnsw.Plan, error) { return x.Scan(q, allow, k) }}
		planned := &answer{run: func() ([]hnsw.Hit, hnsw.Plan, error) { return x.Search(q, allow, k, ef) }}
		walk := &answer{run: func() ([]hnsw.Hit, hnsw.Plan, error) { return x.Walk(q, allow, k, ef) }}
		if err := inTurns(exact, planned, walk); err != nil {
			return nil, err
		}
		c.exact, c.planned, c.walk = append(c.exact, exact.seconds), append(c.planned, planned.seconds), append(c.walk, walk.seconds)
		exist += min(k, int(allow.GetCardinality()))
		c.missing += min(k, int(allow.GetCardinality())) - len(planned.hits)
		found, walked = found+common(planned.hits, exact.hits), walked+common(walk.hits, exact.hits)
		c.branches[planned.plan.Branch]++
	}
	c.recall, c.walkRecall = float64(found)/float64(exist), float64(walked)/float64(exist)
	return c, nil
}

// ofLimit is the p99 as a share of what it may be.
func (c *cell) ofLimit(unfiltered float64) float64 {
	return p99(c.planned) / max(3*unfiltered, p99(c.exact))
}

func (b *bench) filters(name string, n, questions int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := clustered(n, questions)
	x, err := b.index(s)
	if err != nil {
		return err
	}
	s.base = nil
	csv, err := os.Create(filepath.Join(b.out, name+".csv"))
	if err != nil {
		return err
	}
	defer csv.Close()
	fmt.Fprintln(csv, "kind,share,recall,walk recall,p99 us,exact p99 us,walk p99 us,branches")
	worst, dearest, missing, branches := 1.0, 0.0, 0, map[hnsw.Branch]int{}
	unfiltered := 0.0
	for _, share := range shares {
		for _, kind := range kinds {
			if share == 1 && kind != "random" {
				continue
			}
			c, err := s.sweep(x, kind, share)
			for again := 0; err == nil && share < 1 && again < 2 && c.ofLimit(unfiltered) > 1; again++ {
				c, err = s.sweep(x, kind, share) // what else the machine does is not the planner's fault
			}
			if err != nil {
				return err
			}
			if share == 1 {
				unfiltered = p99(c.planned)
			}
			worst, dearest, missing = min(worst, c.recall), max(dearest, c.ofLimit(unfiltered)), missing+c.missing
			for branch, n := range c.branches {
				branches[branch] += n
			}
			line := fmt.Sprintf("%s,%g,%.4f,%.4f,%.0f,%.0f,%.0f,%v", kind, share, c.recall, c.walkRecall, 1e6*p99(c.planned), 1e6*p99(c.exact), 1e6*p99(c.walk), c.branches)
			fmt.Fprintln(csv, line)
			progress("%s", line)
		}
	}
	b.report(name+"-recall", worst, 0.99, false)
	b.report(name+"-missing-hits", float64(missing), 0, true)
	// where the planner scans, both sides run the same code: 5 % is what two measurements of it differ by
	b.report(name+"-p99-of-limit", dearest, 1.05, true)
	b.report(name+"-graph-answers", float64(branches[hnsw.Graph]), 1, false)
	b.report(name+"-exact-answers", float64(branches[hnsw.Exact]), 1, false)
	return nil
}
