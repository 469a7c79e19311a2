package parse

import "strings"

// markdown scans blocks line by line. It follows CommonMark where the block structure matters to an index (fences,
// both kinds of headings, indented code, tables of GFM, lists, raw HTML) and takes all else as paragraphs. Offsets are
// bytes of text until finish.
type markdown struct {
	text    string
	outline outline
	blocks  []Block
}

func parseMarkdown(text string) Document {
	body, title := frontMatter(text)
	m := &markdown{text: text}
	for at := body; at < len(text); {
		at = m.block(at)
	}
	return finish(Document{Title: clip(title), Text: text, Body: body, Blocks: m.blocks})
}

// block reads the block whose first line is at `at` and returns the offset of the line after it.
func (m *markdown) block(at int) int {
	next := lineEnd(m.text, at)
	line := m.text[at:next]
	if blankLine(line) {
		return next
	}
	if level, heading := atxHeading(line); level > 0 {
		m.heading(at, contentEnd(m.text, at, next), level, heading)
		return next
	}
	if f, ok := openFence(line, 3); ok {
		return m.add(Code, at, f.skip(m.text, next))
	}
	if thematicBreak(line) {
		return m.add(Paragraph, at, next)
	}
	if closing := rawHTML(line); closing != "" {
		return m.add(Paragraph, at, skipRaw(m.text, at, closing))
	}
	if m.tableAt(at, next) {
		return m.table(at, next)
	}
	if indent(line) >= 4 {
		return m.add(Code, at, m.indentedCode(next))
	}
	if listMarker(line) {
		return m.add(List, at, m.list(next))
	}
	return m.paragraph(at, next)
}

// add appends text[start:end] without its trailing blank space, and returns end.
func (m *markdown) add(k Kind, start, end int) int {
	m.blocks = append(m.blocks, Block{Start: start, End: contentEnd(m.text, start, end), Kind: k, Headings: m.outline.path})
	return end
}

func (m *markdown) heading(start, end, level int, heading string) {
	m.outline.enter(level, plainHeading(heading))
	m.blocks = append(m.blocks, Block{Start: start, End: end, Kind: Heading, Level: level, Headings: m.outline.path})
}

// paragraph reads to a blank line or to a block that may interrupt it; an underline makes it a heading.
func (m *markdown) paragraph(start, at int) int {
	for at < len(m.text) {
		next := lineEnd(m.text, at)
		line := m.text[at:next]
		if level := underline(line); level > 0 {
			m.heading(start, contentEnd(m.text, at, next), level, m.text[start:at])
			return next
		}
		if blankLine(line) || m.interrupts(line) || m.tableAt(at, next) {
			break
		}
		at = next
	}
	return m.add(Paragraph, start, at)
}

// interrupts reports whether line ends a paragraph before it.
func (m *markdown) interrupts(line string) bool {
	if level, _ := atxHeading(line); level > 0 {
		return true
	}
	if _, ok := openFence(line, 3); ok {
		return true
	}
	return rawHTML(line) != "" || thematicBreak(line) || (indent(line) < 4 && bullet(line))
}

// tableAt reports whether the line text[at:next] is the header of a table: a row before a row of dashes.
func (m *markdown) tableAt(at, next int) bool {
	if next >= len(m.text) || !strings.Contains(m.text[at:next], "|") || indent(m.text[at:next]) >= 4 {
		return false
	}
	return tableRule(m.text[next:lineEnd(m.text, next)])
}

// table reads header, rule and rows.
func (m *markdown) table(start, rule int) int {
	header := lineEnd(m.text, rule)
	at := header
	for at < len(m.text) {
		next := lineEnd(m.text, at)
		line := m.text[at:next]
		if blankLine(line) || (m.interrupts(line) && !strings.HasPrefix(strings.TrimSpace(line), "|")) {
			break
		}
		at = next
	}
	m.add(Table, start, at)
	last := &m.blocks[len(m.blocks)-1]
	last.Header = min(header, last.End)
	return at
}

// indentedCode reads on while lines are indented by four, blank lines between them included.
func (m *markdown) indentedCode(at int) int {
	end := at
	for at < len(m.text) {
		next := lineEnd(m.text, at)
		line := m.text[at:next]
		if !blankLine(line) && indent(line) < 4 {
			break
		}
		if !blankLine(line) {
			end = next
		}
		at = next
	}
	return end
}

// list reads items and what is indented below them, fences included; a blank line ends it unless more of it follows.
func (m *markdown) list(at int) int {
	end, gap := at, false
	for at < len(m.text) {
		next := lineEnd(m.text, at)
		line := m.text[at:next]
		if blankLine(line) {
			gap, at = true, next
			continue
		}
		in := indent(line)
		if in < 2 && ((gap && !listMarker(line)) || thematicBreak(line) || (!listMarker(line) && m.interrupts(line))) {
			break
		}
		if f, ok := openFence(line, len(line)); ok {
			next = f.skip(m.text, next)
		}
		end, at, gap = next, next, false
	}
	return end
}
