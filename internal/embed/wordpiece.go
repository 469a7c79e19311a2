package embed

import (
	"sort"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is BERT's longest word in code points; a longer one is unknown.
const maxWord = 100

// tokenizer is BERT's uncased WordPiece, identical to the tokenizers library, except that "[SEP]" within a text is text: a
// document cannot write special tokens. It keeps its buffers between texts, so one serves one goroutine.
type tokenizer struct {
	vocab     *vocabulary
	ids       []int32
	low       []byte // the word in work, in lower case
	raw, flat []byte // a run with other than ASCII letters, on its way
}

// classes of code points
const (
	letter    byte = iota // and everything else that has no other class
	control               // vanishes, before accents are looked at
	blank                 // white space
	mark                  // an accent, which vanishes after canonical decomposition
	punct                 // a word of its own
	ideograph             // likewise, though it is a letter
)

var (
	// classes of all code points up to the Hangul letters; what follows is mostly ideographs and syllables, in few ranges
	classes [0x3100]byte
	// ascii is the class of a byte; control also for all beyond ASCII, as both need a second look
	ascii [256]byte
	lower [256]byte
	// latin holds the lower case base letter of each accented Latin letter, so that these need no decomposition
	latin [0x250]rune
)

func init() {
	for _, c := range codepoints {
		for r := c.first; r <= c.last && int(r) < len(classes); r++ {
			classes[r] = c.class
		}
	}
	for i := range ascii {
		ascii[i], lower[i] = control, byte(i)
		if i < utf8.RuneSelf {
			ascii[i] = classes[i]
		}
		if 'A' <= i && i <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	for i := range latin {
		r, _ := utf8.DecodeRuneInString(norm.NFD.String(string(rune(i))))
		latin[i] = unicode.ToLower(r)
	}
}

func classOf(r rune) byte {
	if int(r) < len(classes) {
		return classes[r]
	}
	i := sort.Search(len(codepoints), func(i int) bool { return codepoints[i].last >= r })
	if i < len(codepoints) && codepoints[i].first <= r {
		return codepoints[i].class
	}
	return letter
}

// tokens returns the pieces of text; the slice is valid until the next call.
func (t *tokenizer) tokens(text string) []int32 { return t.first(text, len(text)) }

// first returns the first n pieces of text, and reads little more of it.
func (t *tokenizer) first(text string, n int) []int32 {
	t.ids = t.ids[:0]
	for i := 0; i < len(text) && len(t.ids) < n; {
		switch ascii[text[i]] {
		case blank:
			i++
		case punct:
			t.low = append(t.low[:0], text[i])
			t.ids = t.vocab.word(t.ids, t.low)
			i++
		default:
			i = t.run(text, i)
		}
	}
	return t.ids[:min(n, len(t.ids))]
}

// run appends the word at i and returns what follows it. It takes ASCII letters as they come; a word with anything else is
// taken up to the next ASCII space or mark, and normalised.
func (t *tokenizer) run(text string, i int) int {
	t.low = t.low[:0]
	j := i
	for ; j < len(text); j++ {
		c := text[j]
		if k := ascii[c]; k != letter {
			if k == control {
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
	for j < len(text) && (ascii[text[j]] == letter || ascii[text[j]] == control) {
		j++
	}
	t.normalize(text[i:j])
	from := 0
	for k, n := 0, 0; k < len(t.flat); k += n {
		var r rune
		r, n = utf8.DecodeRune(t.flat[k:])
		class := classOf(r)
		if class != blank && class != punct {
			continue
		}
		t.flatWord(from, k)
		from = k + n
		if class == punct {
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
	for _, r := range s { // bytes that are not UTF-8 read as U+FFFD, a control
		switch classOf(r) {
		case control:
		case blank:
			t.raw = append(t.raw, ' ')
		case ideograph:
			t.raw = append(utf8.AppendRune(append(t.raw, ' '), r), ' ')
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
		if classOf(r) != mark {
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
