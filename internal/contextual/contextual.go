// Package contextual writes what a passage leaves unsaid because its document said it above.
package contextual

import (
	"strings"
	"unicode/utf8"

	"quarry.dev/quarry/internal/chunk"
)

// MaxCodePoints bounds a context, so that a long path never outweighs the passage it introduces.
const MaxCodePoints = 240

const (
	separator = " > "
	ellipsis  = "…"
)

// Heading is the path to the passage, `Title > H1 > H2`, for the indexed text, or "" where there is none. A title that
// the first heading repeats stands once. A path over MaxCodePoints is shortened, never the passage: each name to its
// share of the room, and where even that is too little the middle of the path goes.
func Heading(title string, c chunk.Chunk) string {
	var path []string
	for _, h := range append([]string{title}, c.Headings...) {
		h = strings.Join(strings.Fields(h), " ")
		if h != "" && (len(path) == 0 || path[len(path)-1] != h) {
			path = append(path, h)
		}
	}
	return shorten(path, MaxCodePoints)
}

// Indexed is the text that is embedded and put into postings; the text that is returned stays without the context.
func Indexed(context, text string) string {
	if context == "" {
		return text
	}
	return context + "\n\n" + text
}

// shorten joins path within budget code points.
func shorten(path []string, budget int) string {
	const least = 16 // code points of a name that still say something
	if most := budget / (least + len(separator)); len(path) > most {
		path = append(path[:1:1], path[len(path)-most+1:]...)
	}
	room := budget - len(separator)*(len(path)-1)
	need := 0
	for _, p := range path {
		need += utf8.RuneCountInString(p)
	}
	if need > room {
		path = fit(path, room)
	}
	return strings.Join(path, separator)
}

// fit cuts the longest names to one common length, so that all take at most room code points.
func fit(path []string, room int) []string {
	limit := room
	for left, rest := room, len(path); ; {
		limit = left / rest
		left, rest = room, len(path)
		for _, p := range path {
			if n := utf8.RuneCountInString(p); n <= limit {
				left -= n
				rest--
			}
		}
		if rest == 0 || left/rest == limit {
			break
		}
	}
	out := make([]string, len(path))
	for i, p := range path {
		out[i] = cut(p, limit)
	}
	return out
}

func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)[:max(0, limit-1)]
	return strings.TrimRight(string(r), " ") + ellipsis
}
