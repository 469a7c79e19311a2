package embed

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// reference is WordPiece as plainly as it can be written, to check the fast one against.
type reference struct {
	start, next map[string]int32
	unknown     int32
}

func newReference(vocab string) *reference {
	t := &reference{start: map[string]int32{}, next: map[string]int32{}}
	for i, s := range strings.Split(strings.TrimSuffix(vocab, "\n"), "\n") {
		if c, ok := strings.CutPrefix(s, "##"); ok && c != "" {
			t.next[c] = int32(i)
		} else {
			t.start[s] = int32(i)
		}
	}
	t.unknown = t.start["[UNK]"]
	return t
}

func (t *reference) tokens(text string) []int32 {
	var spaced strings.Builder
	for _, r := range text {
		switch plainClass(r) {
		case control:
		case blank:
			spaced.WriteByte(' ')
		case ideograph:
			spaced.WriteString(" " + string(r) + " ")
		default:
			spaced.WriteRune(r)
		}
	}
	var split strings.Builder
	for _, r := range norm.NFD.String(spaced.String()) {
		switch plainClass(r) {
		case mark:
		case punct:
			split.WriteString(" " + string(r) + " ")
		default:
			split.WriteRune(unicode.ToLower(r))
		}
	}
	var ids []int32
	for _, w := range strings.Fields(split.String()) {
		ids = append(ids, t.word(w)...)
	}
	return ids
}

func plainClass(r rune) byte {
	for _, c := range codepoints {
		if c.first <= r && r <= c.last {
			return c.class
		}
	}
	return letter
}

func (t *reference) word(w string) []int32 {
	if utf8.RuneCountInString(w) > maxWord {
		return []int32{t.unknown}
	}
	var ids []int32
	for dict := t.start; w != ""; dict = t.next {
		end := len(w)
		for ; end > 0; end-- {
			if id, ok := dict[w[:end]]; ok {
				ids = append(ids, id)
				break
			}
		}
		if end == 0 {
			return []int32{t.unknown}
		}
		w = w[end:]
	}
	return ids
}
