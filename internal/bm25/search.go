package bm25

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Query asks for the best K chunks among those that Allow holds. A nil Allow allows nothing. Text is plain text, whatever
// characters it holds. K1 is from 0 to 100, B from 0 to 1.
type Query struct {
	Text  string
	Allow *roaring.Bitmap
	K     int
	K1, B float64
}

// Hit is a chunk that holds a term of the query; Score is above 0.
type Hit struct {
	Chunk uint32
	Score float64
}

// Result holds hits by (score descending, chunk ascending). No number in it depends on a chunk that Allow does not hold.
// Bound is the score that no chunk can pass: the sum of idf*(k1+1) over all terms of the query, those that no visible
// chunk holds included.
type Result struct {
	Hits  []Hit
	Bound float64
}

// Search returns the best chunks. A text without terms (blank, stop words only) has no hits and a bound of 0. The error
// names the parameter that is out of range.
func (s *Segment) Search(q Query) (Result, error) {
	if q.K < 1 {
		return Result{}, fmt.Errorf("k = %d: ask for at least 1 hit", q.K)
	}
	if err := q.checkParameters(); err != nil {
		return Result{}, err
	}
	sc := s.scratch.Get().(*scratch)
	defer s.release(sc)
	bound := s.accumulate(sc, q)
	return Result{Hits: sc.best(q.K), Bound: bound}, nil
}

// checkParameters is written so that NaN is refused as well.
func (q Query) checkParameters() error {
	if !(q.K1 >= 0 && q.K1 <= 100) {
		return fmt.Errorf("bm25.k1 = %v: it must be from 0 to 100", q.K1)
	}
	if !(q.B >= 0 && q.B <= 1) {
		return fmt.Errorf("bm25.b = %v: it must be from 0 to 1", q.B)
	}
	return nil
}

// Score returns what Search would give to each of these chunks, in their order: 0 for one that is not allowed, does not
// exist or holds no term of the query. K is not looked at; parameters that Search refuses give only zeros.
func (s *Segment) Score(q Query, chunks []uint32) []float64 {
	scores := make([]float64, len(chunks))
	if q.checkParameters() != nil {
		return scores
	}
	sc := s.scratch.Get().(*scratch)
	defer s.release(sc)
	s.accumulate(sc, q)
	for i, chunk := range chunks {
		if chunk < s.chunks {
			scores[i] = sc.scores[chunk]
		}
	}
	return scores
}

// accumulate adds up the scores of all visible chunks, term after term in the order of the query, so that the last bit of
// a score is the same however the segment is cut, and returns the bound.
func (s *Segment) accumulate(sc *scratch, q Query) (bound float64) {
	visible := s.setVisible(sc, q.Allow)
	average := 0.0
	if visible.chunks > 0 {
		average = float64(visible.tokens) / float64(visible.chunks)
	}
	for _, term := range s.queryTerms(q.Text) {
		postings, frequency := s.find(term.text)
		sc.list = s.visiblePostings(sc, postings, frequency)
		n, df := float64(visible.chunks), float64(len(sc.list))
		weight := term.count * math.Log(1+(n-df+0.5)/(df+0.5)) * (q.K1 + 1)
		bound += weight
		for _, p := range sc.list {
			tf, length := float64(p.tf), float64(s.length(p.chunk))
			if sc.scores[p.chunk] == 0 {
				sc.touched = append(sc.touched, p.chunk)
			}
			// The quotient is at most 1 in floating point too, so no sum passes the bound.
			sc.scores[p.chunk] += weight * (tf / (tf + q.K1*(1-q.B+q.B*length/average)))
		}
	}
	return bound
}

type queryTerm struct {
	text  string
	count float64
}

// queryTerms returns the distinct terms in the order of their first appearance.
func (s *Segment) queryTerms(text string) []queryTerm {
	var terms []queryTerm
	at := map[string]int{}
	for _, text := range s.analyzer.Terms(text) {
		i, ok := at[text]
		if !ok {
			i, at[text] = len(terms), len(terms)
			terms = append(terms, queryTerm{text: text})
		}
		terms[i].count++
	}
	return terms
}

// visibleStats are counts over the chunks that may be seen.
type visibleStats struct{ chunks, tokens uint64 }

// setVisible spreads the allow set into a flat bit set. Numbers beyond the segment are dropped.
func (s *Segment) setVisible(sc *scratch, allow *roaring.Bitmap) (v visibleStats) {
	if allow == nil {
		return v
	}
	for it := allow.Iterator(); it.HasNext(); {
		chunk := it.Next()
		if chunk >= s.chunks {
			break
		}
		sc.visible[chunk/64] |= 1 << (chunk % 64)
		v.chunks++
		v.tokens += uint64(s.length(chunk))
	}
	return v
}

// visiblePostings decodes the postings of one term and keeps those that may be seen; a block without any is stepped over.
func (s *Segment) visiblePostings(sc *scratch, b []byte, frequency uint32) []posting {
	list, last := sc.list[:0], int64(-1)
	for left := frequency; left > 0; left -= min(left, blockSize) {
		var head [4]uint64
		for i := range head {
			v, n := binary.Uvarint(b)
			head[i], b = v, b[n:]
		}
		block := b[:head[3]]
		b = b[head[3]:]
		end := last + int64(head[0])
		if sc.anyVisible(uint32(last+1), uint32(end)) {
			chunk := last
			for range min(left, blockSize) {
				delta, n := binary.Uvarint(block)
				tf, m := binary.Uvarint(block[n:])
				block = block[n+m:]
				chunk += int64(delta)
				if sc.visible[chunk/64]>>(chunk%64)&1 != 0 {
					list = append(list, posting{uint32(chunk), uint32(tf)})
				}
			}
		}
		last = end
	}
	return list
}

// scratch is the memory of one search: scores and visible are all zero between searches.
type scratch struct {
	scores  []float64 // per chunk
	visible []uint64  // a bit per chunk
	touched []uint32  // chunks with a score
	list    []posting
}

func newScratch(chunks uint32) *scratch {
	return &scratch{scores: make([]float64, chunks), visible: make([]uint64, (uint64(chunks)+63)/64)}
}

func (s *Segment) release(sc *scratch) {
	for _, chunk := range sc.touched {
		sc.scores[chunk] = 0
	}
	sc.touched = sc.touched[:0]
	clear(sc.visible)
	s.scratch.Put(sc)
}

// anyVisible says whether a chunk from first to last, both included, may be seen.
func (sc *scratch) anyVisible(first, last uint32) bool {
	low, high := ^uint64(0)<<(first%64), ^uint64(0)>>(63-last%64)
	i, j := first/64, last/64
	if i == j {
		return sc.visible[i]&low&high != 0
	}
	if sc.visible[i]&low != 0 || sc.visible[j]&high != 0 {
		return true
	}
	for _, word := range sc.visible[i+1 : j] {
		if word != 0 {
			return true
		}
	}
	return false
}

// best returns the k best of the touched chunks, by a heap whose root is the worst of the best.
func (sc *scratch) best(k int) []Hit {
	var heap []Hit
	for _, chunk := range sc.touched {
		hit := Hit{chunk, sc.scores[chunk]}
		if len(heap) < k {
			heap = append(heap, hit)
			siftUp(heap)
		} else if compareHits(hit, heap[0]) < 0 {
			heap[0] = hit
			siftDown(heap)
		}
	}
	slices.SortFunc(heap, compareHits)
	return heap
}

// compareHits orders by score descending, then chunk ascending.
func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Chunk, b.Chunk))
}

func siftUp(heap []Hit) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if compareHits(heap[i], heap[parent]) <= 0 {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

func siftDown(heap []Hit) {
	for i := 0; ; {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if compareHits(heap[child], heap[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}
