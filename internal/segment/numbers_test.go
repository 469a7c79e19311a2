package segment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/segment/frame"
)

func table(t *testing.T, docs ...access.Doc) *access.Table {
	t.Helper()
	made, err := access.NewTable(docs)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestNumbersAreThoseOfOneSegment compares with a plain list of all that lives, sorted by document and position.
func TestNumbersAreThoseOfOneSegment(t *testing.T) {
	type place struct {
		key     string
		segment int
		local   uint32
	}
	split := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		lives := map[string]int{}
		segments := 1 + rng.IntN(4)
		for d := range 30 {
			if s := rng.IntN(segments + 1); s < segments {
				lives[fmt.Sprintf("d%02d", d)] = s
			}
		}
		var tables []*access.Table
		var dead []*roaring.Bitmap
		var want []place
		for s := range segments {
			var docs []access.Doc
			gone, next := roaring.New(), uint32(0)
			for d := range 30 {
				key, chunks := fmt.Sprintf("d%02d", d), uint32(rng.IntN(4))
				own, living := lives[key]
				if (!living || own != s) && rng.IntN(2) == 0 {
					continue
				}
				if !living || own != s {
					gone.Add(uint32(len(docs)))
				} else {
					for i := range chunks {
						want = append(want, place{key, s, next + i})
					}
				}
				docs = append(docs, access.Doc{Key: key, Allow: access.Allow{{Type: access.Everyone}}, FirstChunk: next, Chunks: chunks})
				next += chunks
			}
			tables, dead = append(tables, table(t, docs...)), append(dead, gone)
		}
		slices.SortStableFunc(want, func(a, b place) int { return strings.Compare(a.key, b.key) })
		merged, n, err := Merge(tables, dead)
		if err != nil {
			t.Fatal(err)
		}
		if n.Len() != uint32(len(want)) || merged.Chunks() != n.Len() || merged.Len() != len(lives) {
			t.Fatalf("seed %d: %d chunks of %d documents, not %d of %d", seed, n.Len(), merged.Len(), len(want), len(lives))
		}
		allow := roaring.New()
		for i, w := range want {
			s, local, ok := n.Place(uint32(i))
			back, lives := n.Number(w.segment, w.local)
			if !ok || s != w.segment || local != w.local || !lives || back != uint32(i) {
				t.Fatalf("seed %d: chunk %d lies at %d %d, not %+v; which is %d", seed, i, s, local, w, back)
			}
			if rng.IntN(3) > 0 {
				allow.Add(uint32(i))
			}
		}
		if _, _, ok := n.Place(n.Len()); ok {
			t.Fatal("a chunk behind the last has a place")
		}
		allow.Add(n.Len() + 5) // of no chunk
		parts := n.Locals(allow)
		if again := n.Locals(allow); again[0] != parts[0] {
			t.Fatal("the parts of the same set are made anew: whoever remembers by identity forgets")
		}
		if n.whole {
			continue
		}
		split++
		total := uint64(0)
		for s, part := range parts {
			total += part.GetCardinality()
			for it := part.Iterator(); it.HasNext(); {
				local := it.Next()
				if chunk, ok := n.Number(s, local); !ok || !allow.Contains(chunk) {
					t.Fatalf("seed %d: chunk %d of segment %d is allowed", seed, local, s)
				}
			}
		}
		if total != allow.GetCardinality()-1 {
			t.Fatalf("seed %d: %d chunks are allowed, not %d", seed, total, allow.GetCardinality()-1)
		}
	}
	if split < 100 {
		t.Errorf("only %d indexes had several segments or dead", split)
	}
}

func TestTheDeadHaveNoNumber(t *testing.T) {
	docs := table(t, access.Doc{Key: "a", Chunks: 2}, access.Doc{Key: "b", FirstChunk: 2, Chunks: 3}, access.Doc{Key: "c", FirstChunk: 5, Chunks: 1})
	_, n, err := Merge([]*access.Table{docs}, []*roaring.Bitmap{roaring.BitmapOf(1)})
	if err != nil {
		t.Fatal(err)
	}
	for local, want := range []int{0, 1, -1, -1, -1, 2, -1} {
		if chunk, ok := n.Number(0, uint32(local)); ok != (want >= 0) || ok && chunk != uint32(want) {
			t.Errorf("chunk %d has number %d, %v", local, chunk, ok)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	a, b := table(t, access.Doc{Key: "a", Chunks: 1}), table(t, access.Doc{Key: "a", Chunks: 1}, access.Doc{Key: "b", FirstChunk: 1, Chunks: 1})
	swapped := table(t, access.Doc{Key: "c", FirstChunk: 1, Chunks: 1}, access.Doc{Key: "d", Chunks: 1})
	for want, c := range map[string]struct {
		tables []*access.Table
		dead   []*roaring.Bitmap
	}{
		"listed twice":       {[]*access.Table{a, b}, []*roaring.Bitmap{nil, nil}},
		"order of documents": {[]*access.Table{a, swapped}, []*roaring.Bitmap{nil, nil}},
		"document 7":         {[]*access.Table{a, b}, []*roaring.Bitmap{nil, roaring.BitmapOf(0, 7)}},
		"0 tables":           {nil, nil},
		"1 tables":           {[]*access.Table{a}, nil},
	} {
		if _, _, err := Merge(c.tables, c.dead); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestLocalsAreBounded(t *testing.T) {
	docs := table(t, access.Doc{Key: "a", Chunks: 2}, access.Doc{Key: "b", FirstChunk: 2, Chunks: 3})
	_, n, err := Merge([]*access.Table{docs}, []*roaring.Bitmap{roaring.BitmapOf(0)})
	if err != nil {
		t.Fatal(err)
	}
	first := roaring.BitmapOf(0)
	parts := n.Locals(first)
	for range keptLocals - 1 {
		n.Locals(roaring.BitmapOf(1))
		if n.Locals(first)[0] != parts[0] {
			t.Fatal("a set that is used is forgotten")
		}
	}
	for range 3 * keptLocals {
		n.Locals(roaring.BitmapOf(1))
	}
	if n.locals.Len() != keptLocals || n.Locals(first)[0] == parts[0] {
		t.Errorf("%d sets are kept", n.locals.Len())
	}
}

func TestTombstones(t *testing.T) {
	for _, ranks := range [][]uint32{{}, {0}, {6}, {0, 1, 2, 3, 4, 5, 6}, {2, 5}} {
		set := roaring.BitmapOf(ranks...)
		got, err := DecodeTombstones(EncodeTombstones(set), 7)
		if err != nil || !got.Equals(set) {
			t.Errorf("%v: %v %v", ranks, got, err)
		}
	}
	if _, err := DecodeTombstones(EncodeTombstones(roaring.BitmapOf(7)), 7); !errors.Is(err, frame.ErrCorrupt) {
		t.Errorf("a rank beyond the documents: %v", err)
	}
}

// FuzzDecodeTombstones gives the body, so that the checksum is no wall: what is accepted is what Encode writes of it.
func FuzzDecodeTombstones(f *testing.F) {
	f.Add([]byte{2, 1, 0}, 7)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, 1000)
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 3)
	f.Fuzz(func(t *testing.T, body []byte, documents int) {
		documents = max(documents, 0)
		dead, err := DecodeTombstones(tombstonesKind.Seal(body), documents)
		if err != nil {
			return
		}
		if !dead.IsEmpty() && int64(dead.Maximum()) >= int64(documents) {
			t.Fatalf("%d of %d documents", dead.Maximum(), documents)
		}
		if again, err := DecodeTombstones(EncodeTombstones(dead), documents); err != nil || !again.Equals(dead) {
			t.Fatal(err)
		}
	})
}
