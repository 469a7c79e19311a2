// Package hostile makes texts that tokenizers stumble over. Text number n is the same on every machine and in every release of
// Go: it draws from ranges written down here, not from Unicode tables. Both sides of a comparison with another tokenizer
// make the same texts by it (see hack/models).
package hostile

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

const (
	// Count is how many texts a comparison takes.
	Count = 100_000
	// Block is how many texts share a digest.
	Block = 1000

	seed = 20261130
	// perSweep code points are in each of the first texts, which together hold every code point there is
	perSweep = 64
	sweeps   = utf8.MaxRune/perSweep + 1
)

// Text returns text n, n >= 0. It is valid UTF-8, and may be empty. The first 17,408 show each code point once between letters
// and once alone; the others are random, each of a kind, and of several kinds joined.
func Text(n int) string {
	if n < sweeps {
		return sweep(rune(n * perSweep))
	}
	w := &writer{Rand: rand.New(rand.NewPCG(seed, uint64(n)))}
	if n%4 != 0 {
		kinds[n%len(kinds)](w)
		return w.String()
	}
	for range 2 + w.IntN(4) {
		kinds[w.IntN(len(kinds))](w)
		w.WriteString(w.oneOf("", " ", "\n", "-", ". "))
	}
	return w.String()
}

func sweep(first rune) string {
	var b strings.Builder
	for r := first; r < first+perSweep; r++ {
		if utf8.ValidRune(r) {
			b.WriteString("a" + string(r) + "b " + string(r) + " ")
		}
	}
	return b.String()
}

// writer builds one text from its own stream of random numbers.
type writer struct {
	*rand.Rand
	strings.Builder
}

// span is a range of code points, both ends included.
type span struct{ first, last rune }

func (w *writer) oneOf(choices ...string) string { return choices[w.IntN(len(choices))] }

// from writes one code point of one of the spans.
func (w *writer) from(spans []span) {
	s := spans[w.IntN(len(spans))]
	r := s.first + w.Int32N(s.last-s.first+1)
	if !utf8.ValidRune(r) {
		r = 'x'
	}
	w.WriteRune(r)
}

// some writes n code points of the spans with a space after each with the given chance in 100.
func (w *writer) some(n, spaces int, spans []span) {
	for range n {
		w.from(spans)
		if w.IntN(100) < spaces {
			w.WriteByte(' ')
		}
	}
}

func (w *writer) word(least, most int) {
	for range least + w.IntN(most-least+1) {
		w.WriteString(syllables[w.IntN(len(syllables))])
	}
}
