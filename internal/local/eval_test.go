package local

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/search"
)

var quiet = slog.New(slog.DiscardHandler)

// labelledSet has two documents with text and one without, and three questions.
func labelledSet(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "set")
	write(t, dir+"/corpus.jsonl", `{"_id":"a/1","title":"Leave","text":"Parental leave lasts sixteen weeks."}
{"_id":"b","title":"","text":"Expenses are paid monthly."}
{"_id":"c","title":"","text":""}
`)
	write(t, dir+"/queries.jsonl", `{"_id":"1","text":"how long is parental leave"}
{"_id":"2","text":"when are expenses paid"}
{"_id":"3","text":"the missing one"}
`)
	write(t, dir+"/qrels.tsv", "query-id\tcorpus-id\tscore\n1\ta/1\t2\n1\tgone\t1\n2\tb\t1\n3\tc\t1\n")
	return dir
}

func staticRecipe(t *testing.T, text string) Recipe {
	t.Helper()
	r, err := ReadBEIRRecipe(write(t, t.TempDir()+"/recipe.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	r.Indexing.Embedding.Model = "static-256"
	return r
}

func TestCompareLabelledSet(t *testing.T) {
	dir, out := labelledSet(t), t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	set, err := ReadBEIR(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	recipe := staticRecipe(t, "{}")
	if i := recipe.Indexing; i.Chunking.Strategy != v1alpha1.ChunkWhole || i.Context.Type != v1alpha1.ContextNone {
		t.Errorf("a silent recipe has %+v and %+v", i.Chunking, i.Context)
	}
	table, err := Compare(t.Context(), set, out, recipe, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if table.Documents != 3 || table.Chunks != 2 || table.questions != 3 || len(table.Systems) != 4 || table.Invalid() != "" {
		t.Errorf("%+v", table)
	}
	for system, figures := range table.Systems {
		// One question finds half of its documents, one all, one none; the ideal of the first is 2 + 1/log2(3).
		if got := fmt.Sprintf("%.4f %.4f %.4f", figures["recall@10"].Value, figures["mrr"].Value, figures["ndcg@10"].Value); got != "0.5000 0.6667 0.5867" {
			t.Errorf("%s: recall, MRR, nDCG are %s", system, got)
		}
	}
	for _, want := range []string{"1 qrels name documents that the corpus lacks (first: gone)", "1 documents could not be indexed (first: c.txt, Empty"} {
		if !strings.Contains(table.Text(), want) {
			t.Errorf("%q is not in\n%s", want, table.Text())
		}
	}
	// The second run makes nothing again; another fusion does not either.
	recipe.Retrieval.Fusion.DenseWeight = "1"
	again, err := Compare(t.Context(), set, out, recipe, func(what string, _, _ int) {
		if what == "chunk" || what == "embed" || what == "build" {
			t.Errorf("%s runs again", what)
		}
	}, quiet, HNSW, Hybrid)
	if err != nil || len(again.Systems) != 2 || again.Systems[HNSW]["mrr"] != table.Systems[HNSW]["mrr"] {
		t.Errorf("%+v, %v", again, err)
	}
}

// Chunks of one document may fill an answer: the retrievers alone go deeper, and the table says what the hybrid cannot see.
func TestCompareManyChunks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	loud, quietly := strings.Repeat("\\n\\nLeave leave leave leave.", 400), "One leave among many words of a long sentence about the weather in the north."
	write(t, dir+"/corpus.jsonl", fmt.Sprintf(`{"_id":"a","text":"%s"}`+"\n"+`{"_id":"b","text":"%s"}`+"\n", numbered(loud), quietly))
	write(t, dir+"/queries.jsonl", `{"_id":"1","text":"leave"}`)
	write(t, dir+"/qrels.tsv", "1\tb\t1\n")
	set, err := ReadBEIR(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Compare(t.Context(), set, t.TempDir(), staticRecipe(t, "indexing: {chunking: {strategy: Fixed, size: 16, overlap: 0}}"), nil, quiet, BM25, Hybrid)
	if err != nil {
		t.Fatal(err)
	}
	if bm25, hybrid := table.Systems[BM25]["recall@100"].Value, table.Systems[Hybrid]["recall@100"].Value; bm25 != 1 || hybrid != 0 {
		t.Errorf("recall@100 is %v for bm25 and %v for hybrid, want 1 and 0\n%s", bm25, hybrid, table.Text())
	}
	if want := "1 answers had so many, of 1 documents on average"; !strings.Contains(table.Text(), want) {
		t.Errorf("%q is not in\n%s", want, table.Text())
	}
}

// numbered makes the lines differ, because equal passages are shown once.
func numbered(text string) string {
	parts := strings.Split(text, ".")
	for i := range parts[:len(parts)-1] {
		parts[i] += fmt.Sprintf(" leave %d.", i)
	}
	return strings.Join(parts, "")
}

func TestCompareRefuses(t *testing.T) {
	dir := labelledSet(t)
	set, err := ReadBEIR(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	_, unknown := Compare(t.Context(), set, out, staticRecipe(t, "{}"), nil, quiet, BM25, "bm52")
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("a system that is not known was told after indexing: %v, %v", left, err)
	}
	heavy := staticRecipe(t, "{}")
	heavy.Retrieval.Fusion.DenseWeight = "2"
	_, weight := Compare(t.Context(), set, t.TempDir(), heavy, nil, quiet)
	write(t, dir+"/qrels.tsv", "1\tgone\t1\n2\tlost\t1\n")
	if set, err = ReadBEIR(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	table, err := Compare(t.Context(), set, t.TempDir(), staticRecipe(t, "{}"), nil, quiet, Hybrid)
	if err != nil {
		t.Fatal(err)
	}
	_, binary := (&Stack{}).Search(t.Context(), access.Identity{User: "ann"}, search.Request{Query: "caf\xe9"})
	for says, got := range map[string]string{
		`system "bm52" is not known: use bm25`: fmt.Sprint(unknown), "fusion.denseWeight": fmt.Sprint(weight),
		"2 of 2 answerable questions are stale": table.Invalid(), "query is not valid UTF-8": fmt.Sprint(binary),
	} {
		if !strings.Contains(got, says) {
			t.Errorf("got %q, want something on %q", got, says)
		}
	}
}

func TestCacheIsOfOneFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	a, errA := Cache("x/set")
	b, errB := Cache("y/set")
	again, errC := Cache("x/../x/set")
	if errA != nil || errB != nil || errC != nil || a == b || a != again || !strings.HasPrefix(filepath.Base(a), "set-") {
		t.Errorf("%q, %q, %q: %v %v %v", a, b, again, errA, errB, errC)
	}
}
