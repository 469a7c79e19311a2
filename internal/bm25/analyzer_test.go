package bm25

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/testdata"
)

func mustAnalyzer(t testing.TB, name string) Analyzer {
	t.Helper()
	a, err := NewAnalyzer(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTerms(t *testing.T) {
	for _, tt := range []struct{ analyzer, text, want string }{
		{"english", "The policies of parental leaves", "polici parent leav"},
		{"english", "the of and", ""},
		{"english", "", ""},
		{"english", " \t\n", ""},
		{"english", "It's Ann’s well-known idea.", "ann well known idea"},
		{"english", "ERR-4042", "err4042 err 4042"},
		{"english", "XR2207 (XR-2207)", "xr2207 xr2207 xr 2207"},
		{"english", "C++, C# and F#.", "c++ c c# c f# f"},
		{"english", "foo.bar_baz()", "foo.bar_baz foo bar baz"},
		{"english", "ERR_CONN_RESET", "err_conn_reset err conn reset"},
		{"english", "std::vector", "std::vector std vector"},
		{"english", "/etc/hosts", "etc host"},
		{"english", "user@example.com", "user@example.com user exampl com"},
		{"english", "10.0.0.1 and 1,000", "10.0.0.1 1000"},
		{"english", "-term +must -not foo* ~ ^99 \"unbalanced", "term must foo 99 unbalanc"},
		{"standard", "The OF cafés", "the of cafés"},
		{"standard", "ＡＢＣ１２３", "abc123"},
		{"standard", "ISTANBUL İstanbul", "istanbul istanbul"},
		{"standard", "दिल्ली में", "दिल्ली में"},
		{"standard", "東京都", "東 東京 京 京都 都"},
		{"standard", "京", "京"},
		{"standard", "ﾄｳｷｮｳ", "ト トウ ウ ウキ キ キョ ョ ョウ ウ"},
		{"standard", "Go言語v2", "go 言 言語 語 v2"},
		{"standard", "ที่นี่", "ที่ ที่นี่ นี่"},
		{"standard", "cafe\u0301", "café"},
		{"standard", "🙂 👨‍👩‍👧", ""},
		{"standard", "bad \xff byte", "bad byte"},
		{"standard+folded", "Ẹ̀kọ́ café Ўсё दिल्ली ที่", "eko cafe усе दिल्ली ที่"},
		{"german", "Die Häuser und das Haus", "haus haus"},
		{"french", "L'avion des élèves", "avion elev"},
		{"italian", "dell'acqua", "acqua"},
		{"spanish", "las políticas", "politic"},
		{"portuguese", "as políticas", "politic"},
		{"dutch", "de lichamelijke huizen", "licham huiz"},
		{"russian", "в больших домах", "больш дом"},
		{"arabic", "الكتاب والكتب", "كتاب كتب"},
		{"hindi", "किताबों में", "किताब"},
		{"german", "ERR-4042 C++", "err4042 err 4042 c++ c"},
	} {
		if got := strings.Join(mustAnalyzer(t, tt.analyzer).Terms(tt.text), " "); got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.analyzer, tt.text, got, tt.want)
		}
	}
}

func TestUnknownAnalyzer(t *testing.T) {
	for _, name := range []string{"klingon", "", "+folded", "english+folded+folded"} {
		if _, err := NewAnalyzer(name); err == nil || !strings.Contains(err.Error(), "english, french") {
			t.Errorf("%q: error = %v", name, err)
		}
	}
}

// everyAnalyzer is each of them, with accents kept and folded.
func everyAnalyzer() (names []string) {
	for _, name := range Analyzers() {
		names = append(names, name, name+Folded)
	}
	return names
}

func TestLongTermIsCutAlike(t *testing.T) {
	blob := strings.Repeat("é", 5000)
	terms := mustAnalyzer(t, "standard").Terms(blob)
	if len(terms) != 1 || len(terms[0]) > maxTermBytes || !utf8.ValidString(terms[0]) {
		t.Errorf("%d terms", len(terms))
	}
}

// TestHardQueries: text that other engines read as syntax is plain text here, finds itself, and never fails.
func TestHardQueries(t *testing.T) {
	raw, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Queries []string }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, name := range everyAnalyzer() {
		a := mustAnalyzer(t, name)
		b, all := NewBuilder(a), roaring.New()
		for i, q := range vectors.Queries {
			b.Add(q)
			all.AddInt(i)
		}
		s, err := Open(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range vectors.Queries {
			r, err := s.Search(Query{Text: q, Allow: all, K: len(vectors.Queries), K1: 0.9, B: 0.4})
			if err != nil {
				t.Errorf("%q: %v", q, err)
			}
			found := slices.ContainsFunc(r.Hits, func(h Hit) bool { return int(h.Chunk) == i })
			if want := len(a.Terms(q)) > 0; found != want {
				t.Errorf("%s %q finds itself: %v, want %v", name, q, found, want)
			}
		}
	}
}

func FuzzTerms(f *testing.F) {
	f.Add("ERR-4042 東京 can't C++ \u0301 ที่นี่ ''s 's_")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range everyAnalyzer() {
			for _, term := range mustAnalyzer(t, name).Terms(text) {
				if term == "" || len(term) > maxTermBytes || !utf8.ValidString(term) {
					t.Fatalf("term %q of %q", term, text)
				}
			}
		}
	})
}
