package contextual

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"quarry.dev/quarry/internal/chunk"
)

func TestHeading(t *testing.T) {
	for _, c := range []struct {
		title    string
		headings []string
		want     string
	}{
		{"", nil, ""},
		{"Guide", nil, "Guide"},
		{"Guide", []string{"Guide", "Leave"}, "Guide > Leave"},
		{"Guide", []string{"Leave", " Sick\n leave "}, "Guide > Leave > Sick leave"},
		{"", []string{"Leave"}, "Leave"},
	} {
		if got := Heading(c.title, chunk.Chunk{Headings: c.headings}); got != c.want {
			t.Errorf("Heading(%q, %q) = %q, want %q", c.title, c.headings, got, c.want)
		}
	}
}

func TestHeadingKeepsShortNamesWhole(t *testing.T) {
	got := Heading("Handbook", chunk.Chunk{Headings: []string{strings.Repeat("long heading ", 40), "Leave"}})
	if !strings.HasPrefix(got, "Handbook > long heading") || !strings.HasSuffix(got, "… > Leave") {
		t.Errorf("%q", got)
	}
}

func TestHeadingIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var path []string
		for range r.IntN(12) {
			path = append(path, strings.Repeat("ä ", r.IntN(5))+strings.Repeat("xé", r.IntN(200)))
		}
		got := Heading(strings.Repeat("t", r.IntN(400)), chunk.Chunk{Headings: path})
		if n := utf8.RuneCountInString(got); n > MaxCodePoints || !utf8.ValidString(got) {
			t.Fatalf("%d code points from %q", n, path)
		}
	}
}

func TestIndexed(t *testing.T) {
	if got := Indexed("", "text") + "|" + Indexed("A > B", "text"); got != "text|A > B\n\ntext" {
		t.Errorf("%q", got)
	}
}
