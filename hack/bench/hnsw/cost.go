package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"quarry.dev/quarry/internal/hnsw"
)

// chart, axis and series are what hack/plot reads.
type chart struct {
	File   string   `json:"file"`
	Title  string   `json:"title"`
	X      axis     `json:"x"`
	Y      axis     `json:"y"`
	Series []series `json:"series"`
}

type axis struct {
	Label string `json:"label"`
	Scale string `json:"scale,omitempty"`
}

type series struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
	Line   bool         `json:"line"`
}

// widths of walks, by k.
var widths = []struct{ k, ef int }{{10, 100}, {100, 200}}

// cost prints the curves that the planner's constants come from: the time of a scan by how many are allowed, that of a walk
// by the share that is allowed, and how many vectors a walk has compared when it gives up.
func (b *bench) cost() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := clustered(100_000, 300)
	x, err := b.index(s)
	if err != nil {
		return err
	}
	s.base = nil
	csv, err := os.Create(filepath.Join(b.out, "hnsw-cost.csv"))
	if err != nil {
		return err
	}
	defer csv.Close()
	fmt.Fprintln(csv, "share,k,ef,scan ns per vector,walk us,walk as vectors scanned,modelled,vectors compared by the walk,recall of the walk")
	costs := chart{File: "hnsw-cost.svg", Title: "A walk costs as much as scanning so many vectors (100,000 x 384)",
		X: axis{Label: "allowed share"}, Y: axis{Label: "vectors", Scale: "log"}}
	for _, w := range widths {
		measured := series{Name: fmt.Sprintf("k %d, ef %d", w.k, w.ef), Line: true}
		modelled := series{Name: measured.Name + ", modelled", Line: true}
		for _, share := range []float64{1, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05} {
			allow := s.allowed("random", share, nil, rand.New(rand.NewPCG(3, 3)))
			scan, _, err := mean(s, func(q []float32) (hnsw.Plan, error) { _, p, err := x.Scan(q, allow, w.k); return p, err })
			if err != nil {
				return err
			}
			walk, compared, err := mean(s, func(q []float32) (hnsw.Plan, error) { _, p, err := x.Walk(q, allow, w.k, w.ef); return p, err })
			if err != nil {
				return err
			}
			found := 0
			for _, q := range s.queries[:100] {
				truth, _, _ := x.Scan(q, allow, w.k)
				hits, _, _ := x.Walk(q, allow, w.k, w.ef)
				found += common(hits, truth)
			}
			perVector, model := scan/float64(allow.GetCardinality()), walkCost*min(float64(max(w.ef, 2*w.k+8))/share, float64(2*max(w.ef, 10*w.k)))
			line := fmt.Sprintf("%g,%d,%d,%.2f,%.1f,%.0f,%.0f,%.0f,%.4f", share, w.k, w.ef, 1e9*perVector, 1e6*walk, walk/perVector, model, compared, float64(found)/float64(100*w.k))
			fmt.Fprintln(csv, line)
			progress("%s", line)
			measured.Points = append(measured.Points, [2]float64{share, walk / perVector})
			modelled.Points = append(modelled.Points, [2]float64{share, model})
		}
		costs.Series = append(costs.Series, measured, modelled)
	}
	if err := b.givingUp(s, x); err != nil {
		return err
	}
	charts, err := json.MarshalIndent([]chart{costs}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "hnsw-charts.json"), charts, 0o644)
}

// walkCost is the planner's constant of that name: the vectors that a scan compares in the time of a step.
const walkCost = 65

// givingUp prints what a walk costs that finds nothing allowed around the query.
func (b *bench) givingUp(s *set, x *hnsw.Index) error {
	rng, compared, gone := rand.New(rand.NewPCG(3, 3)), 0, 0
	for _, q := range s.queries[:100] {
		_, plan, err := x.Search(q, s.allowed("far", 0.6, q, rng), k, ef)
		if err != nil {
			return err
		}
		if plan.Branch == hnsw.ExactNearby {
			gone, compared = gone+1, compared+plan.Visited-plan.Allowed
		}
	}
	fmt.Printf("note hnsw-cost: %d of 100 walks gave up, after %d comparisons on average\n", gone, compared/max(1, gone))
	return nil
}

// mean seconds, and vectors compared, of a way to answer. Between two turns of a question come all others, so that the
// caches hold as little of its surroundings as they would; of three rounds the best counts.
func mean(s *set, answer func([]float32) (hnsw.Plan, error)) (seconds, compared float64, err error) {
	seconds = math.Inf(1)
	for range 3 {
		visited, start := 0, threadSeconds()
		for _, q := range s.queries {
			plan, err := answer(q)
			if err != nil {
				return 0, 0, err
			}
			visited += plan.Visited
		}
		seconds = min(seconds, threadSeconds()-start)
		compared = float64(visited)
	}
	n := float64(len(s.queries))
	return seconds / n, compared / n, nil
}
