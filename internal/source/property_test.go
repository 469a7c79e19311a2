package source

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
)

func randomListing(r *rand.Rand) (out []Entry) {
	lists := []access.Allow{access.Nobody(), hr, eng}
	for i := range 40 {
		if r.Intn(3) == 0 {
			continue
		}
		e := Entry{Key: fmt.Sprintf("k%02d", i), ETag: fmt.Sprint(r.Intn(2)), Size: int64(r.Intn(2)), Allow: lists[r.Intn(3)]}
		if r.Intn(2) == 0 {
			e.Sidecar = &lists[1]
		}
		out = append(out, e)
	}
	return out
}

func byKey(entries []Entry) map[string]Entry {
	m := map[string]Entry{}
	for _, e := range entries {
		m[e.Key] = e
	}
	return m
}

func TestDiffProperty(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 2000 {
		old, now := randomListing(r), randomListing(r)
		c := Diff(old, now)
		o, n := byKey(old), byKey(now)
		if len(c.Added)+len(c.Modified)+c.Unchanged != len(now) || len(c.Deleted)+len(c.Modified)+c.Unchanged != len(old) {
			t.Fatalf("the parts do not add up: %+v", c)
		}
		for _, k := range c.Deleted {
			if _, ok := n[k]; ok {
				t.Fatalf("%s is listed", k)
			}
		}
		for _, k := range c.Modified {
			if o[k].ETag == n[k].ETag && o[k].Size == n[k].Size {
				t.Fatalf("%s is equal", k)
			}
		}
	}
}

func TestGuardProperty(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 4000 {
		old, now := randomListing(r), randomListing(r)
		if r.Intn(10) == 0 {
			now = nil
		}
		spec := GuardSpec{MaxPercent: int32(r.Intn(101)), MaxDocuments: int32(r.Intn(40))}
		g := Guard(old, now, spec, start)
		gone := len(Diff(old, g.Entries).Deleted)
		if gone > max(10, min(len(old)*int(spec.MaxPercent)/100, int(spec.MaxDocuments))) || (len(old) > 0 && len(g.Entries) == 0) {
			t.Fatalf("%d of %d documents were let go under %+v", gone, len(old), spec)
		}
		have := byKey(g.Entries)
		for _, e := range now {
			if have[e.Key].ETag != e.ETag {
				t.Fatalf("addition or change of %s was not applied", e.Key)
			}
		}
		if g.Tripped {
			for _, e := range old {
				if kept, ok := have[e.Key]; !ok || (e.Sidecar != nil && kept.Sidecar == nil) {
					t.Fatalf("a tripped guard let %s go", e.Key)
				}
			}
		}
		for i := 1; i < len(g.Entries); i++ {
			if g.Entries[i-1].Key >= g.Entries[i].Key {
				t.Fatal("entries are not sorted")
			}
		}
	}
}

// Whatever a live index was built of, what it lets through under the overlay is what the present listing lets through.
func TestOverlayProperty(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	who := []access.Identity{{User: "ann", Groups: []string{"hr"}}, {User: "bob", Groups: []string{"eng"}}, {User: "eve"}, {}}
	for range 1000 {
		now, live := randomListing(r), [][]Entry{randomListing(r), randomListing(r)}
		o := BuildOverlay(now, live, 1)
		present := byKey(now)
		for _, l := range live {
			for _, built := range l {
				for _, id := range who {
					e, ok := present[built.Key]
					want := ok && e.Allow.Permits(id)
					if got := o.Permits(built.Key, built.Allow, id); got != want {
						t.Fatalf("%s for %+v: got %v, want %v", built.Key, id, got, want)
					}
				}
			}
		}
	}
}

// TestListingsThatRepeatUnpack: a listing in which every document has the same long list of readers is read, though it packs
// so well that it is padded; one that unpacks to more than its size allows is refused.
func TestListingsThatRepeatUnpack(t *testing.T) {
	var list access.Allow
	for i := range access.MaxAllow {
		list = append(list, access.Principal{Type: access.Group, Name: fmt.Sprintf("group-%04d", i)})
	}
	var entries []Entry
	for i := range 300 {
		entries = append(entries, Entry{Key: fmt.Sprintf("d%03d.md", i), ETag: "e", Allow: list})
	}
	b := artifact.NewMemory()
	digest, err := WriteSnapshot(t.Context(), b, entries)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSnapshot(t.Context(), b, digest)
	if err != nil || !reflect.DeepEqual(got.Entries, entries) {
		t.Fatalf("%d entries, %v", len(got.Entries), err)
	}
	key, _ := artifact.SnapshotKey(digest)
	file, _, _ := b.Get(t.Context(), key)
	padded := bytes.Index(file, []byte{0x50, 0x2a, 0x4d, 0x18})
	if padded < 0 {
		t.Fatal("it is not padded")
	}
	if _, err := b.Put(t.Context(), key, file[:padded], artifact.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(t.Context(), b, digest); err == nil || !strings.Contains(err.Error(), "unpack to more") {
		t.Errorf("without its padding: %v", err)
	}
}
