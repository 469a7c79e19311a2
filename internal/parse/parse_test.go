package parse

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"quarry.dev/quarry/internal/testdata"
)

// part is the text of a block.
func part(d Document, b Block) string {
	r := []rune(d.Text)
	return string(r[b.Start:b.End])
}

func mustParse(t *testing.T, key, text string) Document {
	t.Helper()
	d, err := Parse(key, []byte(text))
	if err != nil {
		t.Fatalf("Parse(%q): %v", key, err)
	}
	check(t, d)
	return d
}

// check holds for every document: valid text, ascending blocks that leave out only what shows nothing.
func check(t testing.TB, d Document) {
	t.Helper()
	if !utf8.ValidString(d.Text) || strings.ContainsRune(d.Text, 0) {
		t.Fatalf("text is not valid UTF-8 without NUL: %q", d.Text)
	}
	r := []rune(d.Text)
	at := d.Body
	for i, b := range d.Blocks {
		if b.Start < at || b.End <= b.Start || b.End > len(r) || b.Header < b.Start || b.Header > b.End {
			t.Fatalf("block %d %+v after %d of %d", i, b, at, len(r))
		}
		if gap := strings.TrimFunc(string(r[at:b.Start]), unicode.IsSpace); gap != "" {
			t.Fatalf("text lost before block %d: %q", i, gap)
		}
		if (b.Kind == Heading) != (b.Level > 0) {
			t.Fatalf("block %d: kind %s with level %d", i, b.Kind, b.Level)
		}
		at = b.End
	}
	if gap := strings.TrimSpace(string(r[at:])); gap != "" {
		t.Fatalf("text lost at the end: %q", gap)
	}
}

func headings(d Document) []string {
	var out []string
	for _, b := range d.Blocks {
		if b.Kind == Heading {
			out = append(out, strings.Repeat("#", b.Level)+" "+b.Headings[len(b.Headings)-1])
		}
	}
	return out
}

func TestMarkdownHeadings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"fence":              {"# A\n\n```sh\n# not a heading\n```\n\n## B\ntext\n", "# A|## B"},
		"tilde fence":        {"~~~\n# no\n```\n# no\n~~~\n# yes\n", "# yes"},
		"open fence":         {"# A\n````\n# no\n```\n# no\n", "# A"},
		"fence in list":      {"# A\n- item\n\n    ```\n# no\n    ```\n\n# B\n", "# A|# B"},
		"setext":             {"Setext One\n==========\n\n    # code\n\nSetext Two\n----------\nbody\n", "# Setext One|## Setext Two"},
		"crlf":               {"# One\r\n\r\nalpha\r\n\r\n## Two\r\n\r\nbeta\r\n", "# One|## Two"},
		"closing marks":      {"## Two ##\n### C#\n#hashtag\n####### seven\n", "## Two|### C#"},
		"front matter":       {"---\ntitle: \"T # x\"\n---\n# H\nbody\n", "# H"},
		"markup":             {"## **Bold** `code` [link](http://x) {#id}\n", "## Bold code link"},
		"rule is not a head": {"para\n\n---\n\n***\n---\nmore\n", ""},
		"comment":            {"<!--\n# no\n-->\n# yes\n", "# yes"},
		"after list":         {"- a\n- b\n# H\n", "# H"},
		"table":              {"# A\n| a | b |\n|---|---|\n| # | 1 |\n# B\n", "# A|# B"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(headings(mustParse(t, "x.md", c.text)), "|"); got != c.want {
				t.Errorf("headings %q, want %q", got, c.want)
			}
		})
	}
}

func TestMarkdownPathAndKinds(t *testing.T) {
	d := mustParse(t, "x.md", "# A\n\nintro\n\n### C\n\n- one\n- two\n\n## B\n\n| h | i |\n|---|---|\n| 1 | 2 |\n\n```\ncode\n\nmore\n```\nend\n")
	var got []string
	for _, b := range d.Blocks {
		got = append(got, string(b.Kind)+":"+strings.Join(b.Headings, ">"))
	}
	want := "Heading:A Paragraph:A Heading:A>C List:A>C Heading:A>B Table:A>B Code:A>B Paragraph:A>B"
	if strings.Join(got, " ") != want {
		t.Errorf("blocks %v, want %s", got, want)
	}
	for _, b := range d.Blocks {
		if b.Kind == Table && string([]rune(d.Text)[b.Start:b.Header]) != "| h | i |\n|---|---|\n" {
			t.Errorf("header %q", string([]rune(d.Text)[b.Start:b.Header]))
		}
	}
}

func TestTitle(t *testing.T) {
	for _, c := range []struct{ key, text, want string }{
		{"a.md", "---\ntitle: 'It''s'\n---\n# H\nbody", "It's"},
		{"a.md", "+++\ntitle = \"Toml\"\n+++\nbody", "Toml"},
		{"a.md", "\ufeff---\ntitle: T\n---\n# H\nbody\n", "T"},
		{"a.md", "---\n\nNot a matter\n\n---\n", "a"},
		{"a.md", "text\n\n# First\n", "First"},
		{"dir/leave-policy.txt", "text", "leave-policy"},
		{"a.html", "<title> The\n Page </title><h1>Head</h1>x", "The Page"},
		{"a.html", "<h1>Head</h1>x", "Head"},
	} {
		if got := mustParse(t, c.key, c.text).Title; got != c.want {
			t.Errorf("%q: title %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		key, data string
		want      Reason
	}{
		{"a.pdf", "%PDF-1.7", Unsupported},
		{"a.txt", "%PDF-1.7", Unsupported},
		{"a.docx", "PK\x03\x04", Unsupported},
		{"a.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Unsupported},
		{"a.png", "text", Unsupported},
		{"a.txt", "", Empty},
		{"zero.md", " \n\t\u00a0\u200b\n", Empty},
		{"a.md", "---\ntitle: only\n---\n", Empty},
		{"a.html", "<title>t</title><script>x()</script>", Empty},
		{"a.txt", "ab\x00cd", Unreadable},
		{"a.md", "a\xed\xa0\xbdb\x00c\xff\xfe", Unreadable},
		{"a.txt", strings.Repeat("\x01\x02", 50), Unreadable},
		{"a.txt", strings.Repeat("a", MaxBytes+1), TooLarge},
	} {
		_, err := Parse(c.key, []byte(c.data))
		var f *Failure
		if !errors.As(err, &f) || f.Reason != c.want || f.Message == "" {
			t.Errorf("%s %.10q: %v, want %s", c.key, c.data, err, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	for name, data := range map[string]string{
		"utf-8 bom": "\xef\xbb\xbfgrün\n",
		"utf-16 le": "\xff\xfeg\x00r\x00\xfc\x00n\x00\n\x00",
		"utf-16 be": "\xfe\xff\x00g\x00r\x00\xfc\x00n\x00\n",
		"utf-32 le": "\xff\xfe\x00\x00g\x00\x00\x00r\x00\x00\x00\xfc\x00\x00\x00n\x00\x00\x00\n\x00\x00\x00",
		"utf-32 be": "\x00\x00\xfe\xff\x00\x00\x00g\x00\x00\x00r\x00\x00\x00\xfc\x00\x00\x00n\x00\x00\x00\n",
		"no bom":    "g\x00r\x00\xfc\x00n\x00\n\x00",
		"latin 1":   "gr\xfcn\n",
	} {
		if d := mustParse(t, "a.txt", data); d.Text != "grün\n" {
			t.Errorf("%s: %q", name, d.Text)
		}
	}
	if d := mustParse(t, "a.html", "<meta charset=iso-8859-5><p>\xbf\xe0"); d.Text != "Пр" {
		t.Errorf("declared charset: %q", d.Text)
	}
}

func TestHTML(t *testing.T) {
	d := mustParse(t, "a.html", `<!doctype html><html><head><title>T</title><style>p{}</style></head><body><nav>menu</nav>
<h1>Leave <em>policy</em></h1><p>First   line<br>second</p><div>A<p>B</div><script>alert(1)</script>
<h2><div>Parental</div></h2><ul><li>one<li>two<ol><li>deep</ol></ul>
<table><caption>Days</caption><tr><th>Kind<th>Days</tr><tr><td>Sick | ill<td>10</tr></table>
<pre>x  = 1
y</pre><table><tr><td><h3>Box</h3>text<table><tr><td>in</table></table><p hidden>gone</p></body></html>`)
	want := "Leave policy\n\nFirst line\nsecond\n\nA\n\nB\n\nParental\n\n- one\n- two\n  - deep\n\nDays\n\n| Kind | Days |\n| --- | --- |\n| Sick \\| ill | 10 |\n\nx  = 1\ny\n\nBox\n\ntext\n\n| in |"
	if d.Text != want {
		t.Errorf("text\n%s\nwant\n%s", d.Text, want)
	}
	if got := strings.Join(headings(d), "|"); got != "# Leave policy|## Parental|### Box" {
		t.Errorf("headings %s", got)
	}
	for _, b := range d.Blocks {
		if b.Kind == Table && strings.HasPrefix(part(d, b), "| Kind") && string([]rune(d.Text)[b.Start:b.Header]) != "| Kind | Days |\n| --- | --- |\n" {
			t.Errorf("header %+v", b)
		}
	}
}

func TestHTMLDeep(t *testing.T) {
	d := mustParse(t, "a.html", "<title>T</title>"+strings.Repeat("<div><font>x", 20000)+"<script>no</script>end")
	if strings.Count(d.Text, "x") != 20000 || !strings.HasSuffix(d.Text, "end") || strings.Contains(d.Text, "no") || d.Title != "T" {
		t.Errorf("text of a deep page is lost: %d bytes, title %q", len(d.Text), d.Title)
	}
}

func TestHugeInputsAreLinear(t *testing.T) {
	for name, unit := range map[string]string{
		"letters": "a", "spaces": " a", "lines": "\n", "hashes": "#", "fences": "```\n", "pipes": "|", "rules": "|-\n", "list": "- ",
		"brackets": "[](", "comment": "<!--", "tags": "<a>", "tables": "<table>", "items": "<ul><li>", "dashes": "-",
	} {
		for _, key := range []string{"a.md", "a.html", "a.txt"} {
			d, err := Parse(key, []byte(strings.Repeat(unit, (2<<20)/len(unit))+" x"))
			if key == "a.html" && name == "comment" {
				continue // an open comment hides the whole page
			}
			if err != nil {
				t.Errorf("%s %s: %v", name, key, err)
				continue
			}
			check(t, d)
		}
	}
}

// TestVectors runs the hard cases C7 and P9 as they were published.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Chunk []struct{ Name, Text string }
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"indented-hash-and-setext": "# Setext One|## Setext Two", "crlf": "# One|## Two", "front-matter": "# H", "bom-front-matter": "# H",
	}
	for _, c := range v.Chunk {
		if w, ok := want[c.Name]; ok {
			if got := strings.Join(headings(mustParse(t, "x.md", c.Text)), "|"); got != w {
				t.Errorf("%s: %q, want %q", c.Name, got, w)
			}
		}
	}
}

// TestMixedDocuments reads every file of the labelled set: each gives a checked document or a typed failure.
func TestMixedDocuments(t *testing.T) {
	root := testdata.Shared(t, "data/docs-mixed")
	counts := map[Reason]int{}
	err := filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		d, err := Parse(p, data)
		var f *Failure
		switch {
		case err == nil:
			check(t, d)
			counts["read"]++
		case errors.As(err, &f):
			counts[f.Reason]++
			if ext := filepath.Ext(p); ext == ".md" && f.Reason != Empty {
				t.Errorf("%s: %v", p, f)
			}
		default:
			t.Errorf("%s: untyped error %v", p, err)
		}
		if strings.Contains(p, "fake-text-utf-") && (err != nil || !strings.Contains(d.Text, "This is a test document")) {
			t.Errorf("%s: %v %.80q", p, err, d.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(counts)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"# a\n\n```\n# b\n```", "<p>a<table><tr><th>b<td>c", "| a |\n|--|\n| b |", "\xff\xfea\x00", "---\ntitle: x\n---\ny"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, key := range []string{"a.md", "a.html", "a.txt"} {
			if d, err := Parse(key, data); err == nil {
				check(t, d)
			} else if f := new(Failure); !errors.As(err, &f) {
				t.Fatalf("untyped error %v", err)
			}
		}
	})
}
