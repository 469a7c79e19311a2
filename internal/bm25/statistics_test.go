package bm25

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// TestSegmentsScoreAsOne cuts a corpus at random: with the statistics of all parts, each scores and bounds as the whole does,
// to the last bit, also where it has answered by its own statistics before.
func TestSegmentsScoreAsOne(t *testing.T) {
	analyzer, err := NewAnalyzer("standard")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa")
	text := func(rng *rand.Rand, n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = words[min(rng.IntN(len(words)), rng.IntN(len(words)))]
		}
		return strings.Join(out, " ")
	}
	open := func(b *Builder) *Segment {
		s, err := Open(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	hits := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		whole, wholeAllow := NewBuilder(analyzer), roaring.New()
		var parts []*Segment
		var allows []*roaring.Bitmap
		var firsts []uint32
		first := uint32(0)
		for range 1 + rng.IntN(4) {
			part, allow := NewBuilder(analyzer), roaring.New()
			firsts = append(firsts, first)
			for i := range uint32(rng.IntN(300)) {
				passage := text(rng, rng.IntN(40))
				whole.Add(passage)
				part.Add(passage)
				if rng.IntN(3) > 0 {
					wholeAllow.Add(first + i)
					allow.Add(i)
				}
			}
			first += uint32(len(part.lengths))
			parts, allows = append(parts, open(part)), append(allows, allow)
		}
		one := open(whole)
		for range 5 {
			q := Query{Text: text(rng, 1+rng.IntN(5)) + " unknown", K: 1 + rng.IntN(20), K1: 0.9, B: 0.4}
			q.Allow = wholeAllow
			want, err := one.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			sum := &Statistics{}
			for i, s := range parts {
				q.Allow = allows[i]
				if _, err := s.Search(q); err != nil {
					t.Fatal(err)
				}
				part, err := s.Statistics(q)
				if err != nil {
					t.Fatal(err)
				}
				sum.Add(part)
			}
			var got []Hit
			for i, s := range parts {
				q.Allow = allows[i]
				found, err := s.SearchWith(sum, q)
				if err != nil {
					t.Fatal(err)
				}
				if found.Bound != want.Bound {
					t.Fatalf("seed %d: bound %v, of the whole %v", seed, found.Bound, want.Bound)
				}
				all := make([]uint32, s.Chunks())
				for c := range all {
					all[c] = uint32(c)
				}
				scores, err := s.ScoreWith(sum, q, all)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range found.Hits {
					if scores[h.Chunk] != h.Score {
						t.Fatalf("seed %d: chunk %d scores %v, found with %v", seed, h.Chunk, scores[h.Chunk], h.Score)
					}
					got = append(got, Hit{firsts[i] + h.Chunk, h.Score})
				}
			}
			slices.SortFunc(got, func(a, b Hit) int {
				return compareScored(scored{int64(a.Score * fixed), a.Chunk}, scored{int64(b.Score * fixed), b.Chunk})
			})
			if got = got[:min(len(got), q.K)]; !slices.Equal(got, want.Hits) {
				t.Fatalf("seed %d, %d parts: %v\nof the whole: %v", seed, len(parts), got, want.Hits)
			}
			hits += len(got)
		}
	}
	if hits == 0 {
		t.Error("nothing was found")
	}
}

func TestStatisticsOfAnotherQuestion(t *testing.T) {
	analyzer, err := NewAnalyzer("standard")
	if err != nil {
		t.Fatal(err)
	}
	b := NewBuilder(analyzer)
	b.Add("alpha beta")
	s, err := Open(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.SearchWith(&Statistics{Chunks: 1, Tokens: 2, Frequencies: []uint64{1}}, Query{Text: "alpha beta", K: 1, Allow: roaring.BitmapOf(0)})
	if err == nil || !strings.Contains(err.Error(), "statistics of 1 terms, the question has 2") {
		t.Errorf("got %v", err)
	}
}
