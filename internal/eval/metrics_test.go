package eval

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"quarry.dev/quarry/internal/testdata"
)

// question labels each document as a group of its own.
func question(documents ...string) Question {
	q := Question{ID: "q", Kind: Answerable, As: Principal{User: "ann"}}
	for _, d := range documents {
		q.Evidence = append(q.Evidence, []Evidence{{Document: d}})
	}
	return q
}

// ranking gives each document a lower score than the one before it.
func ranking(documents ...string) []Hit {
	var hits []Hit
	for i, d := range documents {
		hits = append(hits, Hit{Document: d, Start: i, End: i + 1, Score: 1 - float64(i)/1000})
	}
	return hits
}

func value(t *testing.T, m Metric, q Question, hits []Hit) float64 {
	t.Helper()
	v, err := m.value(q.find(hits))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMetricsOnHardCases(t *testing.T) {
	data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Eval []struct {
			Name    string
			Ranking []string
			Qrels   map[string]int
			K       int
			Expect  *struct{ Recall, NDCG, MRR float64 }
		}
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range vectors.Eval {
		q := Question{ID: "q", Kind: Answerable, As: Principal{User: "ann"}}
		for document, grade := range c.Qrels {
			if grade > 0 {
				q.Evidence = append(q.Evidence, []Evidence{{Document: document, Grade: &grade}})
			}
		}
		if c.Expect == nil || len(q.Evidence) == 0 {
			continue // the parser refuses an answerable question without evidence
		}
		checked++
		hits := ranking(c.Ranking...)
		near := func(name string, got, want float64) {
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: %s is %v, want %v", c.Name, name, got, want)
			}
		}
		near("recall", value(t, Metric{Recall, c.K}, q, hits), c.Expect.Recall)
		near("mrr", value(t, Metric{MRR, 0}, q, hits), c.Expect.MRR)
		near("ndcg", value(t, Metric{NDCG, c.K}, q, hits), c.Expect.NDCG)
	}
	if checked < 5 {
		t.Errorf("only %d vectors were checked", checked)
	}
}

// By hand: gains 1, 0, 3 at ranks 1 to 3 are 1 + 3/2 of at best 3 + 2/log2(3) + 1/2.
func TestGradedGains(t *testing.T) {
	two, three := 2, 3
	q := Question{Evidence: [][]Evidence{
		{{Document: "a"}}, {{Document: "c", Grade: &three}, {Document: "x"}}, {{Document: "missed", Grade: &two}},
	}}
	hits := ranking("a", "b", "c")
	want := (1 + 3/math.Log2(4)) / (3 + 2/math.Log2(3) + 1/math.Log2(4))
	if got := value(t, Metric{NDCG, 10}, q, hits); math.Abs(got-want) > 1e-12 {
		t.Errorf("nDCG is %v, want %v", got, want)
	}
	if recall, mrr := value(t, Metric{Recall, 10}, q, hits), value(t, Metric{MRR, 10}, q, hits); recall != 2./3 || mrr != 1 {
		t.Errorf("recall %v and MRR %v look at grades, want 2/3 and 1", recall, mrr)
	}
	// The member that was found gains its own grade, and the ideal is the best member.
	if got, want := value(t, Metric{NDCG, 1}, q, ranking("x")), 1./3; math.Abs(got-want) > 1e-12 {
		t.Errorf("a lesser alternative has nDCG@1 %v, want %v", got, want)
	}
}

// Equal scores must favour nobody: a constant scorer gets what the order of names gives, whatever order it returns.
func TestTies(t *testing.T) {
	q := question("c")
	for _, hits := range [][]Hit{{{Document: "c"}, {Document: "b"}, {Document: "a"}}, {{Document: "b"}, {Document: "a"}, {Document: "c"}}} {
		if got := q.find(hits)[0].rank; got != 3 {
			t.Errorf("the relevant document has rank %d, want 3", got)
		}
	}
}

func TestPassagesAndDocuments(t *testing.T) {
	hits := []Hit{
		{Document: "a", Start: 0, End: 9, Text: "nothing here", Score: 4},
		{Document: "a", Start: 9, End: 20, Text: "Parental  LEAVE lasts\n26 weeks.", Score: 3},
		{Document: "a", Start: 9, End: 20, Text: "Parental  LEAVE lasts\n26 weeks.", Score: 3},
		{Document: "b", Start: 0, End: 5, Text: "other", Score: 2},
	}
	documents := Question{Evidence: [][]Evidence{{{Document: "b"}}}}
	if got := documents.find(hits)[0].rank; got != 2 {
		t.Errorf("document b has rank %d among distinct documents, want 2", got)
	}
	passages := Question{Evidence: [][]Evidence{{{Document: "x"}, {Document: "a", Quote: "leave lasts 26 weeks"}}, {{Document: "b"}}}}
	if got := ranksOf(passages.find(hits)); got[0] != 2 || got[1] != 3 {
		t.Errorf("got ranks %v among distinct passages, want [2 3]", got)
	}
}

func TestQuoted(t *testing.T) {
	for _, c := range []struct {
		text, quote string
		want        bool
	}{
		{"Leave lasts **26 weeks**, at full pay.", "lasts 26 weeks, at full", true},
		{"... at full pay. Afterwards", "Leave lasts 26 weeks at full pay", false},
		{"weeks at full pay. Afterwards", "Leave lasts 26 weeks at full pay", true},
		{"the cat", "the leave", false},
		{"26 weeks", "26 weeks", true},
		{"of\ufb01ce hours", "office HOURS", true},
		{"産休は二十六週間です", "二十六週間", true},
		{"産休は六週です", "二十六週間", false},
		{"a b c x d e f", "a b c d e f", true},
		{"a b x c d x e f", "a b c d e f", false},
		{"anything", "", false},
		{"", "anything", false},
	} {
		if got := quoted(c.text, c.quote); got != c.want {
			t.Errorf("quoted(%q, %q) = %v", c.text, c.quote, got)
		}
	}
}

// Whatever the ranking: values lie in [0,1], more depth never lowers recall, and a perfect ranking has nDCG 1.
func TestMetricProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d", "e", "f"}
	for range 3000 {
		q := Question{Kind: Answerable}
		for range 1 + random.IntN(4) {
			var group []Evidence
			for range 1 + random.IntN(2) {
				grade := 1 + random.IntN(3)
				group = append(group, Evidence{Document: names[random.IntN(len(names))], Grade: &grade})
			}
			q.Evidence = append(q.Evidence, group)
		}
		var hits []Hit
		for range random.IntN(12) {
			hits = append(hits, Hit{Document: names[random.IntN(len(names))], Start: random.IntN(3), Score: float64(random.IntN(3))})
		}
		previous := 0.0
		for k := 1; k <= 8; k++ {
			for _, name := range []string{Recall, HitRate, MRR, NDCG} {
				v := value(t, Metric{name, k}, q, hits)
				if v < 0 || v > 1 || math.IsNaN(v) {
					t.Fatalf("%s@%d is %v for %v and %v", name, k, v, q.Evidence, hits)
				}
			}
			recall := value(t, Metric{Recall, k}, q, hits)
			if recall < previous {
				t.Fatalf("recall falls from %v to %v at k %d", previous, recall, k)
			}
			previous = recall
		}
	}
	if v := value(t, Metric{NDCG, 10}, question("a", "b", "c"), ranking("c", "c", "a", "b", "x")); v != 1 {
		t.Errorf("a perfect ranking has nDCG %v", v)
	}
}

func TestMetricCheck(t *testing.T) {
	for _, m := range []Metric{{"Precision", 5}, {Recall, 0}, {Recall, -1}, {NDCG, maxK + 1}} {
		if m.check() == nil {
			t.Errorf("%v is accepted", m)
		}
	}
}

func TestSummarise(t *testing.T) {
	subject, baseline := []float64{1, 1, 0, 1, 0.5, 1, 1, 0}, []float64{1, 0, 0, 1, 1, 1, 0, 0}
	m := Summarise(Metric{Recall, 10}, "seed", subject, baseline)
	if again := Summarise(Metric{Recall, 10}, "seed", subject, baseline); again.Lower != m.Lower || *again.Paired != *m.Paired {
		t.Error("equal answers gave different intervals")
	}
	if m.Value != 0.6875 || m.Lower > m.Value || m.Upper < m.Value || m.Lower < 0 || m.Upper > 1 {
		t.Errorf("got %+v", m)
	}
	if p := m.Paired; p.Gained != 2 || p.Lost != 1 || p.Baseline != 0.5 || p.Delta != 0.1875 || p.Lower > p.Delta || p.Upper < p.Delta {
		t.Errorf("got %+v", *m.Paired)
	}
	if empty := Summarise(Metric{Recall, 10}, "seed", nil, nil); empty.Questions != 0 || empty.Value != 0 || empty.Paired != nil {
		t.Errorf("got %+v without any question", empty)
	}
}

func TestPercentiles(t *testing.T) {
	var millis []float64
	for i := 200; i >= 1; i-- {
		millis = append(millis, float64(i))
	}
	if got := percentiles(millis); got != (Latency{100, 190, 198}) {
		t.Errorf("got %+v", got)
	}
	if got := percentiles([]float64{7}); got != (Latency{7, 7, 7}) {
		t.Errorf("got %+v", got)
	}
	if percentiles(nil) != (Latency{}) {
		t.Error("no latency at all is not zero")
	}
}
