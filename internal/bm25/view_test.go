package bm25

import (
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// selective is a segment whose words all have more than shortList blocks, and sets that allow one chunk of twenty each.
func selective(t *testing.T) (s *Segment, sets []*roaring.Bitmap) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 3))
	texts := make([][]string, 20_000)
	for i := range texts {
		for range 5 {
			texts[i] = append(texts[i], fewWords[rng.IntN(len(fewWords))])
		}
	}
	for first := range 3 {
		allow := roaring.New()
		for i := first; i < len(texts); i += 20 {
			allow.AddInt(i)
		}
		sets = append(sets, allow)
	}
	return open(t, texts), sets
}

// TestVisiblePostingsAreKept: who may see little does not read the postings of all a second time.
func TestVisiblePostingsAreKept(t *testing.T) {
	s, sets := selective(t)
	v := s.view(sets[0])
	for number := range s.terms {
		all, err := s.postingsOf(number)
		if err != nil {
			t.Fatal(err)
		}
		first, bits, df, err := v.visiblePostings(number, all)
		if err != nil {
			t.Fatal(err)
		}
		if all.blocks <= shortList || first.frequency != df || bits != nil || df == 0 || df > all.frequency/fewVisible {
			t.Fatalf("term %d: a list of %d for %d visible of %d postings", number, first.frequency, df, all.frequency)
		}
		again, _, _, err := v.visiblePostings(number, postings{blocks: all.blocks}) // in which there is nothing to read
		if err != nil || again.frequency != df || again.blocks != first.blocks {
			t.Errorf("term %d was read again: %v", number, err)
		}
	}
}

// TestKeptPostingsAreBounded: with room for few lists, answers stay the same, no more are kept, and those that were used last
// are.
func TestKeptPostingsAreBounded(t *testing.T) {
	s, sets := selective(t)
	rng := rand.New(rand.NewPCG(4, 4))
	var want []Result
	var questions []Query
	for range 150 {
		q := randomQuery(rng)
		q.Allow = sets[rng.IntN(len(sets))]
		result, err := s.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		questions, want = append(questions, q), append(want, result)
	}
	for _, budget := range []int{0, 3000, 9000} {
		s.lists = newLists(budget)
		for i, q := range questions {
			got, err := s.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Hits) != len(want[i].Hits) {
				t.Fatalf("budget %d: %d hits, not %d", budget, len(got.Hits), len(want[i].Hits))
			}
			for j, h := range want[i].Hits {
				if got.Hits[j] != h {
					t.Fatalf("budget %d: hit %d is %+v, not %+v", budget, j, got.Hits[j], h)
				}
			}
			bytes := 0
			for _, l := range s.lists.byUse.Values() {
				bytes += l.bytes()
			}
			if bytes > budget || s.lists.room != budget-bytes {
				t.Fatalf("budget %d: %d bytes are kept, %d are left", budget, bytes, s.lists.room)
			}
		}
		if budget > 0 && s.lists.byUse.Len() == 0 {
			t.Errorf("budget %d: nothing is kept", budget)
		}
	}
}
