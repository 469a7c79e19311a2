package bm25

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// Query asks for the best K chunks among those that Allow holds. A nil Allow allows nothing; one that was used must not
// change. Text is plain text, whatever characters it holds. K1 is from 0 to 100, B from 0 to 1.
type Query struct {
	Text  string
	Allow *roaring.Bitmap
	K     int
	K1, B float64
	// Terms are those of Text where somebody has asked for them already; nil: they are taken from it.
	Terms *Terms
	// Floor is a score that hits must reach; where it is known early, a search is shorter.
	Floor float64
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
// names the parameter that is out of range, or wraps frame.ErrCorrupt.
func (s *Segment) Search(q Query) (Result, error) { return s.SearchWith(nil, q) }

// SearchWith is Search with the statistics of a visible set that this segment is a part of; nil: its own.
func (s *Segment) SearchWith(over *Statistics, q Query) (Result, error) {
	if q.K < 1 {
		return Result{}, fmt.Errorf("k = %d: ask for at least 1 hit", q.K)
	}
	p, err := s.plan(over, q)
	if err != nil {
		return Result{}, err
	}
	scan := scans.Get().(*scan)
	scan.top.k, scan.top.floor, scan.view, scan.terms = q.K, below(q.Floor), p.view, p.terms
	if err := scan.collect(s.chunks); err != nil {
		return Result{}, err // and what it left in its sums is not used again
	}
	hits := scan.top.hits()
	scan.view, scan.terms = nil, nil
	scans.Put(scan)
	p.release()
	return Result{Hits: hits, Bound: fromFixed(p.bound)}, nil
}

var (
	scans = sync.Pool{New: func() any { return new(scan) }}
	terms = sync.Pool{New: func() any { return new(term) }}
)

// Score returns what Search would give to each of these chunks, in their order: 0 for one that is not allowed, does not
// exist or holds no term of the query. K is not looked at.
func (s *Segment) Score(q Query, chunks []uint32) ([]float64, error) {
	return s.ScoreWith(nil, q, chunks)
}

// ScoreWith is Score with the statistics of a visible set that this segment is a part of; nil: its own.
func (s *Segment) ScoreWith(over *Statistics, q Query, chunks []uint32) ([]float64, error) {
	p, err := s.plan(over, q)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(chunks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(chunks[a], chunks[b]) })
	scores := make([]float64, len(chunks))
	for _, i := range order {
		chunk := chunks[i]
		if chunk >= s.chunks || !p.view.contains(chunk) {
			continue
		}
		sum := int64(0)
		for _, t := range p.terms {
			if t.ahead = t.seek(t.ahead, chunk); t.ahead == t.blocks {
				continue
			}
			gain, err := t.at(t.ahead, chunk)
			if err != nil {
				return nil, err
			}
			sum += gain
		}
		scores[i] = fromFixed(sum)
	}
	p.release()
	return scores, nil
}

// Scores are sums of fixed-point numbers with 32 bits below the point, because integers add up to the same in any order:
// how a segment is cut, which term is looked at first, and what is skipped, leave no trace in the last bit.
const (
	fixed = 1 << 32
	// maxBound keeps every sum far below the largest int64.
	maxBound = 1 << 28
)

func fromFixed(v int64) float64 { return float64(v) / fixed }

// plan is a query with the statistics of its visible set.
type plan struct {
	segment *Segment
	view    *view
	// terms that a visible chunk holds, each once.
	terms []*term
	bound int64
}

// term of a query.
type term struct {
	cursor
	bits       []uint64 // of the visible chunks; nil: all of its postings are
	segment    *Segment
	weight     float64 // count*idf*(k1+1) in fixed point
	saturation *saturation
	shares     []float64 // by window, the highest of its blocks; nil: not kept
	// around the chunk that is looked at
	ahead    int // block
	boundOf  int // block whose bound is known; -1: none
	bound    int64
	inWindow int64 // bound of the window
}

// plan is written so that NaN is refused as well.
func (s *Segment) plan(over *Statistics, q Query) (*plan, error) {
	if !(q.K1 >= 0 && q.K1 <= 100) {
		return nil, fmt.Errorf("bm25.k1 = %v: it must be from 0 to 100", q.K1)
	}
	if !(q.B >= 0 && q.B <= 1) {
		return nil, fmt.Errorf("bm25.b = %v: it must be from 0 to 1", q.B)
	}
	p := &plan{segment: s, view: s.view(q.Allow)}
	words, chunks, tokens := s.termsOf(q), p.view.chunks, p.view.tokens
	if over != nil {
		if len(over.Frequencies) != len(words) {
			return nil, fmt.Errorf("statistics of %d terms, the question has %d: take them of the same question", len(over.Frequencies), len(words))
		}
		chunks, tokens = over.Chunks, over.Tokens
	}
	saturation := p.view.saturationOf(q.K1, q.B, chunks, tokens)
	for i, word := range words {
		l, bits, df, err := s.lookUp(word.text, p.view)
		if err != nil {
			return nil, err
		}
		n, f := float64(chunks), float64(df)
		if over != nil {
			f = float64(over.Frequencies[i])
		}
		weight := word.count * math.Log(1+(n-f+0.5)/(f+0.5)) * (q.K1 + 1)
		p.bound += toFixed(weight * fixed)
		if p.bound > maxBound*fixed {
			return nil, fmt.Errorf("the question has too many words, %d distinct ones", len(words))
		}
		if df > 0 {
			t := terms.Get().(*term)
			t.cursor.postings, t.block, t.bits = l, -1, bits
			t.segment, t.weight, t.saturation = s, weight*fixed, saturation
			t.ahead, t.boundOf, t.shares = 0, -1, p.view.sharesOf(l, saturation)
			p.terms = append(p.terms, t)
		}
	}
	return p, nil
}

// release gives the memory of the terms back, without what it refers to.
func (p *plan) release() {
	for _, t := range p.terms {
		t.cursor.postings, t.packed, t.bits, t.segment, t.saturation, t.shares = postings{}, nil, nil, nil, nil, nil
		terms.Put(t)
	}
	p.terms = nil
}

// lookUp finds the visible postings of a word, see visiblePostings.
func (s *Segment) lookUp(word string, v *view) (l postings, bits []uint64, df uint32, err error) {
	number, ok, err := v.find(word)
	if err != nil || !ok {
		return l, nil, 0, err
	}
	if l, err = s.postingsOf(number); err != nil {
		return l, nil, 0, err
	}
	return v.visiblePostings(number, l)
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

// toFixed rounds. The conversion forbids a fused multiply-add, which would round differently on other processors.
func toFixed(v float64) int64 { return int64(float64(v) + 0.5) }

// gain of a posting of a chunk of that length, from 1 to the weight.
func (t *term) gain(tf, length uint32) int64 {
	return t.worth(t.saturation.of(tf, length))
}

// at is the gain of a chunk that stands in that block if it stands in any.
func (t *term) at(block int, chunk uint32) (int64, error) {
	if err := t.load(block); err != nil {
		return 0, err
	}
	i := t.before(chunk)
	if t.chunks[i] != chunk {
		return 0, nil
	}
	return t.gain(t.tf(i), t.segment.length(chunk)), nil
}
