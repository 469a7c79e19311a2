package main

import (
	"cmp"
	"math"
	"slices"
)

// naive is what a good programmer writes in an hour: postings as arrays in memory, an accumulator per document, one term
// after another, no pruning, the document frequencies of the visible set known beforehand. F is the type of a score.
type naive[F float32 | float64] struct {
	corpus  *corpus
	visible []bool // nil: all
	norms   []F    // k1*(1-b+b*length/average)
	weights map[uint32]F
	sums    []F
	n       float64 // visible documents
}

const (
	k1      = 0.9
	lengthB = 0.4
	top     = 10
)

type scored[F float32 | float64] struct {
	document uint32
	score    F
}

func newNaive[F float32 | float64](c *corpus, visible []bool) *naive[F] {
	s := &naive[F]{corpus: c, visible: visible, norms: make([]F, len(c.lengths)), weights: map[uint32]F{}, sums: make([]F, len(c.lengths))}
	tokens := 0.0
	for i, length := range c.lengths {
		if visible == nil || visible[i] {
			s.n++
			tokens += float64(length)
		}
	}
	for i, length := range c.lengths {
		s.norms[i] = F(k1 * (1 - lengthB + lengthB*float64(length)*s.n/tokens))
	}
	return s
}

// weight is idf*(k1+1), remembered.
func (s *naive[F]) weight(word uint32) F {
	if w, ok := s.weights[word]; ok {
		return w
	}
	df := 0.0
	for _, p := range s.corpus.postings[word] {
		if s.visible == nil || s.visible[p.document] {
			df++
		}
	}
	w := F(math.Log(1+(s.n-df+0.5)/(df+0.5)) * (k1 + 1))
	s.weights[word] = w
	return w
}

// search returns the best documents by (score descending, document ascending).
func (s *naive[F]) search(q question) []scored[F] {
	clear(s.sums)
	for _, word := range q {
		weight := s.weight(word)
		if s.visible == nil {
			for _, p := range s.corpus.postings[word] {
				tf := F(p.tf)
				s.sums[p.document] += weight * tf / (tf + s.norms[p.document])
			}
			continue
		}
		for _, p := range s.corpus.postings[word] {
			if s.visible[p.document] {
				tf := F(p.tf)
				s.sums[p.document] += weight * tf / (tf + s.norms[p.document])
			}
		}
	}
	var best []scored[F]
	least := F(0)
	for document, score := range s.sums {
		if score <= least {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, score, func(have scored[F], score F) int {
			return cmp.Or(cmp.Compare(score, have.score), -1)
		})
		if best = slices.Insert(best, at, scored[F]{uint32(document), score}); len(best) > top {
			best = best[:top]
		}
		if len(best) == top {
			least = best[top-1].score
		}
	}
	return best
}
