package chunk

import (
	"fmt"
	"strings"

	"quarry.dev/quarry/internal/parse"
)

// header is the top of a table, repeated above each later part.
type header struct {
	text string
	cost int
}

// maxRepeat times size is the most that a header or a row may cost and still be kept whole, although it makes the
// chunk larger than size; beyond it a table of n rows could grow without bound.
const maxRepeat = 16

// structure packs blocks section by section. A section is what stands below one heading; headings without any text
// below them go with the section that follows.
func (s *splitter) structure() []Chunk {
	var out []Chunk
	var units []unit
	blocks := s.doc.Blocks
	content := false
	for i := range blocks {
		if i > 0 && content && !samePath(blocks[i-1].Headings, blocks[i].Headings) {
			out = s.section(out, units)
			units, content = units[:0], false
		}
		content = content || blocks[i].Kind != parse.Heading
		units = s.blockUnits(units, i)
		if len(out) > maxChunks {
			return out
		}
	}
	return s.section(out, units)
}

// samePath compares identity: two sections with equal headings are still two sections.
func samePath(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// blockUnits appends the parts between which block i may be cut if it does not fit a chunk.
func (s *splitter) blockUnits(out []unit, i int) []unit {
	b := s.doc.Blocks[i]
	start, end := s.offsets.Byte(b.Start), len(s.text)
	if i+1 < len(s.doc.Blocks) {
		end = s.offsets.Byte(s.doc.Blocks[i+1].Start)
	}
	n := len(out)
	switch b.Kind {
	case parse.Table:
		out = s.rows(out, start, s.offsets.Byte(b.Header), end)
	case parse.Code, parse.List:
		out = s.lines(out, start, end, s.size)
	default:
		out = s.sentencesOf(out, start, end)
	}
	for k := n; k < len(out); k++ {
		out[k].block, out[k].group = i, len(out)
		out[k].solid = b.Kind == parse.Table || b.Kind == parse.Code || b.Kind == parse.Heading
	}
	return out
}

// lines appends a unit per line with the blank lines after it; a line that costs more than most is cut into words.
func (s *splitter) lines(out []unit, start, end, most int) []unit {
	for start < end {
		next := end
		if i := strings.IndexByte(s.text[start:end], '\n'); i >= 0 {
			next = start + i + 1
		}
		for next < end {
			i := strings.IndexByte(s.text[next:end], '\n')
			if i < 0 || strings.TrimSpace(s.text[next:next+i]) != "" {
				break
			}
			next += i + 1
		}
		out = s.orAtoms(out, start, next, most)
		start = next
	}
	return out
}

// rows appends a unit per row, the first with the header, the others knowing it.
func (s *splitter) rows(out []unit, start, body, end int) []unit {
	n := len(out)
	out = s.lines(out, body, end, maxRepeat*s.size)
	if body == start {
		return out
	}
	h := &header{text: strings.TrimRight(s.text[start:body], "\r\n") + "\n", cost: s.sum(start, body)}
	if len(out) == n || h.cost > maxRepeat*s.size {
		// no rows, or a header beyond all measure: it is cut like text
		out = s.atoms(out[:n], start, body)
		k := len(out)
		out = s.lines(out, body, end, maxRepeat*s.size)
		for ; k < len(out); k++ {
			out[k].repeat = &header{cost: -h.cost}
		}
		return out
	}
	for k := n + 1; k < len(out); k++ {
		out[k].repeat = h
	}
	out[n].start = start
	out[n].cost += h.cost
	return out
}

func (s *splitter) sum(start, end int) int {
	total := 0
	for _, u := range s.atoms(nil, start, end) {
		total += u.cost
	}
	return total
}

// section packs units into chunks: whole blocks while they fit, a block over size by its parts. Overlap goes back over
// sentences and list items only: rows, code and headings stand once.
func (s *splitter) section(out []Chunk, units []unit) []Chunk {
	total := make([]int, len(units)+1)
	for i, u := range units {
		total[i+1] = total[i] + u.cost
	}
	for i, seen := 0, 0; i < len(units) && len(out) <= maxChunks; {
		j := s.fill(units, total, i)
		if j <= seen {
			// the step back left no room: go on without it
			i = seen
			continue
		}
		out = s.passage(out, units[i:j], total[j]-total[i])
		seen = j
		i = s.overlapFrom(units, total, i, j)
	}
	return out
}

// fill returns the end of the chunk that begins at unit i.
func (s *splitter) fill(units []unit, total []int, i int) int {
	budget := s.size
	if r := units[i].repeat; r != nil && r.cost > 0 {
		budget -= r.cost
	}
	j := i
	for j < len(units) {
		next := units[j].group
		if total[next]-total[i] <= budget {
			j = next
			continue
		}
		kind := s.doc.Blocks[units[j].block].Kind
		inside := j == i || s.doc.Blocks[units[j-1].block].Kind == parse.Heading
		fits := total[next]-total[j] <= s.size
		if !inside && (fits || kind == parse.Code || kind == parse.Table) {
			break
		}
		for j < next && total[j+1]-total[i] <= budget {
			j++
		}
		break
	}
	return max(j, i+1)
}

// overlapFrom is where the chunk after [i, j) begins.
func (s *splitter) overlapFrom(units []unit, total []int, i, j int) int {
	if j == len(units) || units[j].repeat != nil {
		return j
	}
	from := j
	for from-1 > i && !units[from-1].solid && total[j]-total[from-1] <= s.overlap {
		from--
	}
	need := total[units[j].group] - total[j]
	if need > s.size || units[j].block == units[j-1].block {
		need = units[j].cost
	}
	if total[j]-total[from]+need > s.size {
		return j
	}
	return from
}

// passage appends the chunk of these units without the blank lines around it; nothing when it shows nothing.
func (s *splitter) passage(out []Chunk, units []unit, cost int) []Chunk {
	start, end := units[0].start, units[len(units)-1].end
	text := strings.TrimRight(s.text[start:end], " \t\r\n")
	lead := len(text) - len(strings.TrimLeft(text, "\r\n"))
	if strings.TrimSpace(text) == "" {
		return out
	}
	c := s.chunk(start+lead, start+len(text), cost)
	if len(out) > 0 && c.End <= out[len(out)-1].End {
		return out // beyond the overlap only blank space was new
	}
	if len(out) > 0 && c.Start <= out[len(out)-1].Start {
		out = out[:len(out)-1] // the step back was over blank space: this chunk holds that one
	}
	c.Headings = s.doc.Blocks[units[len(units)-1].block].Headings
	if r := units[0].repeat; r != nil {
		if r.cost > 0 {
			c.Text = r.text + c.Text
			c.Tokens += r.cost
			if !s.tokens && s.count != nil {
				c.Tokens = s.count.CountTokens(c.Text)
			}
		} else {
			c.Warning = fmt.Sprintf("the table's header costs %d, more than %d times the size %d, and is not repeated", -r.cost, maxRepeat, s.size)
		}
	}
	return append(out, c)
}
