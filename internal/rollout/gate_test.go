package rollout

import (
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/gate"
)

// gated joins a world to the real gate: each run is judged from a report, and decided upon as the controller does it.
type gated struct {
	*world
	minimum  string
	override *v1alpha1.Override
	// recall and leaks are what a run of the index measures; specs are what each run was created to ask.
	recall map[string]float64
	leaks  map[string]int
	specs  map[string]v1alpha1.EvalRunSpec
}

func newGated(t *testing.T) *gated {
	g := &gated{world: newWorld(t), minimum: "0.85", recall: map[string]float64{}, leaks: map[string]int{}, specs: map[string]v1alpha1.EvalRunSpec{}}
	g.gate = g.judge
	return g
}

// spec is what a run of the index must ask today.
func (g *gated) spec(index, baseline string, attempt int32) v1alpha1.EvalRunSpec {
	spec := v1alpha1.EvalRunSpec{
		IndexRef: v1alpha1.LocalRef{Name: index}, Attempt: attempt, EvalSet: v1alpha1.EvalSetBinding{Digest: "sha256:set"},
		Metrics:  []v1alpha1.GateMetric{{Name: v1alpha1.MetricRecall, K: 10, Minimum: g.minimum}},
		DecideOn: v1alpha1.DecideOnEstimate, MinQuestions: 30, Leaks: v1alpha1.LeaksForbid,
	}
	if baseline != "" {
		spec.BaselineIndexRef = &v1alpha1.LocalRef{Name: baseline}
	}
	return spec
}

func subject(index, baseline string) *v1alpha1.EvalSubject {
	return &v1alpha1.EvalSubject{IndexDigest: index, BaselineIndexDigest: baseline, EvalSetDigest: "sha256:set"}
}

func (g *gated) report(run *RunFact) eval.Report {
	metric := eval.MetricReport{Metric: eval.Metric{Name: eval.Recall, K: 10}, Value: g.recall[run.Index], Questions: 60}
	if run.Baseline != "" {
		metric.Paired = &eval.Paired{Baseline: g.recall[run.Baseline], Delta: g.recall[run.Index] - g.recall[run.Baseline]}
	}
	return eval.Report{
		Index: run.Index, Baseline: run.Baseline, EvalSetDigest: "sha256:set",
		Metrics: []eval.MetricReport{metric}, Leaks: eval.LeakReport{Probes: 60, Hits: g.leaks[run.Index]},
	}
}

func (g *gated) judge(run *RunFact) {
	if _, seen := g.specs[run.Name]; !seen {
		g.specs[run.Name] = g.spec(run.Index, run.Baseline, run.Attempt)
	}
	record := &gate.Run{Name: run.Name, ControllerUID: "uid", Spec: g.specs[run.Name]}
	if run.Complete {
		judged := gate.Judge(record.Spec, g.report(run))
		record.Status = v1alpha1.EvalRunStatus{Verdict: judged.Verdict, Message: judged.Message, Leaks: judged.Leaks, Subject: subject(run.Index, run.Baseline)}
		run.Verdict = string(judged.Verdict)
	}
	run.Decision = gate.Decide(gate.Input{
		Now: g.in.Now, PipelineUID: "uid", Run: record, DesiredSpec: g.spec(run.Index, g.in.Active, run.Attempt), Running: subject(run.Index, g.in.Active),
		Hold: g.in.Hold, RollbackTo: g.in.RollbackTo, Override: g.override, LastPromotion: g.in.PromotedAt, MinInterval: g.in.MinInterval,
	})
}

// lift overrides the verdict of one index, as a person does in the spec.
func (g *gated) lift(index string) {
	g.world.override, g.override = index, &v1alpha1.Override{Index: index, Reason: "read by hand"}
}

// serves runs the world for two minutes and expects that index active, and that reason and these words in the trace since.
func (g *gated) serves(index string, words ...string) {
	g.t.Helper()
	from := g.trace.Len()
	g.until(int(g.in.Now.Sub(g.start).Seconds()) + 150)
	trace := g.trace.String()[from:]
	if g.in.Active != index {
		g.t.Fatalf("%q serves, not %q\n%s", g.in.Active, index, trace)
	}
	for _, word := range words {
		if !strings.Contains(trace, word) {
			g.t.Fatalf("the trace does not say %q\n%s", word, trace)
		}
	}
}

func (g *gated) attempts(index string) (n int) {
	for _, run := range g.in.Runs {
		if run.Index == index {
			n++
		}
	}
	return n
}

// The planner and the gate, which are tested apart elsewhere, mean the same by their words.
func TestRolloutWithTheRealGate(t *testing.T) {
	g := newGated(t)
	g.recall["good-s1"] = 0.9
	g.want("good", "s1")
	g.serves("good-s1", `run good-s1 against "", attempt 1`, "PROMOTE good-s1", "Recall@10 0.9000")

	// Worse than the minimum: rejected, measured once, and users stay where they are.
	g.recall["worse-s1"] = 0.8
	g.want("worse", "s1")
	g.serves("good-s1", `run worse-s1 against "good-s1", attempt 1`, ReasonRejected, "< minimum 0.85")
	if n := g.attempts("worse-s1"); n != 1 {
		t.Errorf("worse-s1 was measured %d times", n)
	}

	// The override of another index lifts nothing; that of this one promotes it without another run.
	g.lift("good-s1")
	g.serves("good-s1")
	g.lift("worse-s1")
	g.serves("worse-s1", "PROMOTE worse-s1", "verdict Failed overridden (read by hand)", ReasonUpToDate)
	if n := g.attempts("worse-s1"); n != 1 {
		t.Errorf("worse-s1 was measured %d times", n)
	}

	// Nothing lifts a leak.
	g.recall["leaky-s1"], g.leaks["leaky-s1"] = 0.99, 1
	g.lift("leaky-s1")
	g.want("leaky", "s1")
	g.serves("worse-s1", ReasonRejected, "leaks: 1 forbidden hits")

	// Another gate is another question: the same version is measured anew, and passes.
	g.override, g.world.override = nil, ""
	g.recall["fair-s1"] = 0.82
	g.want("fair", "s1")
	g.serves("worse-s1", ReasonRejected)
	g.minimum = "0.75"
	g.serves("fair-s1", "attempt 2", "PROMOTE fair-s1", ">= minimum 0.75")

	// A person's hold waits with a verdict that has been reached, and lets it through when it is lifted.
	g.recall["next-s1"] = 0.9
	g.in.Hold = "fair week"
	g.want("next", "s1")
	g.serves("fair-s1", ReasonHeld, "fair week")
	g.in.Hold = ""
	g.serves("next-s1", "PROMOTE next-s1")
	if n := g.attempts("next-s1"); n != 1 {
		t.Errorf("next-s1 was measured %d times", n)
	}
	if g.promotions != 4 || slices.ContainsFunc(g.in.Runs, func(run RunFact) bool { return !run.Complete }) {
		t.Errorf("%d promotions, runs %+v", g.promotions, g.in.Runs)
	}
}
