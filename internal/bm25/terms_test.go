package bm25

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestFloorLeavesOutNothingElse: with a floor the hits are those of the same search without one that reach it, in the same
// order, at whatever score the floor is; also where many chunks score the same, and where they are more than k.
func TestFloorLeavesOutNothingElse(t *testing.T) {
	cut, tied := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 31))
		chunks := 1 + rng.IntN(9000)
		s := open(t, randomTerms(rng, chunks, 1+rng.IntN(6)))
		q := randomQuery(rng)
		q.Allow = randomSet(rng, chunks, 0.8)
		all, err := s.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		floors := []float64{-1, 0, math.SmallestNonzeroFloat64, all.Bound, math.Inf(1), math.NaN()}
		for range min(4, len(all.Hits)) {
			score := all.Hits[rng.IntN(len(all.Hits))].Score
			floors = append(floors, score, math.Nextafter(score, 0), math.Nextafter(score, 1e9))
		}
		for _, floor := range floors {
			var want []Hit
			for i, h := range all.Hits {
				if h.Score < floor {
					cut++
					continue
				}
				want = append(want, h)
				if i > 0 && h.Score == floor && all.Hits[i-1].Score == floor {
					tied++
				}
			}
			q.Floor = floor
			got, err := s.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, Result{Hits: want, Bound: all.Bound}) {
				t.Fatalf("seed %d, %q, k %d, floor %v: %d hits, not %d, or others", seed, q.Text, q.K, floor, len(got.Hits), len(want))
			}
		}
	}
	if cut < 1000 || tied < 100 {
		t.Errorf("%d hits were below a floor and %d tied at it: the corpus is too easy", cut, tied)
	}
}

// TestTermsOfAQuestion: a question by its terms is the question by its text.
func TestTermsOfAQuestion(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	s := open(t, randomTerms(rng, 500, 5))
	for range 50 {
		q := randomQuery(rng)
		q.Allow = randomSet(rng, 500, 0.5)
		byTerms := q
		byTerms.Text, byTerms.Terms = "", s.Terms(q.Text)
		for _, ask := range []func(q Query) (any, error){
			func(q Query) (any, error) { return s.Search(q) },
			func(q Query) (any, error) { return s.Statistics(q) },
			func(q Query) (any, error) { return s.Score(q, []uint32{1, 2, 3, 499}) },
		} {
			want, err := ask(q)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ask(byTerms); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: by its terms %v (%v), by its text %v", q.Text, got, err, want)
			}
		}
	}
}
