package access

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Doc is one document of a segment: its readers and its chunks FirstChunk .. FirstChunk+Chunks-1.
type Doc struct {
	Key        string
	Allow      Allow
	FirstChunk uint32
	Chunks     uint32
}

// Table holds the documents of one segment and who may read them. It is safe for concurrent use.
type Table struct {
	docs  []tableDoc
	lists []Allow // interned
	total uint64  // one above the highest chunk number
	cache *allowCache
}

type tableDoc struct {
	key           string
	list          uint32
	first, chunks uint32
}

// NewTable sorts docs by key and refuses repeated keys, overlapping chunk ranges and invalid principals.
func NewTable(docs []Doc) (*Table, error) {
	t := &Table{docs: make([]tableDoc, 0, len(docs)), cache: newAllowCache(defaultCacheEntries, defaultCacheBytes)}
	sorted := slices.Clone(docs)
	slices.SortFunc(sorted, func(a, b Doc) int { return strings.Compare(a.Key, b.Key) })
	interned := map[string]uint32{}
	for i, d := range sorted {
		if d.Key == "" {
			return nil, errors.New("access table: a document has an empty key")
		}
		if i > 0 && sorted[i-1].Key == d.Key {
			return nil, fmt.Errorf("access table: document %q is listed twice", d.Key)
		}
		allow, err := NewAllow(d.Allow...)
		if err != nil {
			return nil, fmt.Errorf("access table: document %q: %w", d.Key, err)
		}
		name := principalsKey(allow)
		list, ok := interned[name]
		if !ok {
			list = uint32(len(t.lists))
			interned[name] = list
			t.lists = append(t.lists, allow)
		}
		t.docs = append(t.docs, tableDoc{key: d.Key, list: list, first: d.FirstChunk, chunks: d.Chunks})
	}
	return t, t.checkRanges()
}

func (t *Table) checkRanges() error {
	byFirst := slices.Clone(t.docs)
	slices.SortFunc(byFirst, func(a, b tableDoc) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.chunks, b.chunks))
	})
	for _, d := range byFirst {
		if d.chunks == 0 {
			continue
		}
		if uint64(d.first) < t.total {
			return fmt.Errorf("access table: the chunks of %q overlap those of another document", d.key)
		}
		t.total = uint64(d.first) + uint64(d.chunks)
		if t.total > math.MaxUint32 {
			return fmt.Errorf("access table: chunk numbers of %q pass 32 bits: use more segments", d.key)
		}
	}
	return nil
}

// Len returns the number of documents.
func (t *Table) Len() int { return len(t.docs) }

// Chunks returns one above the highest chunk number.
func (t *Table) Chunks() uint32 { return uint32(t.total) }

// Doc returns the document of rank i in key order.
func (t *Table) Doc(i int) Doc {
	d := t.docs[i]
	return Doc{Key: d.key, Allow: t.lists[d.list], FirstChunk: d.first, Chunks: d.chunks}
}

// Find returns the document of that key.
func (t *Table) Find(key string) (Doc, bool) {
	i, ok := t.rank(key)
	if !ok {
		return Doc{}, false
	}
	return t.Doc(i), true
}

func (t *Table) rank(key string) (int, bool) {
	return slices.BinarySearchFunc(t.docs, key, func(d tableDoc, k string) int { return strings.Compare(d.key, k) })
}

// Permits tells whether id may read document key now. Unknown documents are not readable.
func (t *Table) Permits(key string, id Identity, o *Overlay) bool {
	d, ok := t.Find(key)
	return ok && o.Permits(key, d.Allow, id)
}

// AllowSet returns the chunks that id may read under o (nil: no overlay). The bitmap is shared between callers and
// must not be changed; it is cached per (principals, epoch), so one epoch must always mean one overlay.
func (t *Table) AllowSet(id Identity, o *Overlay) *roaring.Bitmap {
	principals := id.Principals()
	if len(principals) == 0 {
		return roaring.New()
	}
	key := allowKey{principals: principalsKey(principals), epoch: o.epoch()}
	if set := t.cache.get(key); set != nil {
		return set
	}
	set := t.allowSet(id, o)
	t.cache.put(key, set)
	return set
}

func (t *Table) allowSet(id Identity, o *Overlay) *roaring.Bitmap {
	permitted := make([]bool, len(t.lists))
	for i, l := range t.lists {
		permitted[i] = l.Permits(id)
	}
	overridden := map[int]bool{}
	if o != nil {
		for key, e := range o.Entries {
			if i, ok := t.rank(key); ok {
				overridden[i] = !e.Gone && e.Allow.Permits(id)
			}
		}
	}
	set := roaring.New()
	for i, d := range t.docs {
		allowed := permitted[d.list]
		if now, ok := overridden[i]; ok {
			allowed = now
		}
		if allowed && d.chunks > 0 {
			set.AddRange(uint64(d.first), uint64(d.first)+uint64(d.chunks))
		}
	}
	set.RunOptimize()
	return set
}

// principalsKey writes principals so that no two different lists read alike: lengths come before names.
func principalsKey(principals []Principal) string {
	var b strings.Builder
	for _, p := range principals {
		fmt.Fprintf(&b, "%s %d:%s", p.Type, len(p.Name), p.Name)
	}
	return b.String()
}
