package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"quarry.dev/quarry/internal/hnsw"
)

// cost prints the curves that the planner's constants come from: the time of a scan by how many are allowed, and of a walk
// by its width and by the share that is allowed.
func (b *bench) cost() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := clustered(100_000, 60)
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
	fmt.Fprintln(csv, "share,ef,scan ns per vector,walk us,walk as vectors scanned,vectors compared by the walk")
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
			line := fmt.Sprintf("%g,%d,%.2f,%.1f,%.0f,%.0f", share, ef, 1e9*perVector, 1e6*walk, walk/perVector, compared)
			fmt.Fprintln(csv, line)
			progress("%s", line)
		}
	}
	return nil
}

// mean seconds, and vectors compared, of a way to answer.
func mean(s *set, answer func([]float32) (hnsw.Plan, error)) (seconds, compared float64, err error) {
	for _, q := range s.queries {
		_, plan, t, err := best(func() ([]hnsw.Hit, hnsw.Plan, error) { p, err := answer(q); return nil, p, err })
		if err != nil {
			return 0, 0, err
		}
		seconds, compared = seconds+t, compared+float64(plan.Visited)
	}
	return seconds / float64(len(s.queries)), compared / float64(len(s.queries)), nil
}
