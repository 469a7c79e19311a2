package segment

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"quarry.dev/quarry/internal/access"
)

// Numbers number the living chunks of an index by (document, position), as if all of them lay in one segment: whoever
// breaks a tie by number breaks it the same way however the index is cut. The dead have no number, so nobody can name one.
// Within a segment both numbers ascend together. It is safe for concurrent use.
type Numbers struct {
	total    uint32
	segments int
	// whole says that a single segment lives as it is: its numbers are those of the index.
	whole bool
	// runs are stretches that ascend by one in both numberings, in the order of the index.
	runs []run
	// own are, by segment, the positions of its runs.
	own    [][]int
	locals *locals
}

// run is chunks first to first+chunks-1 of the index, which are local to local+chunks-1 of a segment.
type run struct {
	first, local, chunks uint32
	segment              int
}

// Merge makes the table of an index of the tables of its segments; dead holds, per segment, the ranks of documents that are
// gone (nil: none). A document that lives in two segments, or a table that is not in the order of its chunks, is an error.
func Merge(tables []*access.Table, dead []*roaring.Bitmap) (*access.Table, *Numbers, error) {
	if len(tables) == 0 || len(dead) != len(tables) {
		return nil, nil, fmt.Errorf("segments: %d tables and %d sets of the dead: give one of each for at least one segment", len(tables), len(dead))
	}
	n := &Numbers{segments: len(tables), own: make([][]int, len(tables)), locals: newLocals()}
	if len(tables) == 1 && isEmpty(dead[0]) {
		n.whole, n.total = true, tables[0].Chunks()
		return tables[0], n, nil
	}
	living, err := living(tables, dead)
	if err != nil {
		return nil, nil, err
	}
	docs := make([]access.Doc, len(living))
	for i, d := range living {
		docs[i] = d.Doc
		docs[i].FirstChunk = n.total
		if uint64(n.total)+uint64(d.Chunks) > 1<<32-1 {
			return nil, nil, errors.New("segments: their chunks need more than 32 bits: split the corpus")
		}
		n.add(d)
	}
	table, err := access.NewTable(docs)
	return table, n, err
}

func isEmpty(set *roaring.Bitmap) bool { return set == nil || set.IsEmpty() }

type livingDoc struct {
	access.Doc
	segment int
}

// living are the documents of all segments that are not dead, in key order.
func living(tables []*access.Table, dead []*roaring.Bitmap) (out []livingDoc, err error) {
	for s, table := range tables {
		end := uint32(0)
		for i := range table.Len() {
			d := table.Doc(i)
			if d.FirstChunk < end {
				return nil, fmt.Errorf("segments[%d]: chunks are not in the order of documents at %q: build the index again", s, d.Key)
			}
			end = d.FirstChunk + d.Chunks
			if dead[s] == nil || !dead[s].Contains(uint32(i)) {
				out = append(out, livingDoc{d, s})
			}
		}
		if dead[s] != nil && !dead[s].IsEmpty() && int64(dead[s].Maximum()) >= int64(table.Len()) {
			return nil, fmt.Errorf("segments[%d]: document %d is marked dead, there are %d: build the index again", s, dead[s].Maximum(), table.Len())
		}
	}
	slices.SortStableFunc(out, func(a, b livingDoc) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// add gives the next numbers to the chunks of a document.
func (n *Numbers) add(d livingDoc) {
	if d.Chunks == 0 {
		return
	}
	first := n.total
	n.total += d.Chunks
	if last := len(n.runs) - 1; last >= 0 {
		r := &n.runs[last]
		if r.segment == d.segment && r.local+r.chunks == d.FirstChunk {
			r.chunks += d.Chunks
			return
		}
	}
	n.own[d.segment] = append(n.own[d.segment], len(n.runs))
	n.runs = append(n.runs, run{first: first, local: d.FirstChunk, chunks: d.Chunks, segment: d.segment})
}

// Len is the number of living chunks, visible or not: never tell a user.
func (n *Numbers) Len() uint32 { return n.total }

// Segments is their number.
func (n *Numbers) Segments() int { return n.segments }

// Place is where a chunk of the index lies; not ok for a number that none has.
func (n *Numbers) Place(chunk uint32) (segment int, local uint32, ok bool) {
	if n.whole || chunk >= n.total {
		return 0, chunk, chunk < n.total
	}
	i := sort.Search(len(n.runs), func(i int) bool { return n.runs[i].first > chunk }) - 1
	r := n.runs[i]
	return r.segment, r.local + chunk - r.first, true
}

// Number is the number of a living chunk of a segment; not ok for a dead one.
func (n *Numbers) Number(segment int, local uint32) (chunk uint32, ok bool) {
	if n.whole {
		return local, local < n.total
	}
	own := n.own[segment]
	i := sort.Search(len(own), func(i int) bool { return n.runs[own[i]].local > local }) - 1
	if i < 0 {
		return 0, false
	}
	r := n.runs[own[i]]
	return r.first + local - r.local, local-r.local < r.chunks
}

// Locals part an allow set by segment; the dead are in none of the parts. A set that was passed must not change, and the
// parts must not either: they are kept with it, for as long as it is among those that came last.
func (n *Numbers) Locals(allow *roaring.Bitmap) []*roaring.Bitmap {
	if n.whole || allow == nil {
		out := make([]*roaring.Bitmap, n.segments)
		out[0] = allow
		return out
	}
	if parts, ok := n.locals.Get(allow); ok {
		return parts
	}
	parts := n.split(allow)
	if first, ok, _ := n.locals.PeekOrAdd(allow, parts); ok {
		return first // the parts are known by identity too
	}
	return parts
}

func (n *Numbers) split(allow *roaring.Bitmap) []*roaring.Bitmap {
	parts := make([]*roaring.Bitmap, n.segments)
	for i := range parts {
		parts[i] = roaring.New()
	}
	it := allow.Iterator()
	for _, r := range n.runs {
		part, end := parts[r.segment], uint64(r.first)+uint64(r.chunks)
		if allow.CardinalityInRange(uint64(r.first), end) == uint64(r.chunks) {
			part.AddRange(uint64(r.local), uint64(r.local)+uint64(r.chunks))
			continue
		}
		for it.AdvanceIfNeeded(r.first); it.HasNext() && uint64(it.PeekNext()) < end; {
			part.Add(r.local + it.Next() - r.first)
		}
	}
	for _, part := range parts {
		part.RunOptimize()
	}
	return parts
}

// keptLocals bounds how many allow sets are remembered; the lexical index remembers as many.
const keptLocals = 64

// locals remembers the parts of those allow sets that came last, by identity.
type locals = lru.Cache[*roaring.Bitmap, []*roaring.Bitmap]

func newLocals() *locals {
	cache, err := lru.New[*roaring.Bitmap, []*roaring.Bitmap](keptLocals)
	if err != nil { // only for a size below 1
		panic(err)
	}
	return cache
}

// Passages are the living chunks of an index, by its numbers.
type Passages struct {
	numbers *Numbers
	parts   []*Chunks
}

// NewPassages takes the files of all segments, in the order in which they were merged.
func NewPassages(n *Numbers, parts []*Chunks) *Passages { return &Passages{n, parts} }

// Len is the number of chunks.
func (p *Passages) Len() uint32 { return p.numbers.Len() }

// At returns chunk i; a number that the index does not hold gives the zero Chunk, which names no document.
func (p *Passages) At(i uint32) Chunk {
	segment, local, ok := p.numbers.Place(i)
	if !ok {
		return Chunk{}
	}
	return p.parts[segment].At(local)
}
