package chunk

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	v1alpha1 "quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/parse"
	"quarry.dev/quarry/internal/testdata"
)

// words counts white space separated words.
type words struct{}

func (words) CountTokens(s string) int { return len(strings.Fields(s)) }

func spec(strategy, unit string, size, overlap int) v1alpha1.ChunkingSpec {
	return v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkStrategy(strategy), Unit: v1alpha1.ChunkUnit(unit), Size: int32(size), Overlap: int32(overlap)}
}

func document(t testing.TB, key, text string) parse.Document {
	t.Helper()
	d, err := parse.Parse(key, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func split(t testing.TB, d parse.Document, s v1alpha1.ChunkingSpec) []Chunk {
	t.Helper()
	out, err := Split(d, s, words{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, d, s, out)
	return out
}

// check holds for every strategy: valid chunks whose offsets point at their text, that rise, and that lose nothing.
func check(t testing.TB, d parse.Document, s v1alpha1.ChunkingSpec, out []Chunk) {
	t.Helper()
	r := []rune(d.Text)
	end, start := d.Body, -1
	joined := ""
	for i, c := range out {
		if !utf8.ValidString(c.Text) || c.Start <= start || c.End <= c.Start || c.End > len(r) || c.End <= end && i > 0 {
			t.Fatalf("%s: chunk %d [%d,%d) after [%d,%d): %.60q", s.Strategy, i, c.Start, c.End, start, end, c.Text)
		}
		own := string(r[c.Start:c.End])
		if !strings.HasSuffix(c.Text, own) || s.Strategy != "Structure" && c.Text != own {
			t.Fatalf("%s: chunk %d is not what its offsets say: %.80q, %.80q", s.Strategy, i, c.Text, own)
		}
		if gap := string(r[min(end, c.Start):c.Start]); strings.TrimSpace(gap) != "" {
			t.Fatalf("%s: text lost before chunk %d: %.80q", s.Strategy, i, gap)
		}
		start, end = c.Start, c.End
		joined += own
	}
	if gap := string(r[end:]); strings.TrimSpace(gap) != "" {
		t.Fatalf("%s: text lost at the end: %.80q", s.Strategy, gap)
	}
	if s.Overlap == 0 && s.Strategy != "Structure" && joined != string(r[d.Body:]) {
		t.Fatalf("%s: chunks do not join to the text", s.Strategy)
	}
}

func texts(chunks []Chunk) []string {
	var out []string
	for _, c := range chunks {
		out = append(out, c.Text)
	}
	return out
}

func TestSettingsAreRefused(t *testing.T) {
	d := document(t, "a.txt", "text")
	for _, c := range []struct {
		spec v1alpha1.ChunkingSpec
		want string
	}{
		{spec("Fixed", "Tokens", 512, 512), "chunking.overlap: 512 must be at least 0 and smaller than size 512"}, // C1
		{spec("Fixed", "Tokens", 3, 5), "chunking.overlap: 5"},
		{spec("Fixed", "Tokens", 3, -1), "chunking.overlap: -1"},
		{spec("Fixed", "Tokens", 0, 0), "chunking.size: 0"},
		{spec("Fixed", "Bytes", 10, 0), `chunking.unit: "Bytes"`},
		{spec("Semantic", "Tokens", 10, 0), "not yet"},
		{spec("", "Tokens", 10, 0), "chunking.strategy"},
	} {
		if _, err := Split(d, c.spec, words{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
	if _, err := Split(d, spec("Fixed", "Tokens", 10, 0), nil); err == nil {
		t.Error("Tokens without a counter was taken")
	}
	if _, err := Split(parse.Document{Text: "\xff"}, spec("Fixed", "Characters", 10, 0), nil); err == nil {
		t.Error("invalid UTF-8 was taken")
	}
}

func TestStrategies(t *testing.T) {
	d := document(t, "a.md", "# Leave\n\nOne two three. Four five six!\n\n## Sick\n\nSeven eight. Nine.\n")
	for _, c := range []struct {
		spec v1alpha1.ChunkingSpec
		want string
	}{
		{spec("Whole", "", 0, 0), d.Text},
		{spec("Fixed", "Tokens", 4, 0), "# Leave\n\nOne two |three. Four five six!\n\n|## Sick\n\nSeven eight. |Nine.\n"},
		{spec("Fixed", "Tokens", 4, 2), "# Leave\n\nOne two |One two three. Four |three. Four five six!\n\n|five six!\n\n## Sick\n\n|## Sick\n\nSeven eight. |Seven eight. Nine.\n"},
		{spec("Sentence", "Tokens", 5, 0), "# Leave\n\nOne two three. |Four five six!\n\n## Sick\n\n|Seven eight. Nine.\n"},
		{spec("Structure", "Tokens", 100, 10), "# Leave\n\nOne two three. Four five six!|## Sick\n\nSeven eight. Nine."},
		{spec("Structure", "Tokens", 5, 0), "# Leave\n\nOne two three.|Four five six!|## Sick\n\nSeven eight. Nine."},
		{spec("Fixed", "Characters", 20, 0), "# Leave\n\nOne two |three. Four five |six!\n\n## Sick\n\n|Seven eight. Nine.\n"},
	} {
		if got := strings.Join(texts(split(t, d, c.spec)), "|"); got != c.want {
			t.Errorf("%s %s %d/%d:\n%q, want\n%q", c.spec.Strategy, c.spec.Unit, c.spec.Size, c.spec.Overlap, got, c.want)
		}
	}
	out := split(t, d, spec("Structure", "Tokens", 100, 10))
	if got := fmt.Sprint(out[0].Headings, out[1].Headings, out[1].Tokens, out[1].Page); got != "[Leave] [Leave Sick] 5 0" {
		t.Errorf("metadata %s", got)
	}
}

func TestStructureOverlap(t *testing.T) {
	d := document(t, "a.txt", "a b c. D e f. G h i. J k l. M n o.")
	got := strings.Join(texts(split(t, d, spec("Structure", "Tokens", 6, 3))), "|")
	if got != "a b c. D e f.|D e f. G h i.|G h i. J k l.|J k l. M n o." {
		t.Errorf("%q", got)
	}
}

func TestHeadingsWithoutTextGoOn(t *testing.T) {
	d := document(t, "a.md", "# A\n\n## B\n\ntext\n\n## C\n")
	out := split(t, d, spec("Structure", "Tokens", 50, 0))
	if got := strings.Join(texts(out), "|"); got != "# A\n\n## B\n\ntext|## C" || strings.Join(out[0].Headings, ">") != "A>B" {
		t.Errorf("%q %q", got, out[0].Headings)
	}
}

func TestCodeStaysWholeWhenItFits(t *testing.T) {
	code := "```go\n" + strings.Repeat("x := 1\n\n", 10) + "```"
	d := document(t, "a.md", "# A\n\n"+strings.Repeat("word ", 20)+"\n\n"+code+"\n\nafter\n")
	found := false
	for _, c := range split(t, d, spec("Structure", "Tokens", 40, 8)) {
		found = found || strings.Contains(c.Text, code)
	}
	if !found {
		t.Error("the fence was cut")
	}
}

// TestTableRepeatsItsHeader is hard case C9.
func TestTableRepeatsItsHeader(t *testing.T) {
	header := "| name | days |\n|------|------|\n"
	text := "# Leave\n\nCaption of the table\n\n" + header
	for i := range 200 {
		text += fmt.Sprintf("| row%d | %d |\n", i, i)
	}
	for _, s := range []v1alpha1.ChunkingSpec{spec("Structure", "Characters", 400, 50), spec("Structure", "Tokens", 64, 16)} {
		seen, captions := map[string]int{}, 0
		for _, c := range split(t, document(t, "a.md", text+"\nafter\n"), s) {
			captions += strings.Count(c.Text, "Caption")
			if strings.Contains(c.Text, "| row") && (strings.Count(c.Text, header) != 1 || strings.Contains(strings.SplitAfter(c.Text, header)[0], "| row")) {
				t.Errorf("no header on top of %q", c.Text)
			}
			for line := range strings.SplitSeq(c.Text, "\n") {
				if strings.HasPrefix(line, "| row") {
					seen[line]++
				}
			}
		}
		for i := range 200 {
			if seen[fmt.Sprintf("| row%d | %d |", i, i)] != 1 {
				t.Errorf("row %d stands %d times", i, seen[fmt.Sprintf("| row%d | %d |", i, i)])
			}
		}
		if captions != 1 {
			t.Errorf("caption stands %d times", captions)
		}
	}
}

// TestVectors runs the hard cases C1, C3, C4, C5, C7, C9, C11 and S10 as they were published.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Chunk []struct {
			Name, Text, Hex string
			Size, Overlap   int
		}
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Chunk {
		t.Run(c.Name, func(t *testing.T) {
			text := []byte(c.Text)
			if c.Hex != "" {
				if text, err = hex.DecodeString(c.Hex); err != nil {
					t.Fatal(err)
				}
			}
			d, err := parse.Parse("a.md", text)
			if c.Name == "whitespace" || c.Hex != "" {
				if err == nil {
					t.Error("no failure")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, strategy := range []string{"Whole", "Fixed", "Sentence", "Structure"} {
				for _, unit := range []string{"Characters", "Tokens"} {
					vector(t, c.Name, d, spec(strategy, unit, c.Size, c.Overlap))
				}
			}
		})
	}
}

func vector(t *testing.T, name string, d parse.Document, s v1alpha1.ChunkingSpec) {
	t.Helper()
	if s.Overlap >= s.Size && s.Strategy != "Whole" {
		if _, err := Split(d, s, words{}); err == nil {
			t.Error("overlap >= size was taken")
		}
		return
	}
	out := split(t, d, s)
	if len(out) > 400 || len(out) == 0 {
		t.Errorf("%d chunks", len(out))
	}
	all := strings.Join(texts(out), "")
	for _, c := range out {
		if r, _ := utf8.DecodeRuneInString(c.Text); unicode.Is(unicode.M, r) || strings.ContainsRune(c.Text, utf8.RuneError) {
			t.Errorf("a chunk begins inside a cluster: %q", c.Text)
		}
	}
	if name == "deep-heading-path" && !strings.Contains(all, "the answer is 42") {
		t.Error("the body was dropped")
	}
	if name == "wide-header" && s.Strategy == "Structure" && (!strings.Contains(all, "column number 0") || !strings.Contains(all, "| v | v |")) {
		t.Error("header or row was dropped")
	}
}

func TestWideHeaderIsNamed(t *testing.T) {
	head := strings.Repeat("| column ", 200) + "|\n" + strings.Repeat("| --- ", 200) + "|\n"
	out := split(t, document(t, "a.md", head+strings.Repeat("| v ", 200)+"|\n"), spec("Structure", "Characters", 16, 0))
	if last := out[len(out)-1]; !strings.Contains(last.Warning, "header") {
		t.Errorf("no warning on %+v", last)
	}
}

// TestProperties cuts random documents of nasty parts by every strategy.
func TestProperties(t *testing.T) {
	parts := []string{"word ", "Sentence one. ", "\n", "\n\n", "# H\n", "## I\n\n", "- item\n", "```\n", "🙂", "👩‍👩‍👧", "e\u0301", "\u0301", "ทดสอบ", "日本語。", "| a | b |\n",
		"|---|---|\n", "    code\n", "\r\n", "\u200b", " ", "{\"a\":1}", strings.Repeat("x", 130), "<!--", "-->\n"}
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		d, err := parse.Parse([]string{"a.md", "a.txt", "a.html"}[r.IntN(3)], []byte(b.String()))
		if err != nil {
			continue
		}
		size := 1 + r.IntN(40)
		for _, strategy := range []string{"Whole", "Fixed", "Sentence", "Structure"} {
			for _, overlap := range []int{0, r.IntN(size)} {
				split(t, d, spec(strategy, []string{"Tokens", "Characters"}[r.IntN(2)], size, overlap))
			}
		}
	}
}

func TestSizeHolds(t *testing.T) {
	d := document(t, "a.txt", strings.Repeat("some words in a row. And another, longer sentence follows here! ", 300))
	for _, strategy := range []string{"Fixed", "Sentence", "Structure"} {
		for _, size := range []int{1, 2, 7, 50} {
			for i, c := range split(t, d, spec(strategy, "Tokens", size, size/3)) {
				if n := (words{}).CountTokens(c.Text); n > size || n != c.Tokens {
					t.Errorf("%s %d: chunk %d has %d tokens, says %d", strategy, size, i, n, c.Tokens)
				}
			}
			for _, c := range split(t, d, spec(strategy, "Characters", 10*size, size)) {
				if n := utf8.RuneCountInString(c.Text); n > 10*size {
					t.Errorf("%s: %d characters over %d", strategy, n, 10*size)
				}
			}
		}
	}
}

func TestUnbrokenRunsAreLinear(t *testing.T) {
	for name, text := range map[string]string{
		"letters": strings.Repeat("a", 10<<20), "marks": "e" + strings.Repeat("\u0301", 1<<20), "dots": strings.Repeat(". 1", 1<<20),
		"spaces": "a" + strings.Repeat(" ", 2<<20) + "b", "lines": strings.Repeat("a\n", 1<<20), "paragraphs": strings.Repeat("a\n\n", 1<<18),
		"rows": "| h |\n|---|\n" + strings.Repeat("| a |\n", 1<<18), "headings": strings.Repeat("# a\n", 1<<18),
	} {
		d := document(t, "a.md", text)
		for _, strategy := range []string{"Fixed", "Sentence", "Structure"} {
			began := time.Now()
			out, err := Split(d, spec(strategy, "Tokens", 256, 32), words{})
			if err != nil || len(out) == 0 || time.Since(began) > 30*time.Second {
				t.Errorf("%s %s: %d chunks in %v, %v", name, strategy, len(out), time.Since(began), err)
			}
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("# a\n\ntext e\u0301 🙂\n\n| a |\n|---|\n| b |\n", uint8(5), uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, text string, size, overlap, kind uint8) {
		d, err := parse.Parse("a.md", []byte(text))
		if err != nil {
			return
		}
		n := 1 + int(size)
		split(t, d, spec([]string{"Whole", "Fixed", "Sentence", "Structure"}[kind%4], []string{"Tokens", "Characters"}[kind/4%2], n, int(overlap)%n))
	})
}
