package bench

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/tune"
)

func questions(n int, part func(i int) eval.Part) []eval.Question {
	out := make([]eval.Question, n)
	for i := range out {
		out[i] = eval.Question{ID: fmt.Sprint("q", i), Question: fmt.Sprintf("part number zq%dx", i), As: eval.Principal{User: "ann"},
			Kind: eval.Answerable, Part: part(i), Evidence: [][]eval.Evidence{{{Document: fmt.Sprintf("%d.md", i)}}}}
	}
	return out
}

func TestDivide(t *testing.T) {
	set := questions(200, func(int) eval.Part { return "" })
	p, err := Divide(set)
	if err != nil || !p.Hashed || len(p.Dev)+len(p.Gate) != 200 || len(p.Dev) < 80 || len(p.Gate) < 80 {
		t.Fatalf("%d Dev, %d Gate, hashed %v, %v", len(p.Dev), len(p.Gate), p.Hashed, err)
	}
	gate := map[string]bool{}
	for _, q := range p.Gate {
		gate[q.ID] = true
	}
	// A question keeps its part when others come and go.
	fewer, err := Divide(set[50:150])
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range fewer.Dev {
		if gate[q.ID] {
			t.Errorf("%s has moved to Dev", q.ID)
		}
	}
	named, err := Divide(questions(90, func(i int) eval.Part {
		if i < 30 {
			return eval.Dev
		}
		return ""
	}))
	if err != nil || named.Hashed || len(named.Dev) != 30 || len(named.Gate) != 60 {
		t.Errorf("named parts: %d Dev, %d Gate, %v", len(named.Dev), len(named.Gate), err)
	}
	if _, err := Divide(set[:30]); err == nil || !strings.Contains(err.Error(), "at least 20") {
		t.Errorf("30 questions: %v", err)
	}
}

func TestParseMetric(t *testing.T) {
	for name, want := range map[string]eval.Metric{"nDCG@10": {Name: eval.NDCG, K: 10}, "recall@5": {Name: eval.Recall, K: 5}, "mrr": {Name: eval.MRR, K: 100}} {
		if m, err := ParseMetric(name); err != nil || m != want {
			t.Errorf("%s is %v, %v", name, m, err)
		}
	}
	if _, err := ParseMetric("map"); err == nil || !strings.Contains(err.Error(), "ndcg@10") {
		t.Errorf("got %v", err)
	}
}

// open writes a folder of documents, one per question, and a bench on it. Every third document is restricted.
func open(t *testing.T, n int) *Bench {
	t.Helper()
	dir := t.TempDir()
	documents := filepath.Join(dir, "docs")
	if err := os.Mkdir(documents, 0o755); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields("pump valve seal rotor shaft bearing housing flange gasket motor pressure water oil filter gauge")
	var set strings.Builder
	for i := range n {
		var text strings.Builder
		for j := range 40 {
			fmt.Fprintf(&text, "%s ", words[(i*7+j*j)%len(words)])
		}
		fmt.Fprintf(&text, "\n\nOrder part number zq%dx.\n", i)
		if err := os.WriteFile(filepath.Join(documents, fmt.Sprintf("%d.md", i)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&set, `{"id":"q%d","question":"%s part number zq%dx","as":{"user":"ann"},"evidence":[[{"document":"%d.md"}]]}`+"\n", i, words[i%len(words)], i, i)
	}
	file := filepath.Join(dir, "eval.jsonl")
	if err := os.WriteFile(file, []byte(set.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := local.ReadSet(documents, file)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Divide(s.Questions)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Set: s, Parts: parts, Access: v1alpha1.AccessSpec{Default: v1alpha1.AccessEveryone, SidecarSuffix: ".acl.json"},
		Out: filepath.Join(dir, "out"), Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func recipe(t *testing.T) tune.Recipe {
	t.Helper()
	r, err := local.ReadRecipe("")
	if err != nil {
		t.Fatal(err)
	}
	r.Indexing.Embedding.Model = embed.Static256
	return tune.Recipe{Indexing: r.Indexing, Retrieval: r.Retrieval}
}

// What a trial measures, with an index that other recipes have used and with answers that were remembered, is what local
// eval measures of the same recipe on the same questions, to the last digit.
func TestMeasureEqualsLocalEval(t *testing.T) {
	b := open(t, 60)
	base := recipe(t)
	weighted, ranks, k1 := base, base, base
	weighted.Retrieval.Fusion.DenseWeight = "0.9"
	ranks.Retrieval.Fusion.Type = v1alpha1.FusionReciprocalRank
	k1.Indexing.BM25.K1, k1.Indexing.BM25.B = "2", "1"
	sum := 0.0
	for _, r := range []tune.Recipe{base, weighted, ranks, k1, base, weighted} {
		got, err := b.Measure(t.Context(), r, eval.Dev)
		if err != nil {
			t.Fatal(err)
		}
		set := b.Set
		set.Questions = b.Parts.Dev
		want, err := local.Compare(t.Context(), set, t.TempDir(), local.Recipe{Access: b.Access, Indexing: r.Indexing, Retrieval: r.Retrieval}, nil, b.Log, local.Hybrid)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range local.Metrics() {
			values := got.Values[m.String()]
			mean := 0.0
			for _, v := range values {
				mean += v
			}
			mean /= float64(len(values))
			if figure := want.Systems[local.Hybrid][local.Name(m)].Value; len(values) != len(b.Parts.Dev) || mean != figure {
				t.Errorf("%s: %s is %v over %d questions, local eval says %v", r.Describe(), m, mean, len(values), figure)
			}
		}
		sum += got.Values["NDCG@10"][0]
		if got.Chunks != want.Chunks || got.Documents != 60 || got.Characters < 100 {
			t.Errorf("%s: %+v", r.Describe(), got)
		}
	}
	if math.IsNaN(sum) || sum == 0 {
		t.Errorf("nothing was found: %v", sum)
	}
}

func TestSubjectChangesWithTheDocumentsAndWhoMayReadThem(t *testing.T) {
	b := open(t, 60)
	subject := func() string {
		s, err := b.Subject(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := subject()
	if again := subject(); again != first {
		t.Error("the same documents have two names")
	}
	b.Access.Default = v1alpha1.AccessNobody
	if subject() == first {
		t.Error("other rules leave the name as it is")
	}
	if _, err := b.Measure(t.Context(), recipe(t), eval.Dev); err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("questions whose asker may read nothing: %v", err)
	}
}
