package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeading is the length in code points to which a title or heading is cut where it is repeated as metadata: every
// chunk carries its path, so an endless heading would multiply. The text itself keeps the whole of it.
const maxHeading = 300

// outline follows the headings of a document.
type outline struct {
	levels []int
	path   []string
}

// enter opens a heading of that level, closing all that are not above it. The former path stays valid for blocks that share it.
func (o *outline) enter(level int, heading string) {
	n := len(o.levels)
	for n > 0 && o.levels[n-1] >= level {
		n--
	}
	o.levels = append(o.levels[:n:n], level)
	o.path = append(o.path[:n:n], clip(heading))
}

// clip collapses white space, drops control characters and cuts s to maxHeading code points.
func clip(s string) string {
	if len(s) > 16*maxHeading {
		s = strings.ToValidUTF8(s[:16*maxHeading], "")
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= maxHeading {
		return s
	}
	return string([]rune(s)[:maxHeading-1]) + "…"
}

// finish turns the byte offsets of a document into code points.
func finish(d Document) Document {
	o := NewOffsets(d.Text)
	d.Body = o.CodePoint(d.Body)
	for i := range d.Blocks {
		b := &d.Blocks[i]
		if b.Header < b.Start {
			b.Header = b.Start
		}
		b.Start, b.End, b.Header = o.CodePoint(b.Start), o.CodePoint(b.End), o.CodePoint(b.Header)
	}
	return d
}
