package parse

import (
	"sort"
	"unicode/utf8"
)

const stride = 512

// Offsets converts between byte offsets and code point offsets of one valid UTF-8 text, each in bounded time.
type Offsets struct {
	text   string
	before []int // code points that start before byte i*stride; nil when the text is ASCII
}

// NewOffsets reads the text once.
func NewOffsets(text string) Offsets {
	o := Offsets{text: text}
	n, ascii := 0, true
	before := make([]int, 0, len(text)/stride+1)
	for i := 0; i < len(text); i++ {
		if i%stride == 0 {
			before = append(before, n)
		}
		if utf8.RuneStart(text[i]) {
			n++
		}
		ascii = ascii && text[i] < utf8.RuneSelf
	}
	if !ascii {
		o.before = before
	}
	return o
}

// CodePoint is the number of code points that start before byte b, 0 <= b <= len(text).
func (o Offsets) CodePoint(b int) int {
	if o.before == nil || len(o.before) == 0 {
		return b
	}
	i := min(b/stride, len(o.before)-1)
	n := o.before[i]
	for _, c := range []byte(o.text[i*stride : b]) {
		if utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

// Byte is the byte where code point c starts, or len(text) when there are no more than c code points.
func (o Offsets) Byte(c int) int {
	if o.before == nil {
		return min(c, len(o.text))
	}
	i := max(0, sort.SearchInts(o.before, c+1)-1)
	n, b := o.before[i], i*stride
	for ; b < len(o.text); b++ {
		if utf8.RuneStart(o.text[b]) {
			if n == c {
				break
			}
			n++
		}
	}
	return b
}
