package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/eval"
)

// tolerance absorbs rounding: 17 right answers of 20 reach a minimum of 0.85.
const tolerance = 1e-9

// maxMessage is the most that the status takes, in bytes.
const maxMessage = 1000

// Judgement is a verdict with its reasons, in the shape of EvalRunStatus.
type Judgement struct {
	Verdict v1alpha1.Verdict
	Message string
	Results []v1alpha1.MetricResult
	Leaks   *v1alpha1.LeakStatus
	Latency *v1alpha1.LatencyStatus
}

// finding is what one check has to say; the worst one becomes the verdict.
type finding struct {
	verdict v1alpha1.Verdict
	message string
}

// Judge computes the verdict of a run from its report. Leaks come first: a forbidden hit is proof, even in a report that is
// otherwise worthless. Then comes whatever makes the report no measurement, and only then its numbers.
func Judge(spec v1alpha1.EvalRunSpec, report eval.Report) Judgement {
	j := Judgement{
		Leaks:   &v1alpha1.LeakStatus{Probes: int32(report.Leaks.Probes), Hits: int32(report.Leaks.Hits)},
		Latency: &v1alpha1.LatencyStatus{P50: duration(report.Latency.P50), P95: duration(report.Latency.P95), P99: duration(report.Latency.P99)},
	}
	var findings []finding
	for _, metric := range spec.Metrics {
		result, found := judgeMetric(spec, metric, report)
		j.Results = append(j.Results, result)
		findings = append(findings, found)
	}
	for _, check := range []func(v1alpha1.EvalRunSpec, eval.Report) *finding{leaks, identity, answered, valid, enough} {
		if f := check(spec, report); f != nil {
			j.Verdict, j.Message = f.verdict, shorten(f.message)
			return j
		}
	}
	j.Verdict, j.Message = conclude(findings)
	if n := len(report.Stale); n > 0 {
		j.Message = shorten(fmt.Sprintf("%s; %d questions left out as stale, first %q: %s", j.Message, n, report.Stale[0].ID, report.Stale[0].Reason))
	}
	return j
}

// leaks: one forbidden hit fails the run, whatever the recall.
func leaks(_ v1alpha1.EvalRunSpec, report eval.Report) *finding {
	if report.Leaks.Hits <= 0 {
		return nil
	}
	message := fmt.Sprintf("leaks: %d forbidden hits in %d answers", report.Leaks.Hits, report.Leaks.Probes)
	for _, q := range report.Questions {
		if len(q.ForbiddenHits) > 0 {
			message += fmt.Sprintf(", first: question %q showed document %q to somebody who may not read it", q.ID, q.ForbiddenHits[0])
			break
		}
	}
	return &finding{v1alpha1.VerdictFailed, message}
}

// identity: the report is about what the run asked for.
func identity(spec v1alpha1.EvalRunSpec, report eval.Report) *finding {
	baseline := ""
	if spec.BaselineIndexRef != nil {
		baseline = spec.BaselineIndexRef.Name
	}
	for _, c := range []struct{ what, got, want string }{
		{"index", report.Index, spec.IndexRef.Name},
		{"baseline", report.Baseline, baseline},
		{"eval set digest", report.EvalSetDigest, spec.EvalSet.Digest},
	} {
		if c.got != c.want && (c.what != "eval set digest" || c.want != "") {
			return &finding{v1alpha1.VerdictError, fmt.Sprintf("the report's %s is %q, the run asked for %q: a new run is needed", c.what, c.got, c.want)}
		}
	}
	return nil
}

// answered: a question without an answer makes the whole run no measurement.
func answered(_ v1alpha1.EvalRunSpec, report eval.Report) *finding {
	if len(report.Errors) == 0 {
		return nil
	}
	first := report.Errors[0]
	return &finding{v1alpha1.VerdictError, fmt.Sprintf("%d questions got no answer, first %q: %s", len(report.Errors), first.ID, first.Message)}
}

// valid: the report says itself whether it is a valid measurement.
func valid(_ v1alpha1.EvalRunSpec, report eval.Report) *finding {
	if report.Invalid == "" {
		return nil
	}
	return &finding{v1alpha1.VerdictInconclusive, report.Invalid}
}

// enough: without metrics, or without a single answer that was checked for leaks, nothing was shown.
func enough(spec v1alpha1.EvalRunSpec, report eval.Report) *finding {
	switch {
	case len(spec.Metrics) == 0:
		return &finding{v1alpha1.VerdictInconclusive, "the gate names no metric, so nothing shows that the index is good enough: name one in spec.promotion.gate.metrics"}
	case report.Leaks.Probes <= 0:
		return &finding{v1alpha1.VerdictInconclusive, "no answer was checked for leaks"}
	}
	return nil
}

// judgeMetric compares one metric with its minimum and with the baseline.
func judgeMetric(spec v1alpha1.EvalRunSpec, metric v1alpha1.GateMetric, report eval.Report) (v1alpha1.MetricResult, finding) {
	name := eval.Metric{Name: string(metric.Name), K: int(metric.K)}
	result := v1alpha1.MetricResult{Metric: string(metric.Name), At: metric.K, Minimum: metric.Minimum}
	measured, ok := report.Metric(name)
	if !ok || metric.ContextTokens > 0 {
		return result, finding{v1alpha1.VerdictError, fmt.Sprintf("%s was not measured", name)}
	}
	if f := plausible(measured); f != nil {
		return result, *f
	}
	result.Value, result.Lower, result.Upper = decimal(measured.Value), decimal(measured.Lower), decimal(measured.Upper)
	result.Questions = int32(measured.Questions)
	if p := measured.Paired; p != nil {
		result.Baseline, result.Delta = decimal(p.Baseline), decimal(p.Delta)
		result.Gained, result.Lost = int32(p.Gained), int32(p.Lost)
	}
	if least := max(spec.MinQuestions, 1); result.Questions < least {
		return result, finding{v1alpha1.VerdictInconclusive, fmt.Sprintf("%s rests on %d questions, fewer than minQuestions %d", name, measured.Questions, least)}
	}
	return result, worst(
		reachesMinimum(spec, metric, measured),
		keepsUp(spec, metric, measured),
	)
}

// plausible refuses numbers that no measurement gives. NaN compares false with everything, so it is looked for by name.
func plausible(m eval.MetricReport) *finding {
	inside := func(v, low, high float64) bool { return v >= low-tolerance && v <= high+tolerance } // false for NaN
	sound := inside(m.Value, 0, 1) && inside(m.Lower, 0, 1) && inside(m.Upper, 0, 1) && m.Lower <= m.Upper && m.Questions >= 0
	if p := m.Paired; p != nil {
		sound = sound && inside(p.Baseline, 0, 1) && inside(p.Delta, -1, 1) && inside(p.Lower, -1, 1) && inside(p.Upper, -1, 1)
	}
	if sound {
		return nil
	}
	return &finding{v1alpha1.VerdictError, fmt.Sprintf("%s has the value %v with the interval %v to %v, which is no measurement", m.Metric, m.Value, m.Lower, m.Upper)}
}

// reachesMinimum compares with the absolute minimum.
func reachesMinimum(spec v1alpha1.EvalRunSpec, metric v1alpha1.GateMetric, m eval.MetricReport) finding {
	if metric.Minimum == "" {
		return finding{v1alpha1.VerdictPassed, describe(m)}
	}
	minimum, err := fraction(metric.Minimum)
	if err != nil {
		return finding{v1alpha1.VerdictError, fmt.Sprintf("minimum of %s: %v", m.Metric, err)}
	}
	verdict, sign := decide(spec.DecideOn, m.Value-minimum, m.Lower-minimum, m.Upper-minimum)
	return finding{verdict, fmt.Sprintf("%s, %s minimum %s", describe(m), sign, metric.Minimum)}
}

// keepsUp compares with the baseline. The first version of a tenant has none.
func keepsUp(spec v1alpha1.EvalRunSpec, metric v1alpha1.GateMetric, m eval.MetricReport) finding {
	switch {
	case metric.MaxRegression == "":
		return finding{v1alpha1.VerdictPassed, ""}
	case spec.BaselineIndexRef == nil && metric.Minimum == "":
		return finding{v1alpha1.VerdictInconclusive, fmt.Sprintf("%s has no minimum, and nothing serves that it could be compared with: add a minimum, or override this index", m.Metric)}
	case spec.BaselineIndexRef == nil:
		return finding{v1alpha1.VerdictPassed, ""}
	case m.Paired == nil:
		return finding{v1alpha1.VerdictError, fmt.Sprintf("%s was not compared with %s", m.Metric, spec.BaselineIndexRef.Name)}
	}
	allowed, err := fraction(metric.MaxRegression)
	if err != nil {
		return finding{v1alpha1.VerdictError, fmt.Sprintf("maxRegression of %s: %v", m.Metric, err)}
	}
	verdict, _ := decide(spec.DecideOn, m.Paired.Delta+allowed, m.Paired.Lower+allowed, m.Paired.Upper+allowed)
	if verdict == v1alpha1.VerdictPassed {
		return finding{verdict, ""}
	}
	return finding{verdict, fmt.Sprintf("%s, and maxRegression against %s is %s (95%% interval of delta %+.4f to %+.4f)",
		describe(m), spec.BaselineIndexRef.Name, metric.MaxRegression, m.Paired.Lower, m.Paired.Upper)}
}

// decide compares a margin with zero. On LowerBound an interval on both sides of zero is no answer in either direction.
func decide(on v1alpha1.DecideOn, margin, lower, upper float64) (v1alpha1.Verdict, string) {
	switch on {
	case v1alpha1.DecideOnEstimate, "":
		if margin >= -tolerance {
			return v1alpha1.VerdictPassed, ">="
		}
		return v1alpha1.VerdictFailed, "<"
	case v1alpha1.DecideOnLowerBound:
		switch {
		case lower >= -tolerance:
			return v1alpha1.VerdictPassed, "whole interval >="
		case upper < -tolerance:
			return v1alpha1.VerdictFailed, "whole interval <"
		}
		return v1alpha1.VerdictInconclusive, "interval straddles"
	}
	return v1alpha1.VerdictError, "decideOn is unknown for"
}

// severity orders verdicts: an error hides a failure, because numbers of a broken measurement mean nothing.
func severity(v v1alpha1.Verdict) int {
	switch v {
	case v1alpha1.VerdictPassed:
		return 0
	case v1alpha1.VerdictInconclusive:
		return 1
	case v1alpha1.VerdictFailed:
		return 2
	}
	return 3
}

// worst is the gravest finding, and the first of equally grave ones.
func worst(findings ...finding) finding {
	gravest := findings[0]
	for _, f := range findings[1:] {
		if severity(f.verdict) > severity(gravest.verdict) {
			gravest = f
		}
	}
	return gravest
}

// conclude takes the gravest verdict and says what led to it; a pass lists every metric.
func conclude(findings []finding) (v1alpha1.Verdict, string) {
	verdict := worst(findings...).verdict
	var messages []string
	for _, f := range findings {
		if f.verdict == verdict {
			messages = append(messages, f.message)
		}
	}
	return verdict, shorten(strings.Join(messages, "; "))
}

// describe is a measured metric in words: value, interval, number of questions, and the comparison.
func describe(m eval.MetricReport) string {
	text := fmt.Sprintf("%s %.4f (95%% interval %.4f to %.4f, %d questions", m.Metric, m.Value, m.Lower, m.Upper, m.Questions)
	if p := m.Paired; p != nil {
		text += fmt.Sprintf(", delta %+.4f: %d gained, %d lost", p.Delta, p.Gained, p.Lost)
	}
	return text + ")"
}

// decimal writes a fraction with four digits, never "-0.0000".
func decimal(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e4)/1e4+0, 'f', 4, 64)
}

// fraction reads a decimal string in [0,1].
func fraction(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
		return 0, fmt.Errorf("%q is no fraction: write a decimal from 0 to 1, such as 0.85", s)
	}
	return v, nil
}

// duration writes milliseconds as people read them.
func duration(millis float64) string {
	return time.Duration(millis * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
}

// shorten keeps a message within what the status takes, on a character's boundary.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
}
