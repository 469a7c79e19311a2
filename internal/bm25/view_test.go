package bm25

import (
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// selective is a segment, and a set that allows one chunk of twenty.
func selective(t *testing.T) (*Segment, *roaring.Bitmap) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 3))
	texts := randomTerms(rng, 20_000, 6)
	allow := roaring.New()
	for i := 0; i < len(texts); i += 20 {
		allow.AddInt(i)
	}
	return open(t, texts), allow
}

// TestVisiblePostingsAreKept: who may see little does not read the postings of all a second time.
func TestVisiblePostingsAreKept(t *testing.T) {
	s, allow := selective(t)
	v := s.view(allow)
	v.room = 1 << 20
	for number := range s.terms {
		all, err := s.postingsOf(number)
		if err != nil {
			t.Fatal(err)
		}
		first, bits, df, err := v.postings(number, all)
		if err != nil {
			t.Fatal(err)
		}
		if first.frequency != df || bits != nil || df > all.frequency/few {
			t.Fatalf("term %d: a list of %d for %d visible of %d postings", number, first.frequency, df, all.frequency)
		}
		again, _, _, _ := v.postings(number, postings{}) // it does not look at them
		if again.frequency != df || again.blocks != first.blocks {
			t.Errorf("term %d was read again", number)
		}
	}
}

// TestKeptPostingsAreBounded: with room for few, answers stay the same, and no more are kept.
func TestKeptPostingsAreBounded(t *testing.T) {
	s, allow := selective(t)
	rng := rand.New(rand.NewPCG(4, 4))
	for _, room := range []int{0, 60, 400} {
		tight := allow.Clone()
		v := s.view(tight)
		v.room = room
		for range 200 {
			q := randomQuery(rng)
			q.Allow = allow
			want, err := s.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			q.Allow = tight
			got, err := s.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Hits) != len(want.Hits) {
				t.Fatalf("room %d: %d hits, not %d", room, len(got.Hits), len(want.Hits))
			}
			for i := range want.Hits {
				if got.Hits[i] != want.Hits[i] {
					t.Fatalf("room %d: hit %d is %+v, not %+v", room, i, got.Hits[i], want.Hits[i])
				}
			}
			bytes := 0
			for _, seen := range v.terms {
				bytes += seen.list.bytes()
			}
			if bytes > room || v.room != room-bytes {
				t.Fatalf("room %d: %d bytes are kept, %d are left", room, bytes, v.room)
			}
		}
	}
}
