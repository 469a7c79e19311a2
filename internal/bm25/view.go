package bm25

import (
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	lru "github.com/hashicorp/golang-lru/v2"
)

// view is a visible set, spread into bits, with what BM25 takes from it. It costs an eighth of a byte per chunk.
type view struct {
	segment *Segment
	number  uint64   // no other view of the segment has it
	bits    []uint64 // a bit per chunk; nil when every chunk may be seen
	chunks  uint64   // that may be seen
	tokens  uint64   // in them

	mu          sync.Mutex
	numbers     map[string]uint32 // of terms that were asked for
	frequencies map[uint32]uint32 // in how many visible chunks a term stands, if it has more than shortList blocks
	shares      map[uint32]shares // of terms that have more than fewBlocks blocks in this view
	// saturation with the parameters that were asked for last
	saturation atomic.Pointer[saturation]
}

const (
	// keptViews bounds how many principal sets are remembered, and the others what it knows of terms.
	keptViews   = 64
	keptTerms   = 1 << 14
	keptNumbers = 1 << 12
	keptShares  = 1 << 10
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
	v := &view{segment: s, number: s.viewsMade.Add(1), numbers: map[string]uint32{}, shares: map[uint32]shares{}, frequencies: map[uint32]uint32{}}
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
