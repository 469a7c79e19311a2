package gate

import (
	"math"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/eval"
)

func spec() v1alpha1.EvalRunSpec {
	return v1alpha1.EvalRunSpec{
		IndexRef:         v1alpha1.LocalRef{Name: "new"},
		BaselineIndexRef: &v1alpha1.LocalRef{Name: "old"},
		EvalSet:          v1alpha1.EvalSetBinding{Digest: "sha256:set"},
		Metrics:          []v1alpha1.GateMetric{{Name: v1alpha1.MetricRecall, K: 10, Minimum: "0.85", MaxRegression: "0.02"}},
		DecideOn:         v1alpha1.DecideOnEstimate,
		MinQuestions:     30,
		Leaks:            v1alpha1.LeaksForbid,
	}
}

func report() eval.Report {
	return eval.Report{
		Index: "new", Baseline: "old", EvalSetDigest: "sha256:set",
		Leaks:   eval.LeakReport{Probes: 70},
		Latency: eval.Latency{P50: 12.34, P95: 30, P99: 41},
		Metrics: []eval.MetricReport{{
			Metric: eval.Metric{Name: eval.Recall, K: 10}, Value: 0.9, Lower: 0.84, Upper: 0.95, Questions: 60,
			Paired: &eval.Paired{Baseline: 0.89, Delta: 0.01, Lower: -0.03, Upper: 0.05, Gained: 4, Lost: 3},
		}},
	}
}

func TestJudge(t *testing.T) {
	type change = func(*v1alpha1.EvalRunSpec, *eval.Report)
	first := func(r *eval.Report) *eval.MetricReport { return &r.Metrics[0] }
	for name, c := range map[string]struct {
		change  change
		verdict v1alpha1.Verdict
		message string
	}{
		"passes":                   {func(*v1alpha1.EvalRunSpec, *eval.Report) {}, v1alpha1.VerdictPassed, "Recall@10 0.9000 (95% interval 0.8400 to 0.9500, 60 questions, delta +0.0100: 4 gained, 3 lost), >= minimum 0.85"},
		"below":                    {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Value = 0.8499 }, v1alpha1.VerdictFailed, "< minimum 0.85"},
		"rounding":                 {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Value = 0.85 - 1e-12 }, v1alpha1.VerdictPassed, ""},
		"regressed":                {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Paired.Delta = -0.021 }, v1alpha1.VerdictFailed, "maxRegression against old is 0.02"},
		"drops by what is allowed": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Paired.Delta = -0.02 }, v1alpha1.VerdictPassed, ""},
		"leak beats everything": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) {
			r.Leaks.Hits = 1
			r.Errors = []eval.QuestionError{{ID: "q"}}
			r.Index = "other"
			r.Questions = []eval.QuestionReport{{ID: "q7", ForbiddenHits: []string{"hr/pay.md"}}}
		}, v1alpha1.VerdictFailed, `leaks: 1 forbidden hits in 70 answers, first: question "q7" showed document "hr/pay.md"`},
		"other index":    {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { r.Index = "other" }, v1alpha1.VerdictError, `index is "other", the run asked for "new"`},
		"other baseline": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { r.Baseline = "" }, v1alpha1.VerdictError, "baseline"},
		"other set":      {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { r.EvalSetDigest = "x" }, v1alpha1.VerdictError, "eval set digest"},
		"set not bound":  {func(s *v1alpha1.EvalRunSpec, r *eval.Report) { s.EvalSet.Digest = ""; r.EvalSetDigest = "x" }, v1alpha1.VerdictPassed, ""},
		"unanswered": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) {
			r.Errors = []eval.QuestionError{{ID: "q1", Message: "subject: HTTP 503"}}
		}, v1alpha1.VerdictError, `1 questions got no answer, first "q1": subject: HTTP 503`},
		"stale": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { r.Invalid = "too many are stale" }, v1alpha1.VerdictInconclusive, "too many are stale"},
		"some are stale": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) {
			r.Stale = []eval.StaleQuestion{{ID: "q9", Reason: "its document is gone"}}
		}, v1alpha1.VerdictPassed, `1 questions left out as stale, first "q9": its document is gone`},
		"few questions": {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Questions = 29 }, v1alpha1.VerdictInconclusive, "29 questions, fewer than minQuestions 30"},
		"no question":   {func(s *v1alpha1.EvalRunSpec, r *eval.Report) { s.MinQuestions = 0; first(r).Questions = 0 }, v1alpha1.VerdictInconclusive, "minQuestions 1"},
		"no probe":      {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { r.Leaks.Probes = 0 }, v1alpha1.VerdictInconclusive, "no answer was checked"},
		"no metric":     {func(s *v1alpha1.EvalRunSpec, _ *eval.Report) { s.Metrics = nil }, v1alpha1.VerdictInconclusive, "names no metric"},
		"not measured":  {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { r.Metrics = nil }, v1alpha1.VerdictError, "Recall@10 was not measured"},
		"other depth":   {func(s *v1alpha1.EvalRunSpec, _ *eval.Report) { s.Metrics[0].K = 5 }, v1alpha1.VerdictError, "Recall@5 was not measured"},
		"not compared":  {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Paired = nil }, v1alpha1.VerdictError, "not compared with old"},
		"NaN":           {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Value = math.NaN() }, v1alpha1.VerdictError, "no measurement"},
		"NaN delta":     {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Paired.Delta = math.NaN() }, v1alpha1.VerdictError, "no measurement"},
		"above one":     {func(_ *v1alpha1.EvalRunSpec, r *eval.Report) { first(r).Value = 1.43 }, v1alpha1.VerdictError, "no measurement"},
		"bad minimum":   {func(s *v1alpha1.EvalRunSpec, _ *eval.Report) { s.Metrics[0].Minimum = "NaN" }, v1alpha1.VerdictError, `"NaN" is no fraction`},
		"bad drop":      {func(s *v1alpha1.EvalRunSpec, _ *eval.Report) { s.Metrics[0].MaxRegression = "2%" }, v1alpha1.VerdictError, `"2%" is no fraction`},
		"straddles":     {func(s *v1alpha1.EvalRunSpec, _ *eval.Report) { s.DecideOn = v1alpha1.DecideOnLowerBound }, v1alpha1.VerdictInconclusive, "interval straddles minimum 0.85"},
		"clearly above": {func(s *v1alpha1.EvalRunSpec, r *eval.Report) {
			s.DecideOn = v1alpha1.DecideOnLowerBound
			first(r).Lower, first(r).Paired.Lower = 0.86, -0.01
		}, v1alpha1.VerdictPassed, ""},
		"clearly below": {func(s *v1alpha1.EvalRunSpec, r *eval.Report) {
			s.DecideOn = v1alpha1.DecideOnLowerBound
			first(r).Value, first(r).Lower, first(r).Upper = 0.7, 0.6, 0.8
		}, v1alpha1.VerdictFailed, "whole interval <"},
		"unknown decideOn": {func(s *v1alpha1.EvalRunSpec, _ *eval.Report) { s.DecideOn = "Luck" }, v1alpha1.VerdictError, "decideOn is unknown"},
		"first version": {func(s *v1alpha1.EvalRunSpec, r *eval.Report) {
			s.BaselineIndexRef, r.Baseline, first(r).Paired = nil, "", nil
		}, v1alpha1.VerdictPassed, "60 questions), >= minimum"},
		"first version without a minimum": {func(s *v1alpha1.EvalRunSpec, r *eval.Report) {
			s.BaselineIndexRef, r.Baseline, first(r).Paired, s.Metrics[0].Minimum = nil, "", nil, ""
		}, v1alpha1.VerdictInconclusive, "nothing serves that it could be compared with"},
		"failure beside an error": {func(s *v1alpha1.EvalRunSpec, r *eval.Report) {
			first(r).Value = 0.1
			s.Metrics = append(s.Metrics, v1alpha1.GateMetric{Name: v1alpha1.MetricMRR, K: 10, Minimum: "0.1"})
		}, v1alpha1.VerdictError, "MRR@10 was not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := spec(), report()
			c.change(&s, &r)
			j := Judge(s, r)
			if j.Verdict != c.verdict || !strings.Contains(j.Message, c.message) || j.Message == "" {
				t.Errorf("got %s: %s", j.Verdict, j.Message)
			}
			if len(j.Results) != len(s.Metrics) {
				t.Errorf("got %d results for %d metrics", len(j.Results), len(s.Metrics))
			}
		})
	}
}

func TestJudgeShapes(t *testing.T) {
	r := report()
	r.Metrics[0].Paired.Delta = -0.00001
	j := Judge(spec(), r)
	want := v1alpha1.MetricResult{Metric: "Recall", At: 10, Value: "0.9000", Lower: "0.8400", Upper: "0.9500", Baseline: "0.8900", Delta: "0.0000", Gained: 4, Lost: 3, Minimum: "0.85", Questions: 60}
	if j.Results[0] != want {
		t.Errorf("got %+v", j.Results[0])
	}
	if *j.Latency != (v1alpha1.LatencyStatus{P50: "12.3ms", P95: "30ms", P99: "41ms"}) {
		t.Errorf("got %+v", *j.Latency)
	}
	r.Errors = []eval.QuestionError{{ID: "q", Message: strings.Repeat("ü", 2000)}}
	if m := Judge(spec(), r).Message; len(m) > maxMessage || !strings.HasSuffix(m, "...") || strings.ContainsRune(m, '\uFFFD') {
		t.Errorf("the message has %d bytes", len(m))
	}
}

// The zero report is what is left when a Job dies: whatever the gate, it never passes.
func TestNothingNeverPasses(t *testing.T) {
	for _, s := range []v1alpha1.EvalRunSpec{{}, spec(), {Metrics: []v1alpha1.GateMetric{{Name: "Recall", K: 1}}}} {
		if j := Judge(s, eval.Report{}); j.Verdict == v1alpha1.VerdictPassed || j.Verdict == "" {
			t.Errorf("an empty report got %q", j.Verdict)
		}
	}
}
