package embed

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is BERT's longest word in code points; a longer one is unknown.
const maxWord = 100

// tokenizer is BERT's uncased WordPiece. Unlike the library, "[SEP]" within a text is text: a document cannot write
// special tokens. It keeps its buffers between texts, so one serves one goroutine.
type tokenizer struct {
	vocab     *vocabulary
	ids       []int32
	low       []byte // the word in work, in lower case
	raw, flat []byte // a run with other than ASCII letters, on its way
}

// class of an ASCII byte
const (
	letter byte = iota
	space
	punct
	other // control characters, which vanish within words, and all beyond ASCII
)

var (
	classes [256]byte
	lower   [256]byte
	// latin holds the lower case base letter of each accented Latin letter, so that these need no decomposition
	latin [0x250]rune
)

func init() {
	for i := range classes {
		c := byte(i)
		lower[i] = c
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			classes[i] = space
		case c < ' ' || c >= 0x7f:
			classes[i] = other
		case asciiPunct(rune(c)):
			classes[i] = punct
		case 'A' <= c && c <= 'Z':
			lower[i] = c + 'a' - 'A'
		}
	}
	for i := range latin {
		r, _ := utf8.DecodeRuneInString(norm.NFD.String(string(rune(i))))
		latin[i] = unicode.ToLower(r)
	}
}

// tokens returns the pieces of text; the slice is valid until the next call.
func (t *tokenizer) tokens(text string) []int32 {
	t.ids = t.ids[:0]
	for i := 0; i < len(text); {
		switch classes[text[i]] {
		case space:
			i++
		case punct:
			i = t.mark(text, i)
		default:
			i = t.run(text, i)
		}
	}
	return t.ids
}

// mark appends the punctuation at i, which is a word of its own, and returns what follows.
func (t *tokenizer) mark(text string, i int) int {
	t.low = append(t.low[:0], text[i])
	t.ids = t.vocab.word(t.ids, t.low)
	return i + 1
}

// run appends the word at i and returns what follows it. It takes ASCII letters as they come; a word with anything else is
// taken up to the next ASCII space or mark, and normalised.
func (t *tokenizer) run(text string, i int) int {
	t.low = t.low[:0]
	j := i
	for ; j < len(text); j++ {
		c := text[j]
		if k := classes[c]; k != letter {
			if k == other {
				return t.wide(text, i, j)
			}
			break
		}
		t.low = append(t.low, lower[c])
	}
	if len(t.low) > maxWord {
		t.ids = append(t.ids, t.vocab.unknown)
	} else {
		t.ids = t.vocab.word(t.ids, t.low)
	}
	return j
}

// wide is run for a word that has other than ASCII letters from j on.
func (t *tokenizer) wide(text string, i, j int) int {
	for j < len(text) && (classes[text[j]] == letter || classes[text[j]] == other) {
		j++
	}
	t.normalize(text[i:j])
	from := 0
	for k, n := 0, 0; k < len(t.flat); k += n {
		var r rune
		r, n = utf8.DecodeRune(t.flat[k:])
		white := unicode.IsSpace(r)
		if !white && !isPunct(r) {
			continue
		}
		t.flatWord(from, k)
		from = k + n
		if !white {
			t.flatWord(k, from)
		}
	}
	t.flatWord(from, len(t.flat))
	return j
}

func (t *tokenizer) flatWord(from, to int) {
	w := t.flat[from:to]
	switch {
	case len(w) == 0:
	case len(w) > maxWord && utf8.RuneCount(w) > maxWord:
		t.ids = append(t.ids, t.vocab.unknown)
	default:
		t.ids = t.vocab.word(t.ids, w)
	}
}

// normalize fills t.flat: control characters dropped, CJK characters set apart, accents stripped, lower case.
func (t *tokenizer) normalize(s string) {
	if t.latinOnly(s) {
		return
	}
	t.raw = t.raw[:0]
	for _, r := range s {
		switch {
		case r < 0x20 || r == 0x7f || r == utf8.RuneError:
		case r < 0x80 || r >= 0xc0 && r < 0x300:
			t.raw = utf8.AppendRune(t.raw, r)
		case isCJK(r):
			t.raw = append(utf8.AppendRune(append(t.raw, ' '), r), ' ')
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs):
		case unicode.IsSpace(r):
			t.raw = append(t.raw, ' ')
		default:
			t.raw = utf8.AppendRune(t.raw, r)
		}
	}
	decomposed := norm.NFD.Append(t.flat[:0], t.raw...)
	// what follows writes no more than it has read, except where a lower case is longer: so into the other buffer
	t.raw = t.raw[:0]
	for k, n := 0, 0; k < len(decomposed); k += n {
		var r rune
		r, n = utf8.DecodeRune(decomposed[k:])
		if r < 0x300 || !unicode.Is(unicode.Mn, r) {
			t.raw = utf8.AppendRune(t.raw, unicode.ToLower(r))
		}
	}
	t.raw, t.flat = decomposed, t.raw
}

// latinOnly fills t.flat and reports true if s holds only ASCII and Latin letters.
func (t *tokenizer) latinOnly(s string) bool {
	t.flat = t.flat[:0]
	for _, r := range s {
		switch {
		case r >= rune(len(latin)) || r >= 0x80 && r < 0xc0:
			return false
		case r >= 0x20 && r != 0x7f:
			t.flat = utf8.AppendRune(t.flat, latin[r])
		}
	}
	return true
}

func asciiPunct(r rune) bool {
	return r >= '!' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r < 0x7f
}

func isPunct(r rune) bool {
	if r < utf8.RuneSelf {
		return asciiPunct(r)
	}
	return unicode.Is(unicode.P, r)
}

func isCJK(r rune) bool {
	return r >= 0x3400 && (r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff ||
		r >= 0x20000 && r <= 0x2a6df || r >= 0x2a700 && r <= 0x2b73f || r >= 0x2b740 && r <= 0x2b81f ||
		r >= 0x2b820 && r <= 0x2ceaf || r >= 0x2f800 && r <= 0x2fa1f)
}
