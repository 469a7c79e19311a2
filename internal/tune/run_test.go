package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/eval"
)

var ndcg = eval.Metric{Name: eval.NDCG, K: 10}

// simulated answers questions of either part with values around a mean that the recipe decides.
type simulated struct {
	questions int
	seed      uint64
	// quality is the expected value of a recipe, 0 to 1; noise the standard deviation per question and recipe.
	quality func(Recipe) float64
	noise   float64
	chunks  func(Recipe) int64
	// fail is a field whose recipes cannot be measured.
	fail string
	// failAt kills the measurer at that call; 0 never.
	failAt int
	calls  []string
}

var errKilled = errors.New("killed")

func (s *simulated) Measure(_ context.Context, r Recipe, part eval.Part) (Measurement, error) {
	s.calls = append(s.calls, string(part)+" "+r.Describe())
	if len(s.calls) == s.failAt {
		return Measurement{}, errKilled
	}
	if s.fail != "" && has(r, s.fail) == 1 {
		return Measurement{}, errors.New("too slow")
	}
	draw := func(parts ...any) float64 {
		h := fnv.New64a()
		fmt.Fprintln(h, append(parts, part)...)
		return rand.New(rand.NewPCG(h.Sum64(), s.seed)).NormFloat64()
	}
	m := Measurement{Documents: 100, Chunks: 1000, Values: map[string][]float64{}}
	if s.chunks != nil {
		m.Chunks = s.chunks(r)
	}
	for q := range s.questions {
		// The question's own difficulty is common to all recipes, which is why comparisons are paired.
		v := s.quality(r) + 0.2*draw(q) + s.noise*draw(q, r.Key())
		m.Values[ndcg.String()] = append(m.Values[ndcg.String()], min(max(v, 0), 1))
	}
	return m, nil
}

func input(t *testing.T, m Measurer, dir string) Input {
	t.Helper()
	store, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Input{
		Plan:     Plan{Baseline: baseline(), Grid: DefaultGrid(true, bothModels)},
		Measurer: m, Store: store, Subject: "subject", DevSet: "dev", GateSet: "gate", Metric: ndcg, Tolerance: 0.01, Now: time.Now,
	}
}

func has(r Recipe, field string) float64 {
	for _, f := range r.fields() {
		if f == field {
			return 1
		}
	}
	return 0
}

// preferring is better by a step for each of the fields.
func preferring(base, step float64, fields ...string) func(Recipe) float64 {
	return func(r Recipe) float64 {
		quality := base
		for _, f := range fields {
			quality += step * has(r, f)
		}
		return quality
	}
}

func TestRunFindsAndConfirmsTheTrueBest(t *testing.T) {
	truth := []string{"Sentence 128/16", "context None", "dense 0.7"}
	m := &simulated{questions: 150, noise: 0.03, quality: preferring(0.4, 0.05, truth...)}
	result, err := Run(t.Context(), input(t, m, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range truth {
		if has(result.Apply, f) == 0 {
			t.Errorf("applies %s, which lacks %s", result.Apply.Describe(), f)
		}
	}
	winner := result.Trials[result.Winner]
	if result.Outcome != Better || !winner.Compared.Real || result.Gate.Looks != 1 || !result.Gate.Compared.Real || result.Gate.Questions != 150 {
		t.Errorf("outcome %s, winner %+v, gate %+v", result.Outcome, winner.Compared, result.Gate)
	}
	if d := winner.Compared.Delta; d < 0.13 || d > 0.17 || winner.Compared.Lower > d || winner.Compared.Upper < d {
		t.Errorf("the difference is %v (%v to %v), want 0.15", d, winner.Compared.Lower, winner.Compared.Upper)
	}
	gate := 0
	for _, call := range m.calls {
		gate += strings.Count(call, "Gate ")
	}
	if gate != 2 {
		t.Errorf("%d measurements of the Gate part, want the winner's and the baseline's", gate)
	}
}

// The transformer gains nothing here, so the static table wins, and is said to be cheaper, not better.
func TestRunPrefersTheCheaperOfEqualRecipes(t *testing.T) {
	m := &simulated{questions: 100, noise: 0.004, quality: preferring(0.5, 0)}
	result, err := Run(t.Context(), input(t, m, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != Cheaper || result.Apply.Indexing.Embedding.Model != embed.Static256 || result.Apply.reranks() {
		t.Errorf("%s: %s", result.Outcome, result.Apply.Describe())
	}
	m = &simulated{questions: 100, noise: 0.004, quality: preferring(0.5, 0.1, embed.MiniLM)}
	result, err = Run(t.Context(), input(t, m, t.TempDir()))
	if err != nil || result.Outcome != Keep || result.Apply.Key() != baseline().Key() || result.Gate != nil {
		t.Errorf("where nothing but the baseline's model is better: %s %s, gate %v, %v", result.Outcome, result.Apply.Describe(), result.Gate, err)
	}
}

func TestFewerChunksAreCheaper(t *testing.T) {
	m := &simulated{questions: 100, noise: 0.001, quality: preferring(0.5, 0), chunks: func(r Recipe) int64 { return 1000 - int64(900*has(r, "Whole")) }}
	result, err := Run(t.Context(), input(t, m, t.TempDir()))
	if err != nil || has(result.Apply, "Whole") == 0 {
		t.Errorf("applies %s, %v", result.Apply.Describe(), err)
	}
}

// Where no recipe is better than another, in at most 5 % of all searches any is called real, and hardly ever one is applied
// as better. Of 60 searches 3 are expected to raise a false alarm at most; 8 or more would happen once in 75 if the level
// were only just kept. All that a search decides takes part, its stages included.
func TestNullCase(t *testing.T) {
	plan := Plan{Baseline: baseline(), Grid: DefaultGrid(true, bothModels)}
	alarms, better := 0, 0
	for seed := range uint64(60) {
		m := &simulated{questions: 24, seed: seed, noise: 0.1, quality: preferring(0.5, 0)}
		measurements := map[string]Measurement{}
		steps := carryOut(t, plan, func(r Recipe) float64 {
			found, err := m.Measure(t.Context(), r, eval.Dev)
			if err != nil {
				t.Fatal(err)
			}
			measurements[r.Key()] = found
			return mean(found.Values[ndcg.String()])
		})
		var trials []Trial
		for _, s := range steps {
			trials = append(trials, Trial{Stage: s.Stage, Recipe: s.Recipe, Measurement: measurements[s.Recipe.Key()]})
		}
		j := Judge(trials, ndcg, fmt.Sprint("dev", seed), 0.01)
		if slices.ContainsFunc(j.Trials[1:], func(t Trial) bool { return t.Compared.Real }) {
			alarms++
		}
		winner, err := m.Measure(t.Context(), j.Trials[j.Winner].Recipe, eval.Gate)
		base, errBase := m.Measure(t.Context(), plan.Baseline, eval.Gate)
		if err != nil || errBase != nil {
			t.Fatal(err, errBase)
		}
		if gate := JudgeGate(winner, base, ndcg, fmt.Sprint("gate", seed), 1); j.Decide(&gate, 0.01) == Better {
			better++
		}
	}
	if alarms > 7 || better > 7 {
		t.Errorf("in 60 searches without any true difference, %d called one real and %d applied one as better", alarms, better)
	}
	t.Logf("false alarms %d, falsely better %d of 60", alarms, better)
}

func TestResumeAfterAKill(t *testing.T) {
	quality := preferring(0.4, 0.05, "Sentence 128/16", "context None")
	whole := &simulated{questions: 60, noise: 0.05, quality: quality}
	want, err := Run(t.Context(), input(t, whole, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	dir, calls := t.TempDir(), 0
	for _, failAt := range []int{1, 9, 20, 0} {
		m := &simulated{questions: 60, noise: 0.05, quality: quality, failAt: failAt}
		got, err := Run(t.Context(), input(t, m, dir))
		if failAt > 0 {
			if !errors.Is(err, errKilled) {
				t.Fatalf("killed at %d: %v", failAt, err)
			}
			calls += failAt - 1
			// A kill in the middle of a write leaves half a line.
			f, err := os.OpenFile(filepath.Join(dir, measurementsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(f, `{"key":"sha256:`)
			f.Close()
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the run that went on found another result, %v", err)
		}
		calls += len(m.calls)
	}
	if calls != len(whole.calls) {
		t.Errorf("%d measurements with kills, %d without", calls, len(whole.calls))
	}
}

func TestMeasurementsAreKeyedByAllTheyDependOn(t *testing.T) {
	dir := t.TempDir()
	count := func(change func(*Input)) int {
		m := &simulated{questions: 30, quality: preferring(0.5, 0)}
		in := input(t, m, dir)
		in.Plan.Grid = Grid{}
		change(&in)
		if _, err := Run(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		return len(m.calls)
	}
	for i, c := range []struct {
		change func(*Input)
		want   int
	}{
		{func(*Input) {}, 1}, {func(*Input) {}, 0},
		{func(in *Input) { in.Subject = "newer corpus" }, 1},
		{func(in *Input) { in.DevSet = "other questions" }, 1},
		{func(in *Input) { in.Plan.Baseline.Retrieval.TopK = 5 }, 1},
	} {
		if got := count(c.change); got != c.want {
			t.Errorf("case %d: %d measurements, want %d", i, got, c.want)
		}
	}
}

func TestTheGateIsLookedAtOnce(t *testing.T) {
	dir := t.TempDir()
	better := func(field string) Measurer {
		return &simulated{questions: 60, noise: 0.02, quality: preferring(0.4, 0.1, field)}
	}
	run := func(subject, field string, again bool) Result {
		in := input(t, better(field), dir)
		in.Subject, in.Again = subject, again
		result, err := Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if r := run("a", "dense 0.9", false); r.Gate == nil || r.Gate.Looks != 1 || r.Outcome != Better {
		t.Fatalf("the first run: %+v", r.Gate)
	}
	if r := run("a", "dense 0.9", false); r.Gate == nil || r.Gate.Looks != 1 {
		t.Errorf("the same pair again shows nothing new, and is refused: %+v", r.Gate)
	}
	r := run("b", "dense 0.1", false)
	if r.Gate != nil || r.Outcome != Unconfirmed || !strings.Contains(r.Refused, "1 times") || !strings.Contains(r.Refused, "--again") {
		t.Errorf("another winner on the same Gate part: outcome %s, refused %q", r.Outcome, r.Refused)
	}
	r = run("b", "dense 0.1", true)
	if r.Gate == nil || r.Gate.Looks != 2 || r.Gate.Compared.AdjustedP != 2*r.Gate.Compared.P {
		t.Errorf("with --again: %+v", r.Gate)
	}
}

// A look is recorded before it happens: a kill in between does not grant another one.
func TestALookThatWasCutShortCounts(t *testing.T) {
	dir := t.TempDir()
	m := &simulated{questions: 60, noise: 0.02, quality: preferring(0.4, 0.1, "dense 0.9")}
	if _, err := Run(t.Context(), input(t, m, t.TempDir())); err != nil {
		t.Fatal(err)
	}
	killed := &simulated{questions: 60, noise: 0.02, quality: m.quality, failAt: len(m.calls)}
	if _, err := Run(t.Context(), input(t, killed, dir)); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	store, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pairs, err := store.Look(Look{Gate: "gate", Pair: "other pair"}, false); pairs != 1 || !errors.Is(err, ErrGateUsed) {
		t.Errorf("%d looks, want 1; %v", pairs, err)
	}
}

func TestBounds(t *testing.T) {
	m := &simulated{questions: 30, quality: preferring(0.5, 0)}
	in := input(t, m, t.TempDir())
	in.Max = 7
	var last Progress
	in.Progress = func(p Progress) { last = p }
	result, err := Run(t.Context(), in)
	if err != nil || len(result.Trials) != 7 || !strings.Contains(result.Stopped, "--max") || last.Done != 7 || last.Most != 7 || result.Compared != 6 {
		t.Errorf("%d trials, stopped %q, progress %d of %d, %v", len(result.Trials), result.Stopped, last.Done, last.Most, err)
	}
	clock := time.Unix(0, 0)
	in = input(t, m, t.TempDir())
	in.Budget, in.Now = 10*time.Minute, func() time.Time { clock = clock.Add(time.Minute); return clock }
	result, err = Run(t.Context(), in)
	if err != nil || len(result.Trials) < 2 || len(result.Trials) > 6 || !strings.Contains(result.Stopped, "--budget") {
		t.Errorf("%d trials, stopped %q, %v", len(result.Trials), result.Stopped, err)
	}
}

// A reranker that does not answer is left out and said; anything else that fails ends the search.
func TestARerankerThatIsTooSlow(t *testing.T) {
	slow := "LateInteraction minilm-l6-v2 20 dense 0.6"
	m := &simulated{questions: 30, quality: preferring(0.5, 0.1, slow), fail: slow}
	result, err := Run(t.Context(), input(t, m, t.TempDir()))
	if err != nil || len(result.LeftOut) != 2 || !strings.Contains(result.LeftOut[0], "too slow") || result.Apply.reranks() {
		t.Errorf("left out %q, applies %s, %v", result.LeftOut, result.Apply.Describe(), err)
	}
	m.fail = "Fixed 256/32"
	if _, err := Run(t.Context(), input(t, m, t.TempDir())); err == nil || !strings.Contains(err.Error(), "Fixed 256/32") {
		t.Errorf("got %v", err)
	}
}

func TestDamagedStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, measurementsFile), []byte("{}\nno json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("got %v", err)
	}
}

func TestDecide(t *testing.T) {
	at := func(delta float64, real bool) *GateResult {
		c := &Comparison{Real: real}
		c.Delta = delta
		return &GateResult{Compared: c}
	}
	static, reranked := baseline(), baseline()
	static.Indexing.Embedding.Model = embed.Static256
	reranked.Retrieval.Rerank.Type = v1alpha1.RerankLateInteraction
	for _, c := range []struct {
		name   string
		winner Recipe
		dev    *Comparison
		gate   *GateResult
		want   Outcome
	}{
		{"real on Dev and on Gate", reranked, at(0.1, true).Compared, at(0.1, true), Better},
		{"real on Dev, the same way on Gate", reranked, at(0.1, true).Compared, at(0.01, false), Better},
		{"real on Gate alone", reranked, at(0.05, false).Compared, at(0.1, true), Better},
		{"real on neither", reranked, at(0.05, false).Compared, at(0.05, false), Keep},
		{"real on Dev, worse on Gate", reranked, at(0.1, true).Compared, at(-0.01, false), Keep},
		{"cheaper and as good", static, at(-0.005, false).Compared, at(-0.005, false), Cheaper},
		{"cheaper, further behind than the tolerance on Gate", static, at(-0.005, false).Compared, at(-0.03, false), Keep},
		{"cheaper, really worse on Gate", static, at(-0.005, false).Compared, at(-0.005, true), Keep},
		{"the Gate part was refused", static, at(0.1, true).Compared, nil, Unconfirmed},
	} {
		j := Judgement{Trials: []Trial{{Recipe: baseline()}, {Recipe: c.winner, Compared: c.dev}}, Winner: 1}
		if got := j.Decide(c.gate, 0.01); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestReadGrid(t *testing.T) {
	fallback := DefaultGrid(true, bothModels)
	g, err := ReadGrid([]byte("chunking: [{strategy: Fixed, size: 64, overlap: 8}]\nbm25: []\n"), fallback, bothModels)
	if err != nil || len(g.Chunking) != 1 || len(g.BM25) != 0 || !reflect.DeepEqual(g.Fusion, fallback.Fusion) {
		t.Errorf("%+v, %v", g, err)
	}
	if _, err := ReadGrid([]byte("{}"), fallback, bothModels); err != nil {
		t.Errorf("the default grid is refused: %v", err)
	}
	for text, says := range map[string]string{
		"chunks: []": "chunks",
		"chunking: [{strategy: Semantic, size: 64}]":                                 `chunking[0].strategy is "Semantic"`,
		"chunking: [{strategy: Fixed, size: 64, overlap: 64}]":                       "chunking[0].overlap is 64",
		"chunking: [{strategy: Fixed, size: 8}]":                                     "chunking[0].size is 8",
		"context: [None, Model]":                                                     `context[1].type is "Model"`,
		"models: [bert]":                                                             `models[0].name is "bert"`,
		"fusion: [{denseWeight: \"1.5\"}]":                                           `fusion[0].denseWeight is "1.5"`,
		"fusion: [{reciprocalRank: {k: 5}}]":                                         "fusion[0].reciprocalRank is set",
		"fusion: [{type: ReciprocalRank, reciprocalRank: {weights: {bm25: \"x\"}}}]": `weights.bm25 is "x"`,
		"bm25: [{k1: \"-1\"}]":                                                       `bm25[0].k1 is "-1"`,
		"bm25: [{b: \"1.1\"}]":                                                       `bm25[0].b is "1.1"`,
		"rerank: [{type: Endpoint}]":                                                 `rerank[0].type is "Endpoint"`,
		"rerank: [{type: None, candidates: 5}]":                                      "rerank[0].type is None",
		"rerank: [{type: Builtin, candidates: 101}]":                                 "rerank[0].candidates is 101",
		"chunking: [{strategy: X}]\nbm25: [{b: \"2\"}]":                              `bm25[0].b is "2"`,
	} {
		if _, err := ReadGrid([]byte(text), fallback, bothModels); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want something on %q", text, err, says)
		}
	}
}

// What is printed can be applied: reading it gives the same recipe.
func TestYAML(t *testing.T) {
	for _, s := range carryOut(t, Plan{Baseline: baseline(), Grid: DefaultGrid(true, bothModels)}, func(Recipe) float64 { return 0.5 }) {
		text, err := s.Recipe.YAML()
		if err != nil {
			t.Fatal(err)
		}
		read, err := parse(text)
		if err != nil || read.Key() != s.Recipe.Key() {
			body, _ := json.Marshal(read)
			t.Fatalf("%s\nis read as %s, %v", text, body, err)
		}
	}
}

func parse(text string) (Recipe, error) {
	var r Recipe
	return r, yaml.UnmarshalStrict([]byte(text), &r)
}

// Runs that began side by side, each before the other looked, count each other's looks.
func TestLooksOfOtherProcesses(t *testing.T) {
	dir := t.TempDir()
	a, errA := OpenStore(dir)
	b, errB := OpenStore(dir)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if pairs, err := a.Look(Look{Gate: "gate", Pair: "a"}, false); pairs != 1 || err != nil {
		t.Errorf("the first look: %d, %v", pairs, err)
	}
	if pairs, err := b.Look(Look{Gate: "gate", Pair: "b"}, false); pairs != 1 || !errors.Is(err, ErrGateUsed) {
		t.Errorf("another was not refused: %d, %v", pairs, err)
	}
	if pairs, err := b.Look(Look{Gate: "gate", Pair: "b"}, true); pairs != 2 || err != nil {
		t.Errorf("another, permitted: %d, %v", pairs, err)
	}
	if pairs, err := a.Look(Look{Gate: "gate", Pair: "a"}, false); pairs != 2 || err != nil {
		t.Errorf("the same again: %d, %v", pairs, err)
	}
}
