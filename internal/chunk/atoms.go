package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"quarry.dev/quarry/internal/parse"
)

// unit is the part text[start:end] that a strategy does not cut further.
type unit struct {
	start, end, cost int
	// the rest is for Structure
	block  int
	group  int // index after the last unit of this block
	solid  bool
	repeat *header
}

const (
	// longestAtom bounds a word in code points. WordPiece makes one unknown token of a longer one, so that a run
	// without white space would never fill a chunk.
	longestAtom = 100
	// lookBack bounds the search for a better place to cut.
	lookBack = 40
)

// atoms appends the words of text[start:end], each with the white space after it, cut to fit size.
func (s *splitter) atoms(out []unit, start, end int) []unit {
	for start < end {
		next := start + word(s.text[start:end])
		out = s.fit(out, start, next)
		start = next
	}
	return out
}

// word is the length in bytes of the first word of s and the white space after it: at most longestAtom code points,
// cut where no cluster is cut, and after punctuation if there is any near.
func word(s string) int {
	n, space, better := 0, false, 0
	prev := rune(0)
	for i, r := range s {
		if n > 0 {
			if space && !unicode.IsSpace(r) || !space && ideographic(prev) && !unicode.IsSpace(r) && !joins(prev, r) {
				return i
			}
			if n >= longestAtom {
				if better > 0 {
					return better
				}
				return safeCut(s, i)
			}
		}
		space = unicode.IsSpace(r)
		if n > longestAtom-lookBack && punctuation(r) {
			better = i + utf8.RuneLen(r)
		}
		prev = r
		n++
	}
	return len(s)
}

// fit appends text[start:end], halved until each part is within size or cannot be cut.
func (s *splitter) fit(out []unit, start, end int) []unit {
	cost := s.cost(s.text[start:end])
	if cost <= s.size {
		return append(out, unit{start: start, end: end, cost: cost})
	}
	cut := 0
	if s.tokens {
		cut = middle(s.text[start:end], utf8.RuneCountInString(s.text[start:end])/2)
	} else {
		cut = middle(s.text[start:end], s.size)
	}
	if cut <= 0 || cut >= end-start {
		return append(out, unit{start: start, end: end, cost: cost})
	}
	return s.fit(s.fit(out, start, start+cut), start+cut, end)
}

// middle is the byte offset of a place to cut after at most n code points of s, or after the first cluster.
func middle(s string, n int) int {
	at := 0
	for i := range s {
		if n == 0 {
			at = i
			break
		}
		n--
	}
	if cut := safeCut(s, at); cut > 0 && cut != at || cut == at && at > 0 && !joinsAt(s, at) {
		return cut
	}
	// the first cluster is larger than n: take it whole
	prev, size := utf8.DecodeRuneInString(s)
	for size < len(s) {
		r, n := utf8.DecodeRuneInString(s[size:])
		if !joins(prev, r) {
			break
		}
		prev, size = r, size+n
	}
	return size
}

// safeCut moves the cut at byte i back to where no cluster is cut; i itself when there is no such place near.
func safeCut(s string, i int) int {
	at := i
	for range lookBack {
		if at == 0 {
			return i
		}
		if !joinsAt(s, at) {
			return at
		}
		_, n := utf8.DecodeLastRuneInString(s[:at])
		at -= n
	}
	return i
}

func joinsAt(s string, i int) bool {
	prev, _ := utf8.DecodeLastRuneInString(s[:i])
	next, _ := utf8.DecodeRuneInString(s[i:])
	return joins(prev, next)
}

// joins reports whether next belongs to the cluster of prev: marks, joiners, emoji modifiers, flags, CR LF.
func joins(prev, next rune) bool {
	const zeroWidthJoiner, saraAm, laoAm = '\u200d', '\u0e33', '\u0eb3'
	switch {
	case next < 0x300:
		return prev == '\r' && next == '\n'
	case prev == zeroWidthJoiner, next == zeroWidthJoiner, next == saraAm, next == laoAm:
		return true
	case next >= 0x1f3fb && next <= 0x1f3ff:
		return true
	case regional(prev) && regional(next):
		return true
	}
	return unicode.Is(unicode.M, next)
}

func regional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// ideographic scripts are written without spaces: a word may end after any of their characters.
func ideographic(r rune) bool {
	return r >= 0xe00 && (r <= 0xeff || r >= 0x1000 && r <= 0x109f || r >= 0x1780 && r <= 0x17ff ||
		r >= 0x3040 && r <= 0x30ff || r >= 0x3400 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x3ffff)
}

func punctuation(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// sentences are the sentences of each block with the space after them, and the lines of lists, tables and code; one
// that is over size is cut into words.
func (s *splitter) sentences() []unit {
	var out []unit
	at := s.body
	for i, b := range s.doc.Blocks {
		end := len(s.text)
		if i+1 < len(s.doc.Blocks) {
			end = s.offsets.Byte(s.doc.Blocks[i+1].Start)
		}
		if b.Kind == parse.List || b.Kind == parse.Table || b.Kind == parse.Code {
			out = s.lines(out, at, end, s.size)
		} else {
			out = s.sentencesOf(out, at, end)
		}
		at = end
	}
	return s.sentencesOf(out, at, len(s.text))
}

// longestWrap bounds in bytes how far lines without an end of sentence are taken as one that was wrapped.
const longestWrap = 1000

func (s *splitter) sentencesOf(out []unit, start, end int) []unit {
	for start < end {
		next := start
		for next < end {
			sentence, _, _ := uniseg.FirstSentenceInString(s.text[next:end], -1)
			next += len(sentence)
			if next-start > longestWrap || !wrapped(s.text[start:next]) {
				break
			}
		}
		next = end - len(strings.TrimLeftFunc(s.text[next:end], unicode.IsSpace))
		out = s.orAtoms(out, start, next, s.size)
		start = next
	}
	return out
}

// wrapped reports whether a sentence ends only because its line does.
func wrapped(sentence string) bool {
	body := strings.TrimRight(sentence, " \t\r\n")
	if len(body) == len(sentence) {
		return false
	}
	if strings.Count(sentence[len(body):], "\n") != 1 || body == "" {
		return body == ""
	}
	last, _ := utf8.DecodeLastRuneInString(body)
	return !strings.ContainsRune(".!?…。！？।॥؟", last)
}

// orAtoms appends text[start:end] as one unit, or its words when it costs more than most.
func (s *splitter) orAtoms(out []unit, start, end, most int) []unit {
	n := len(out)
	out = s.atoms(out, start, end)
	sum := 0
	for _, u := range out[n:] {
		sum += u.cost
	}
	if sum <= most && len(out) > n {
		out = append(out[:n], unit{start: start, end: end, cost: sum})
	}
	return out
}
