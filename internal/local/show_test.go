package local

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/search"
)

func markerOf(t *testing.T, analyzer, query string, bold bool) marker {
	t.Helper()
	a, err := bm25.NewAnalyzer(analyzer)
	if err != nil {
		t.Fatal(err)
	}
	m := marker{analyzer: a, wanted: map[string]bool{}, bold: bold}
	for _, term := range a.Terms(query) {
		m.wanted[term] = true
	}
	return m
}

func TestMarker(t *testing.T) {
	for _, c := range []struct{ analyzer, query, text, want string }{
		{"english", "How long are the leaves?", "Leave, left and LEAVING.", "*Leave*, left and *LEAVING*."},
		{"english", "error ERR-4042", "see ERR-4042: an error", "see *ERR*-*4042*: an *error*"},
		{"standard", "産休", "彼女の産休は", "彼女の*産**休*は"},
	} {
		got := markerOf(t, c.analyzer, c.query, true).words(c.text)
		got = strings.NewReplacer("\x1b[1m", "*", "\x1b[0m", "*").Replace(got)
		if got != c.want {
			t.Errorf("%q in %q gives %q, want %q", c.query, c.text, got, c.want)
		}
		if plain := markerOf(t, c.analyzer, c.query, false).words(c.text); plain != c.text {
			t.Errorf("without bold %q becomes %q", c.text, plain)
		}
	}
}

func TestSnippet(t *testing.T) {
	m := markerOf(t, "english", "how long is parental leave", false)
	filler := strings.Repeat("Nothing of it stands here at all. ", 20)
	got := m.snippet(filler + "Parental leave\n lasts\x1b[2J sixteen weeks. " + filler)
	if !strings.Contains(got, "Parental leave lasts [2J sixteen weeks.") || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") || utf8.RuneCountInString(got) > snippetRunes+2 {
		t.Errorf("got %q", got)
	}
	if got := m.snippet("Short."); got != "Short." {
		t.Errorf("a short passage becomes %q", got)
	}
	long := strings.Repeat("word ", 300) + "parental leave " + strings.Repeat("word ", 300)
	if got := m.snippet(long); !strings.Contains(got, "parental leave") || utf8.RuneCountInString(got) > snippetRunes+2 {
		t.Errorf("a sentence without an end becomes %q", got)
	}
	if got := m.snippet(strings.Repeat("x", 5000)); utf8.RuneCountInString(got) > snippetRunes+2 {
		t.Errorf("a word without an end becomes %d characters", utf8.RuneCountInString(got))
	}
	if got := m.snippet(" \n"); got != "" {
		t.Errorf("a blank passage becomes %q", got)
	}
}

func TestShowAndExplain(t *testing.T) {
	documents := t.TempDir() + "/docs"
	write(t, documents+"/hr/leave.md", "# Leave\n\n## Parental\n\nParental leave lasts sixteen weeks.\n")
	recipe, err := ReadRecipe(write(t, t.TempDir()+"/r.yaml", "indexing: {embedding: {model: static-256}}\nretrieval: {rerank: {type: Builtin, candidates: 7}}"))
	if err != nil {
		t.Fatal(err)
	}
	out := DefaultOut(documents)
	if _, err := Build(t.Context(), documents, out, recipe, nil); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), out, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	response, err := s.Search(t.Context(), access.Identity{User: "ann"}, search.Request{Query: "parental leave", Explain: "Ranks"})
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	s.Show(&shown, "parental leave", response, false)
	text, err := s.Explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1. hr/leave.md > Leave > Parental  ", "\n   # Leave ## Parental Parental leave lasts sixteen weeks.\n", "bm25 rank 1, score ", "hnsw rank 1, cosine ",
		"reranker rank 1", "vectors: static-256, all 1 vectors that this reader may see were compared", "fusion: 0.3 of the cosine",
		"rerank: Builtin by minilm-l6-v2 over the best 7, 0.5 of its score",
	} {
		if all := shown.String() + text; !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	shown.Reset()
	s.Show(&shown, "x", &search.Response{}, false)
	if !strings.Contains(shown.String(), "Nothing found") {
		t.Errorf("no hit shows %q", shown.String())
	}
}

// Names and headings are written by others, as texts are: none may reach the terminal with control characters.
func TestShowHostileNames(t *testing.T) {
	documents := t.TempDir() + "/docs"
	write(t, documents+"/\x1b[31mred\n\u009b2J/\u202egnp.md", "# One\u202e\x1b[2J\n\nParental \u2066leave\x07 lasts.\n")
	recipe, err := ReadRecipe(write(t, t.TempDir()+"/r.yaml", "indexing: {embedding: {model: static-256}}"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if _, err := Build(t.Context(), documents, out, recipe, nil); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), out, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	response, err := s.Search(t.Context(), access.Identity{User: "ann"}, search.Request{Query: "parental leave"})
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	s.Show(&shown, "parental leave", response, false)
	if text := shown.String(); strings.Count(text, "\n") != 2 || strings.ContainsAny(text, "\x1b\x07\u009b\u202e\u2066") || !strings.Contains(text, "1. [31mred 2J/gnp.md > One") {
		t.Errorf("%q", text)
	}
}

func TestMeter(t *testing.T) {
	now := time.Unix(0, 0)
	for terminal, want := range map[bool]string{
		false: "embed: 30 of 100, 5 a second, 14s left\nembed: 100 of 100, 8.33 a second\n",
		true:  "\rembed: 30 of 100, 5 a second, 14s left\x1b[K\rembed: 100 of 100, 8.33 a second\x1b[K\r\x1b[K",
	} {
		var out bytes.Buffer
		m := NewMeter(&out, terminal)
		m.now = func() time.Time { return now }
		m.Progress("chunk", 0, 100)
		m.Progress("chunk", 100, 100) // too quick to be worth a line
		m.Progress("embed", 0, 100)
		now = now.Add(6 * time.Second)
		m.Progress("embed", 30, 100)
		m.Progress("embed", 31, 100)
		now = now.Add(6 * time.Second)
		m.Progress("embed", 100, 100)
		m.End()
		if out.String() != want {
			t.Errorf("terminal %v: %q, want %q", terminal, out.String(), want)
		}
	}
}
