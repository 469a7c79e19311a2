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

// ask is one way to answer, and what came of each question.
type ask struct {
	run     func(q []float32, allow *roaring.Bitmap) ([]hnsw.Hit, hnsw.Plan, error)
	hits    [][]hnsw.Hit
	plans   []hnsw.Plan
	seconds []float64 // CPU time of this thread, the best of all turns
}

func (a *ask) p99() float64 { return quantile(a.seconds, 0.99) }

func quantile(seconds []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(seconds))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

const (
	turns = 7
	// together is how many questions are asked one way before the next way is tried: so few that what else the machine does
	// hits all ways alike, so many that the caches hold nothing more of a question.
	together = 5
)

// inTurns asks all questions in all ways, in turns, and every other turn in the reverse order of ways.
func inTurns(queries [][]float32, allow []*roaring.Bitmap, asks ...*ask) (err error) {
	for _, a := range asks {
		a.hits, a.plans = make([][]hnsw.Hit, len(queries)), make([]hnsw.Plan, len(queries))
		a.seconds = slices.Repeat([]float64{math.Inf(1)}, len(queries))
	}
	for range turns {
		for from := 0; from < len(queries); from += together {
			for _, a := range asks {
				for i := from; i < min(from+together, len(queries)); i++ {
					start := threadSeconds()
					if a.hits[i], a.plans[i], err = a.run(queries[i], allow[i]); err != nil {
						return err
					}
					a.seconds[i] = min(a.seconds[i], threadSeconds()-start)
				}
			}
		}
		slices.Reverse(asks)
	}
	return nil
}

// cell is one kind and share of the sweep.
type cell struct {
	planned, exact, again, walk, unfiltered ask // again: the exact scan once more
	recall, walkRecall                      float64
	missing                                 int // hits that exist and were not returned
	branches                                map[hnsw.Branch]int
}

func (s *set) sweep(x *hnsw.Index, kind string, share float64) (*cell, error) {
	scan := func(q []float32, allow *roaring.Bitmap) ([]hnsw.Hit, hnsw.Plan, error) { return x.Scan(q, allow, k) }
	search := func(q []float32, allow *roaring.Bitmap) ([]hnsw.Hit, hnsw.Plan, error) {
		return x.Search(q, allow, k, ef)
	}
	all := everything(x.Len())
	c := &cell{branches: map[hnsw.Branch]int{}, exact: ask{run: scan}, again: ask{run: scan}, planned: ask{run: search},
		walk: ask{run: func(q []float32, allow *roaring.Bitmap) ([]hnsw.Hit, hnsw.Plan, error) {
			return x.Walk(q, allow, k, ef)
		}},
		unfiltered: ask{run: func(q []float32, _ *roaring.Bitmap) ([]hnsw.Hit, hnsw.Plan, error) { return search(q, all) }}}
	rng := rand.New(rand.NewPCG(7, uint64(share*1e6)))
	var allow []*roaring.Bitmap
	for _, q := range s.queries {
		allow = append(allow, s.allowed(kind, share, q, rng))
	}
	if err := inTurns(s.queries, allow, &c.exact, &c.planned, &c.again, &c.walk, &c.unfiltered); err != nil {
		return nil, err
	}
	found, walked, exist := 0, 0, 0
	for i := range s.queries {
		truth := c.exact.hits[i]
		exist += min(k, int(allow[i].GetCardinality()))
		c.missing += min(k, int(allow[i].GetCardinality())) - len(c.planned.hits[i])
		found, walked = found+common(c.planned.hits[i], truth), walked+common(c.walk.hits[i], truth)
		c.branches[c.planned.plans[i].Branch]++
	}
	c.recall, c.walkRecall = float64(found)/float64(exist), float64(walked)/float64(exist)
	return c, nil
}

// ofLimit is the p99 as a share of what it may be.
func (c *cell) ofLimit() float64 { return c.planned.p99() / max(3*c.unfiltered.p99(), c.exact.p99()) }

// noise is how far two measurements of the same scan lie apart, where the scan sets the limit.
func (c *cell) noise() float64 {
	if c.exact.p99() < 3*c.unfiltered.p99() {
		return 0
	}
	return math.Abs(math.Log(c.again.p99() / c.exact.p99()))
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
	fmt.Fprintln(csv, "kind,share,recall,walk recall,p50 us,p99 us,exact p99 us,exact p99 us again,walk p99 us,unfiltered p99 us,branches")
	worst, dearest, noise, missing, branches := 1.0, 0.0, 0.0, 0, map[hnsw.Branch]int{}
	for _, share := range shares {
		for _, kind := range kinds {
			if share == 1 && kind != "random" {
				continue
			}
			c, err := s.sweep(x, kind, share)
			if err != nil {
				return err
			}
			worst, dearest, noise, missing = min(worst, c.recall), max(dearest, c.ofLimit()), max(noise, c.noise()), missing+c.missing
			for branch, n := range c.branches {
				branches[branch] += n
			}
			line := fmt.Sprintf("%s,%g,%.4f,%.4f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%v", kind, share, c.recall, c.walkRecall, 1e6*quantile(c.planned.seconds, 0.5),
				1e6*c.planned.p99(), 1e6*c.exact.p99(), 1e6*c.again.p99(), 1e6*c.walk.p99(), 1e6*c.unfiltered.p99(), c.branches)
			fmt.Fprintln(csv, line)
			progress("%s", line)
		}
	}
	b.report(name+"-recall", worst, 0.99, false)
	b.report(name+"-missing-hits", float64(missing), 0, true)
	// the limit is 1 and what this run shows to be the noise of its clock: where the planner scans, both sides are one code
	fmt.Printf("note %s-p99-of-limit: two measurements of the same scans differed by up to %.2g %%\n", name, 100*noise)
	b.report(name+"-p99-of-limit", dearest, math.Exp(noise), true)
	b.report(name+"-graph-answers", float64(branches[hnsw.Graph]), 1, false)
	b.report(name+"-exact-answers", float64(branches[hnsw.Exact]), 1, false)
	return nil
}
