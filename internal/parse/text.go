package parse

import "strings"

// parseText makes a paragraph of each run of lines between blank ones.
func parseText(text string) Document {
	d := Document{Text: text}
	start, end := -1, 0
	for at := 0; at < len(text); {
		next := lineEnd(text, at)
		switch isBlank := blankLine(text[at:next]); {
		case isBlank && start >= 0:
			d.Blocks = append(d.Blocks, Block{Start: start, End: end, Kind: Paragraph})
			start = -1
		case !isBlank:
			if start < 0 {
				start = at
			}
			end = contentEnd(text, at, next)
		}
		at = next
	}
	if start >= 0 {
		d.Blocks = append(d.Blocks, Block{Start: start, End: end, Kind: Paragraph})
	}
	return finish(d)
}

// lineEnd is the offset after the line feed that ends the line at `at`, or the end of the text.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// contentEnd is where the line text[at:next] ends without its trailing white space.
func contentEnd(text string, at, next int) int {
	return at + len(strings.TrimRight(text[at:next], " \t\r\n"))
}

func blankLine(line string) bool { return strings.TrimSpace(line) == "" }
