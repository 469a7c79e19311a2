package eval

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// minRun is the fewest quoted words that a passage must hold, or all of a shorter quote: with fewer, half of a short quote is a
// stop word, and any passage would match.
const minRun = 3

// words splits text for matching: letters and digits in compatibility form (ligatures of a PDF, full-width letters), without
// case; everything else separates. A character of a script without spaces is a word of its own.
func words(text string) []string {
	var out []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for _, r := range strings.ToLower(norm.NFKC.String(text)) {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
			flush()
			out = append(out, string(r))
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			word.WriteRune(r)
		default:
			flush()
		}
	}
	flush()
	return out
}

// quoted tells whether text holds the quote: all of it, or, because a chunk may end in the middle of it, at least half of its
// words as one contiguous run.
func quoted(text, quote string) bool {
	wanted := words(quote)
	if len(wanted) == 0 {
		return false
	}
	return longestRun(words(text), wanted) >= max((len(wanted)+1)/2, min(minRun, len(wanted)))
}

// longestRun is the length of the longest run of words that both lists share.
func longestRun(text, wanted []string) int {
	longest := 0
	// previous[j] is the length of the run that ends at the previous word of text and at word j-1 of wanted.
	previous, current := make([]int, len(wanted)+1), make([]int, len(wanted)+1)
	for _, word := range text {
		for j, w := range wanted {
			current[j+1] = 0
			if w == word {
				current[j+1] = previous[j] + 1
				longest = max(longest, current[j+1])
			}
		}
		previous, current = current, previous
	}
	return longest
}

// satisfies tells whether a hit is the evidence.
func (e Evidence) satisfies(h Hit) bool {
	return e.Document == h.Document && (e.Quote == "" || quoted(h.Text, e.Quote))
}
