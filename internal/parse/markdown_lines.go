package parse

import (
	"regexp"
	"strconv"
	"strings"
)

// indent is the width of the white space before a line, a tab reaching the next multiple of four; counted up to 4.
func indent(line string) int {
	n := 0
	for i := 0; i < len(line) && n < 4; i++ {
		switch line[i] {
		case ' ':
			n++
		case '\t':
			n = 4
		default:
			return n
		}
	}
	return n
}

// atxHeading reads `## text ##`; level 0 when the line is no heading.
func atxHeading(line string) (int, string) {
	if indent(line) >= 4 {
		return 0, ""
	}
	s := strings.TrimSpace(line)
	level := len(s) - len(strings.TrimLeft(s, "#"))
	if level < 1 || level > 6 {
		return 0, ""
	}
	rest := s[level:]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return 0, ""
	}
	rest = strings.TrimSpace(rest)
	if trimmed := strings.TrimRight(rest, "#"); trimmed == "" || strings.HasSuffix(trimmed, " ") || strings.HasSuffix(trimmed, "\t") {
		rest = strings.TrimSpace(trimmed)
	}
	return level, rest
}

// underline is 1 for a line of `=`, 2 for one of `-`, which make a heading of the paragraph above; else 0.
func underline(line string) int {
	s := strings.TrimSpace(line)
	switch {
	case s == "" || indent(line) >= 4:
		return 0
	case strings.Trim(s, "=") == "":
		return 1
	case strings.Trim(s, "-") == "":
		return 2
	}
	return 0
}

// thematicBreak is three or more of one of `*`, `-`, `_`, white space between them allowed.
func thematicBreak(line string) bool {
	s := strings.TrimSpace(line)
	if len(s) < 3 || indent(line) >= 4 || !strings.ContainsRune("*-_", rune(s[0])) {
		return false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case s[0]:
			n++
		case ' ', '\t':
		default:
			return false
		}
	}
	return n >= 3
}

// bullet reports a list marker that may interrupt a paragraph: `-`, `*`, `+`, or the number 1, before text.
func bullet(line string) bool {
	s := strings.TrimSpace(line)
	if len(s) < 3 {
		return false
	}
	if strings.ContainsRune("-*+", rune(s[0])) {
		return s[1] == ' ' || s[1] == '\t'
	}
	return strings.HasPrefix(s, "1. ") || strings.HasPrefix(s, "1) ")
}

// listMarker reports whether the line begins a list item.
func listMarker(line string) bool {
	s := strings.TrimSpace(line)
	if s == "" || thematicBreak(line) {
		return false
	}
	if strings.ContainsRune("-*+", rune(s[0])) {
		return len(s) == 1 || s[1] == ' ' || s[1] == '\t'
	}
	n := 0
	for n < len(s) && n < 10 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n > 0 && n < 10 && n < len(s) && (s[n] == '.' || s[n] == ')') && (n+1 == len(s) || s[n+1] == ' ' || s[n+1] == '\t')
}

// tableRule is the row of dashes below a table's header, such as `|---|:-:|`.
func tableRule(line string) bool {
	s := strings.TrimSpace(line)
	if !strings.Contains(s, "|") || indent(line) >= 4 {
		return false
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "|"), "|")
	for cell := range strings.SplitSeq(s, "|") {
		cell = strings.TrimSpace(cell)
		cell = strings.TrimSuffix(strings.TrimPrefix(cell, ":"), ":")
		if cell == "" || strings.Trim(cell, "-") != "" {
			return false
		}
	}
	return true
}

// fence is an open code fence.
type fence struct {
	mark  byte
	count int
}

// openFence reads a line that opens a fence, indented by at most `most`.
func openFence(line string, most int) (fence, bool) {
	if indent(line) > most {
		return fence{}, false
	}
	s := strings.TrimSpace(line)
	if len(s) < 3 || (s[0] != '`' && s[0] != '~') {
		return fence{}, false
	}
	n := len(s) - len(strings.TrimLeft(s, s[:1]))
	if n < 3 || (s[0] == '`' && strings.Contains(s[n:], "`")) {
		return fence{}, false
	}
	return fence{s[0], n}, true
}

// skip returns the offset after the line that closes the fence, or the end of the text when none does.
func (f fence) skip(text string, at int) int {
	for at < len(text) {
		next := lineEnd(text, at)
		s := strings.TrimSpace(text[at:next])
		if len(s) >= f.count && strings.Trim(s, string(f.mark)) == "" {
			return next
		}
		at = next
	}
	return at
}

// rawHTML returns what ends the block of raw HTML that the line opens, inside which nothing is Markdown; else "".
func rawHTML(line string) string {
	if indent(line) >= 4 {
		return ""
	}
	s := strings.TrimSpace(line)
	if strings.HasPrefix(s, "<!--") {
		return "-->"
	}
	if !strings.HasPrefix(s, "<") {
		return ""
	}
	for _, tag := range []string{"pre", "script", "style", "textarea"} {
		if len(s) > len(tag)+1 && strings.EqualFold(s[1:len(tag)+1], tag) && strings.ContainsRune(" \t>", rune(s[len(tag)+1])) {
			return "</" + tag + ">"
		}
	}
	return ""
}

// skipRaw returns the offset after the line that holds closing, or the end of the text.
func skipRaw(text string, at int, closing string) int {
	for at < len(text) {
		next := lineEnd(text, at)
		if strings.Contains(strings.ToLower(text[at:next]), closing) {
			return next
		}
		at = next
	}
	return at
}

var (
	headingLink = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	headingID   = regexp.MustCompile(`\s*\{[^}]*\}$`)
	headingMark = strings.NewReplacer("**", "", "__", "", "`", "")
)

// plainHeading takes links, emphasis, code marks and attributes out of a heading.
func plainHeading(s string) string {
	if len(s) > 16*maxHeading {
		return s
	}
	s = headingID.ReplaceAllString(strings.TrimSpace(s), "")
	return headingMark.Replace(headingLink.ReplaceAllString(s, "$1"))
}

// frontMatter returns the offset of the body and the declared title. A document that merely begins with a rule has none:
// every line at the margin must be a key, a list item or a comment, and a closing line must follow.
func frontMatter(text string) (int, string) {
	first := lineEnd(text, 0)
	mark := strings.TrimRight(text[:first], " \t\r\n")
	if mark != "---" && mark != "+++" {
		return 0, ""
	}
	separator := ":"
	if mark == "+++" {
		separator = "="
	}
	title := ""
	for at := first; at < len(text); {
		next := lineEnd(text, at)
		line := strings.TrimRight(text[at:next], " \t\r\n")
		if line == mark || (mark == "---" && line == "...") {
			return next, title
		}
		key, value, isPair := strings.Cut(line, separator)
		if isPair && strings.TrimSpace(key) == "title" {
			title = unquote(strings.TrimSpace(value))
		}
		if !isPair && line != "" && !strings.ContainsRune(" \t-#[]", rune(line[0])) {
			return 0, ""
		}
		at = next
	}
	return 0, ""
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
	}
	if out, err := strconv.Unquote(s); err == nil {
		return strings.ToValidUTF8(out, "\uFFFD")
	}
	return s
}
