package bm25

import (
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	lru "github.com/hashicorp/golang-lru/v2"
)

// view is a visible set, spread into bits, with what BM25 takes from it. It costs an eighth of a byte per chunk, and what is
// visible of a term's postings is found once.
type view struct {
	segment *Segment
	bits    []uint64 // a bit per chunk; nil when every chunk may be seen
	chunks  uint64   // that may be seen
	tokens  uint64   // in them

	mu    sync.Mutex
	terms map[uint32]visible
	room  int // bytes that are left for lists; those of all views together are no more than the file's
	// saturation with the parameters that were asked for last
	saturation atomic.Pointer[saturation]
}

// visible is what an asker may see of a term's postings.
type visible struct {
	frequency uint32
	// list holds them alone; it is empty where they are too many to be worth a list of their own.
	list postings
}

const (
	// keptViews bounds how many principal sets are remembered, and keptTerms the terms of each.
	keptViews = 64
	keptTerms = 1 << 16
	// few: when at most one of so many postings is visible, reading those alone saves more than keeping them costs.
	few = 4
)

// views remembers those of the allow sets that came last, by identity: an allow set must not change once it was used.
type views = lru.Cache[*roaring.Bitmap, *view]

func newViews() *views {
	cache, err := lru.New[*roaring.Bitmap, *view](keptViews)
	if err != nil { // only for a size below 1
		panic(err)
	}
	return cache
}

func (s *Segment) view(allow *roaring.Bitmap) *view {
	if allow == nil {
		return newView(s, roaring.New())
	}
	if v, ok := s.views.Get(allow); ok {
		return v
	}
	v := newView(s, allow)
	if first, ok, _ := s.views.PeekOrAdd(allow, v); ok {
		return first
	}
	return v
}

// newView drops numbers beyond the segment.
func newView(s *Segment, allow *roaring.Bitmap) *view {
	v := &view{segment: s, terms: map[uint32]visible{}, room: len(s.postings) / keptViews}
	if s.chunks > 0 && allow.Rank(s.chunks-1) == uint64(s.chunks) {
		v.chunks, v.tokens = uint64(s.chunks), s.total
		return v
	}
	v.bits = make([]uint64, (uint64(s.chunks)+63)/64)
	for it := allow.Iterator(); it.HasNext(); {
		chunk := it.Next()
		if chunk >= s.chunks {
			break
		}
		v.bits[chunk/64] |= 1 << (chunk % 64)
		v.chunks++
		v.tokens += uint64(s.length(chunk))
	}
	return v
}

func (v *view) contains(chunk uint32) bool {
	return v.bits == nil || v.bits[chunk/64]>>(chunk%64)&1 != 0
}

// any says whether a chunk from first to last, both included, may be seen.
func (v *view) any(first, last uint32) bool {
	if v.bits == nil {
		return true
	}
	low, high := ^uint64(0)<<(first%64), ^uint64(0)>>(63-last%64)
	i, j := first/64, last/64
	if i == j {
		return v.bits[i]&low&high != 0
	}
	if v.bits[i]&low != 0 || v.bits[j]&high != 0 {
		return true
	}
	for _, word := range v.bits[i+1 : j] {
		if word != 0 {
			return true
		}
	}
	return false
}

// saturationOf takes the average from a visible set that this view is the whole or a part of.
func (v *view) saturationOf(k1, b float64, chunks, tokens uint64) *saturation {
	if s := v.saturation.Load(); s != nil && s.k1 == k1 && s.b == b && s.chunks == chunks && s.tokens == tokens {
		return s
	}
	s := newSaturation(k1, b, chunks, tokens)
	v.saturation.Store(s)
	return s
}

// postings that may be seen of a term, whose own are all, and how many they are. With hidden ones among them, bits tells which
// are which; else it is nil.
func (v *view) postings(term uint32, all postings) (l postings, bits []uint64, frequency uint32, err error) {
	if v.bits == nil {
		return all, nil, all.frequency, nil
	}
	v.mu.Lock()
	seen, ok := v.terms[term]
	v.mu.Unlock()
	if !ok {
		if seen, err = v.read(all); err != nil {
			return all, nil, 0, err
		}
		v.keep(term, seen)
	}
	switch seen.frequency {
	case seen.list.frequency:
		return seen.list, nil, seen.frequency, nil
	case all.frequency:
		return all, nil, seen.frequency, nil
	}
	return all, v.bits, seen.frequency, nil
}

// keep remembers what is visible of a term, the list as long as there is room: nothing makes room for what is asked later, or
// who asks of more than fits would read all postings every time.
func (v *view) keep(term uint32, seen visible) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.terms) >= keptTerms {
		clear(v.terms)
		v.room = len(v.segment.postings) / keptViews
	}
	if _, ok := v.terms[term]; ok { // of another search at the same time
		return
	}
	if bytes := seen.list.bytes(); bytes <= v.room {
		v.room -= bytes
	} else {
		seen.list = postings{}
	}
	v.terms[term] = seen
}

// bytes that a list of its own takes.
func (l *postings) bytes() int { return len(l.heads) + len(l.data) }

// read goes through the blocks that may hold a visible chunk.
func (v *view) read(all postings) (seen visible, err error) {
	c := newCursor(all)
	var list []posting
	next := uint32(0)
	for block := range all.blocks {
		last := all.last(block)
		if last < next || last >= all.limit {
			return seen, kind.Corrupt("the blocks of a term do not ascend")
		}
		if v.any(next, last) {
			if err := c.load(block); err != nil {
				return seen, err
			}
			for i, chunk := range c.chunks[:c.n] {
				if v.bits[chunk/64]>>(chunk%64)&1 == 0 {
					continue
				}
				if seen.frequency++; seen.frequency <= all.frequency/few {
					list = append(list, posting{chunk, c.tf(i)})
				}
			}
		}
		next = last + 1
	}
	if len(list) == int(seen.frequency) {
		seen.list = v.pack(list)
	}
	return seen, nil
}

// pack makes a list in the form that a segment has.
func (v *view) pack(list []posting) postings {
	heads, data := appendPostings(nil, nil, list, v.segment.length)
	return postings{frequency: uint32(len(list)), blocks: len(heads) / headSize, limit: v.segment.chunks, heads: heads, data: append(data, make([]byte, padding)...)}
}
