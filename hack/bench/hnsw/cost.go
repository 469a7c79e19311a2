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

// cost prints the curves that the planner's constants come from: the time of a scan by how many are allowed, and of a walk
// by its width and by the share that is allowed.
func (b *bench) cost() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := clustered(100_000, 300)
	x, err := b.index(s)
	if err != nil {
		return err
	}
	csv, err := os.Create(filepath.Join(b.out, "hnsw-cost.csv"))
	if err != nil {
		return err
	}
	defer csv.Close()
	rng := rand.New(rand.NewPCG(3, 3))
	curves := map[int]*series{}
	costs := chart{File: "hnsw-cost.svg", Title: "A walk costs as much as scanning so many vectors (100,000 x 384)",
		X: axis{Label: "allowed share"}, Y: axis{Label: "vectors", Scale: "log"}}
	fmt.Fprintln(csv, "share,ef,scan ns per vector,walk us,walk as vectors scanned,vectors compared by the walk,recall of the walk")
	for _, share := range []float64{1, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05} {
		allow := s.allowed("random", share, nil, rng)
		scan, _, err := mean(s, func(q []float32) (hnsw.Plan, error) { _, p, err := x.Scan(q, allow, k); return p, err })
		if err != nil {
			return err
		}
		perVector := scan / float64(allow.GetCardinality())
		for _, ef := range []int{50, 100, 200, 400} {
			walk, compared, err := mean(s, func(q []float32) (hnsw.Plan, error) { _, p, err := x.Walk(q, allow, k, ef); return p, err })
			if err != nil {
				return err
			}
			found := 0
			for _, q := range s.queries[:100] {
				truth, _, _ := x.Scan(q, allow, k)
				hits, _, _ := x.Walk(q, allow, k, ef)
				found += common(hits, truth)
			}
			line := fmt.Sprintf("%g,%d,%.2f,%.1f,%.0f,%.0f,%.4f", share, ef, 1e9*perVector, 1e6*walk, walk/perVector, compared, float64(found)/(100*k))
			fmt.Fprintln(csv, line)
			progress("%s", line)
			if curves[ef] == nil {
				curves[ef] = &series{Name: fmt.Sprintf("ef %d", ef), Line: true}
			}
			curves[ef].Points = append(curves[ef].Points, [2]float64{share, walk / perVector})
		}
	}
	for _, ef := range []int{50, 100, 200, 400} {
		costs.Series = append(costs.Series, *curves[ef])
	}
	charts, err := json.MarshalIndent([]chart{costs}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "hnsw-charts.json"), charts, 0o644)
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
