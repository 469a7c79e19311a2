package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"quarry.dev/quarry/internal/bm25"
)

// The corpus is drawn from a seed, the same on every machine:
//
//   - words: vocabulary ranks by a Zipf-Mandelbrot law of exponent 1: the density of rank r is proportional to
//     1/(r+shift), which is what is left of a language when its stop words are gone (the first word stands in a quarter
//     of the documents);
//   - burstiness: with the chance repeat a token is one of those that the document holds already (Simon 1955), so that a
//     word that came once comes again more often than chance;
//   - lengths: log-normal around typical tokens, from shortest to longest;
//   - a smaller corpus is the first documents of a larger one.
const (
	seed       = 20_26
	vocabulary = 300_000
	shift      = 25
	repeat     = 0.3
	typical    = 90
	spread     = 0.5
	shortest   = 8
	longest    = 1000
)

// band is a range of document frequencies, as shares of the documents.
type band struct {
	name     string
	low, top float64
}

// bands of the words that questions are made of, in turn.
var bands = []band{{"common", 0.05, 0.2}, {"medium", 0.005, 0.05}, {"rare", 0.0002, 0.005}}

// corpus is what both engines and the naive scan are built from.
type corpus struct {
	lengths  []uint32
	tokens   uint64
	postings [][]posting // by word
}

type posting struct{ document, tf uint32 }

// word of a rank: letters and digits that no analyzer changes.
func word(rank uint32) string { return "w" + strconv.FormatUint(uint64(rank), 36) }

// generate yields the words of each document, whose memory it uses again.
func generate(documents int, yield func(words []uint32)) {
	rng := rand.New(rand.NewPCG(seed, 1))
	span := math.Log(float64(vocabulary+shift) / shift)
	var words []uint32
	for range documents {
		length := int(typical * math.Exp(spread*rng.NormFloat64()))
		words = words[:0]
		for range min(max(length, shortest), longest) {
			if len(words) > 0 && rng.Float64() < repeat {
				words = append(words, words[rng.IntN(len(words))])
				continue
			}
			rank := uint32(shift*math.Exp(rng.Float64()*span) - shift)
			words = append(words, min(rank, vocabulary-1))
		}
		yield(words)
	}
}

// newCorpus holds the postings of the first documents in memory.
func newCorpus(documents int) *corpus {
	c := &corpus{postings: make([][]posting, vocabulary)}
	generate(documents, func(words []uint32) {
		document := uint32(len(c.lengths))
		for _, w := range words {
			list := c.postings[w]
			if n := len(list); n > 0 && list[n-1].document == document {
				list[n-1].tf++
				continue
			}
			c.postings[w] = append(list, posting{document, 1})
		}
		c.lengths = append(c.lengths, uint32(len(words)))
		c.tokens += uint64(len(words))
	})
	return c
}

// segment is the file of the first documents.
func segment(documents int) ([]byte, error) {
	analyzer, err := bm25.NewAnalyzer("standard")
	if err != nil {
		return nil, err
	}
	names := make([]string, vocabulary)
	for i := range names {
		names[i] = word(uint32(i))
	}
	b := bm25.NewBuilder(analyzer)
	var terms []string
	generate(documents, func(words []uint32) {
		terms = terms[:0]
		for _, w := range words {
			terms = append(terms, names[w])
		}
		b.AddTerms(terms)
	})
	return b.Bytes(), nil
}

// question is its words by rank.
type question []uint32

func (q question) String() string {
	words := make([]string, len(q))
	for i, w := range q {
		words[i] = word(w)
	}
	return strings.Join(words, " ")
}

// questions draws n of some terms each. Their words come from the bands in turn, so that two words are in two bands, and
// eight in every band at least twice; the frequencies are those of c.
func questions(c *corpus, n, terms int) []question {
	rng := rand.New(rand.NewPCG(seed, uint64(terms)))
	byBand := make([][]uint32, len(bands))
	for w, list := range c.postings {
		share := float64(len(list)) / float64(len(c.lengths))
		for i, b := range bands {
			if share >= b.low && share < b.top {
				byBand[i] = append(byBand[i], uint32(w))
			}
		}
	}
	out := make([]question, n)
	for i := range out {
		for len(out[i]) < terms {
			of := byBand[(i+len(out[i]))%len(bands)]
			if w := of[rng.IntN(len(of))]; !slices.Contains(out[i], w) {
				out[i] = append(out[i], w)
			}
		}
	}
	return out
}

// allowed draws a share of the documents; a smaller share is part of a larger one.
func allowed(documents int, share float64) []bool {
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([]bool, documents)
	for i := range out {
		out[i] = rng.Float64() < share
	}
	return out
}
