package beir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/artifact"
)

// files is a small set: one document without a title, one graded label, one label of nothing.
func files() map[string]string {
	return map[string]string{
		"corpus.jsonl": `{"_id":"1","title":"Leave","text":"Sixteen weeks.","metadata":{}}
{"_id":"https://a.b/c#d","title":"","text":"Expenses."}
`,
		"queries.jsonl": `{"_id":"q1","text":"how long is leave <b>"}
{"_id":"q2","text":"expenses"}
`,
		"qrels.tsv": "query-id\tcorpus-id\tscore\nq1\t1\t2\nq1\thttps://a.b/c#d\t0\nq2\thttps://a.b/c#d\t1\n",
	}
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	s, err := Read(folder(t, files()))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Documents) != 2 || s.Documents[0].Text != "Leave\n\nSixteen weeks." || s.Documents[1].Text != "Expenses." {
		t.Errorf("documents %+v", s.Documents)
	}
	want := `{"id":"q1","question":"how long is leave <b>","as":{"user":"beir"},"evidence":[[{"document":"1.txt","grade":2}]]}
{"id":"q2","question":"expenses","as":{"user":"beir"},"evidence":[[{"document":"https=3A=2F=2Fa.b=2Fc=23d.txt"}]]}
`
	if string(s.EvalSet) != want || len(s.Questions) != 2 || len(s.Notes) != 0 {
		t.Errorf("eval set\n%s, %d questions, notes %q", s.EvalSet, len(s.Questions), s.Notes)
	}
	b, err := s.Bucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	if err := b.List(t.Context(), "", func(i artifact.Info) error { keys = append(keys, i.Key); return nil }); err != nil || !slices.Equal(keys, []string{"1.txt", "https=3A=2F=2Fa.b=2Fc=23d.txt"}) {
		t.Errorf("keys %q, %v", keys, err)
	}
}

// What BEIR ships lies one folder deeper, may lack the header, and may end its lines as Windows does.
func TestReadOtherForms(t *testing.T) {
	f := files()
	f["qrels/test.tsv"] = "\xef\xbb\xbfq1\t1\t1\r\nq1\t1\t1\r\n\r\nq1\tgone\t1\r\nq9\t1\t1\r\n"
	delete(f, "qrels.tsv")
	s, err := Read(folder(t, f))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Questions) != 1 || len(s.Questions[0].Evidence) != 2 {
		t.Errorf("%+v", s.Questions)
	}
	want := []string{
		"1 qrels name documents that the corpus lacks (first: gone): they count as not found, and a query with no other is left out as stale",
		"1 queries of the qrels are not in queries.jsonl (first: q9): they are not asked",
		"1 queries have no relevant document in the qrels (first: q2): they are not asked",
		"1 lines of the qrels repeat others: each counts once",
	}
	if !slices.Equal(s.Notes, want) {
		t.Errorf("notes %q", s.Notes)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, text, says string }{
		"no corpus":         {"corpus.jsonl", "", "corpus.jsonl is missing: a labelled set is a folder with"},
		"no queries":        {"queries.jsonl", "", "queries.jsonl is missing"},
		"no qrels":          {"qrels.tsv", "", "holds no labels: neither qrels.tsv nor qrels/test.tsv"},
		"empty corpus":      {"corpus.jsonl", "\n", "corpus.jsonl is empty"},
		"broken line":       {"corpus.jsonl", "{\"_id\":\"1\"}\n{\"_id\":", "corpus.jsonl line 2: is not a JSON object"},
		"number as id":      {"corpus.jsonl", `{"_id":1}`, "line 1: _id is a number: write a string"},
		"no id":             {"corpus.jsonl", `{"text":"x"}`, "line 1: _id is absent or empty"},
		"same document":     {"corpus.jsonl", "{\"_id\":\"1\"}\n{\"_id\":\"1\"}", `line 2: _id "1" was used on line 1 already`},
		"same query":        {"queries.jsonl", "{\"_id\":\"1\",\"text\":\"a\"}\n{\"_id\":\"1\",\"text\":\"b\"}", `queries.jsonl line 2: _id "1" was used`},
		"binary":            {"queries.jsonl", "\x7fELF\x02\xff\xfe", "queries.jsonl line 1: is not valid UTF-8"},
		"empty question":    {"queries.jsonl", `{"_id":"q1","text":" \n"}`, `text of query "q1" is blank`},
		"ten thousand":      {"queries.jsonl", `{"_id":"q1","text":"` + strings.Repeat("word ", 10000) + `"}`, `text of query "q1" has 50000 characters: a search takes at most 10000`},
		"spaces for tabs":   {"qrels.tsv", "q1 1 1\n", `line 1: "q1 1 1" is no label: write query-id, corpus-id and score`},
		"word as score":     {"qrels.tsv", "q1\t1\tyes\n", `line 1: score "yes" is no whole number`},
		"contradiction":     {"qrels.tsv", "q1\t1\t1\nq1\t1\t0\n", `line 2: document "1" of query "q1" has score 0 here and 1 before`},
		"nothing relevant":  {"qrels.tsv", "q1\t1\t0\nq2\t1\t-1\n", "no query of queries.jsonl has a document with a score above 0"},
		"other queries":     {"qrels.tsv", "q7\t1\t1\n", "no query of queries.jsonl has a document"},
		"grade without end": {"qrels.tsv", "q1\t1\t100000\n", "grade is 100000: use 1 to 1000"},
	} {
		f := files()
		if f[c.file] = c.text; c.text == "" {
			delete(f, c.file)
		}
		if s, err := Read(folder(t, f)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v gave %+v, want %q", name, err, s, c.says)
		}
	}
}

func TestKey(t *testing.T) {
	long := strings.Repeat("x", maxName)
	for id, want := range map[string]string{
		"4983": "4983.txt", "a.b_c-d": "a.b_c-d.txt", ".": "=2E.txt", "..": "=2E..txt", "a/b": "a=2Fb.txt", "a=2Fb": "a=3D2Fb.txt", "ü": "=C3=BC.txt", long: long + ".txt",
	} {
		if got := Key(id); got != want {
			t.Errorf("Key(%q) = %q, want %q", id, got, want)
		}
	}
	a, b := Key(long+"a"), Key(long+"b")
	if a == b || len(a) > maxName || !strings.HasPrefix(a, "=sha256=") || Key(a) == a {
		t.Errorf("long ids: %q, %q", a, b)
	}
}
