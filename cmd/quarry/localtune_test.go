package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/tune"
)

// beirOfCodes is a set whose questions are codes that only an exact match finds: BM25 is right, the static table is not.
func beirOfCodes(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	words := strings.Fields("pump valve seal rotor shaft bearing housing flange gasket motor pressure water oil filter gauge")
	var corpus, queries strings.Builder
	qrels := "query-id\tcorpus-id\tscore\n"
	for i := range 120 {
		var text []string
		for j := range 60 {
			text = append(text, words[(i*7+j*j+i*j)%len(words)])
		}
		code := fmt.Sprintf("q%dz%d", i*37%101, i)
		fmt.Fprintf(&corpus, `{"_id":"d%d","title":"","text":"%s %s"}`+"\n", i, strings.Join(text, " "), code)
		fmt.Fprintf(&queries, `{"_id":"q%d","text":"%s %s %s"}`+"\n", i, words[i%15], words[i%7], code)
		qrels += fmt.Sprintf("q%d\td%d\t1\n", i, i)
	}
	for name, text := range map[string]string{"corpus.jsonl": corpus.String(), "queries.jsonl": queries.String(), "qrels.tsv": qrels} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func tuneJSON(t *testing.T, args ...string) tune.Report {
	t.Helper()
	out, err := run(t, append([]string{"local", "tune", "--json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var r tune.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

const (
	worst    = "indexing: {embedding: {model: static-256}, chunking: {strategy: Whole}}\nretrieval: {fusion: {denseWeight: \"1\"}}\n"
	someGrid = "chunking: [{strategy: Fixed, size: 32, overlap: 0}]\ncontext: []\nmodels: [static-256]\nfusion: [{denseWeight: \"0\"}, {denseWeight: \"0.5\"}]\nbm25: [{b: \"0.75\"}]\nrerank: []\n"
)

func TestLocalTune(t *testing.T) {
	beir, out, written := beirOfCodes(t), filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "best.yaml")
	args := []string{"--beir", beir, "--recipe", file(t, worst), "--grid", file(t, someGrid), "--out", out}
	if r := tuneJSON(t, append(args, "--max", "2", "--dev-only")...); len(r.Trials) != 2 || r.Stopped == "" || r.Gate != nil {
		t.Fatalf("%d trials, stopped %q, gate %+v", len(r.Trials), r.Stopped, r.Gate)
	}
	r := tuneJSON(t, append(args, "--write", written)...)
	if r.Outcome != tune.Better || !r.Winner.Compared.Real || r.Gate.Looks != 1 || !r.Gate.Compared.Real || r.Apply.Retrieval.Fusion.DenseWeight == "1" {
		t.Errorf("%s: %q, gate %+v", r.Outcome, r.Verdict, r.Gate)
	}
	recipe, err := local.ReadRecipe(written)
	if applied := (tune.Recipe{Indexing: recipe.Indexing, Retrieval: recipe.Retrieval}); err != nil || applied.Key() != r.Apply.Key() {
		t.Errorf("%s is read as %s, want %s, %v", r.YAML, applied.Describe(), r.Apply.Describe(), err)
	}
	// Dev and Gate together are what local eval measures of the recipe that was written.
	text, err := run(t, "local", "eval", "--beir", beir, "--recipe", written, "--out", filepath.Join(t.TempDir(), "eval"), "--systems", "hybrid", "--json")
	var table local.Table
	if err != nil || json.Unmarshal([]byte(text), &table) != nil {
		t.Fatalf("%s, %v", text, err)
	}
	together := (r.Winner.Mean*float64(r.DevQuestions) + r.Gate.Value*float64(r.Gate.Questions)) / float64(r.DevQuestions+r.Gate.Questions)
	if eval := table.Systems[local.Hybrid]["ndcg@10"].Value; math.Abs(eval-together) > 1e-12 || r.DevQuestions+r.Gate.Questions != 120 {
		t.Errorf("local eval says %v, both parts together %v", eval, together)
	}
	shown, err := run(t, append([]string{"local", "tune"}, args...)...)
	for _, want := range []string{"better", "current", "Apply the recipe below", "corrected for", "denseWeight"} {
		if err != nil || !strings.Contains(shown, want) {
			t.Errorf("the report lacks %q: %v\n%s", want, err, shown)
		}
	}
	other := append(args[:4:4], "--out", out, "--grid", file(t, strings.ReplaceAll(someGrid, `"0"`, `"0.2"`)+"\n"))
	if r.Apply.Retrieval.Fusion.DenseWeight == "0" {
		if _, err := run(t, append([]string{"local", "tune"}, other...)...); err == nil || !strings.Contains(err.Error(), "looked at before") {
			t.Errorf("a second winner on the same Gate part: %v", err)
		}
		if again := tuneJSON(t, append(other, "--again")...); again.Gate.Looks != 2 {
			t.Errorf("%+v", again.Gate)
		}
	} else {
		t.Errorf("the best recipe is %s: want dense 0, which the second half of this test rests on", r.Apply.Describe())
	}
}

func TestLocalTuneRefuses(t *testing.T) {
	beir := beirOfCodes(t)
	few := filepath.Join(t.TempDir(), "few.jsonl")
	if err := os.WriteFile(few, []byte(`{"id":"1","question":"who","as":{"user":"a"},"evidence":[[{"document":"a.md"}]]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for says, args := range map[string][]string{
		"either --beir":             {"docs"},
		"at least 20":               {beir, "--set", few},
		`"map"`:                     {"--beir", beir, "--metric", "map"},
		"--tolerance is 2":          {"--beir", beir, "--tolerance", "2"},
		"--max -1":                  {"--beir", beir, "--max", "-1"},
		"read the grid":             {"--beir", beir, "--grid", "none.yaml"},
		"chunking[0].size is 3":     {"--beir", beir, "--grid", file(t, "chunking: [{strategy: Fixed, size: 3}]")},
		"unknown field":             {"--beir", beir, "--grid", file(t, "sizes: [3]")},
		"unknown field \"chunkin\"": {"--beir", beir, "--recipe", file(t, "chunkin: 3")},
	} {
		if _, err := run(t, append([]string{"local", "tune", "--out", out}, args...)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", args, err, says)
		}
	}
}
