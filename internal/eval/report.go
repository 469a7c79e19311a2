package eval

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Names of the metrics, as a gate writes them.
const (
	Recall  = "Recall"
	HitRate = "HitRate"
	MRR     = "MRR"
	NDCG    = "NDCG"
)

// Metric names one measurement: a metric at a depth.
type Metric struct {
	Name string `json:"name"`
	// K is the depth in distinct documents or, where the question labels quotes, in passages; 0 means every hit (MRR only).
	K int `json:"k"`
}

// String is the short name that people use, for instance Recall@10.
func (m Metric) String() string {
	if m.K == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s@%d", m.Name, m.K)
}

// Report is what one run measured: identifiers, offsets, ranks and numbers, never text of a document or of a question.
// It holds no verdict: the gate computes that, so that a report can be judged again.
type Report struct {
	Run            string `json:"run"`
	Index          string `json:"index"`
	VersionDigest  string `json:"versionDigest"`
	Baseline       string `json:"baseline,omitempty"`
	BaselineDigest string `json:"baselineDigest,omitempty"`
	EvalSetDigest  string `json:"evalSetDigest"`
	// AccessEpoch is the epoch of the access data which the leak probes were computed from.
	AccessEpoch int64 `json:"accessEpoch"`

	Questions []QuestionReport `json:"questions"`
	Metrics   []MetricReport   `json:"metrics"`
	Leaks     LeakReport       `json:"leaks"`
	Latency   Latency          `json:"latency"`

	// Stale lists the questions that could not be measured, because the snapshot or the access rules no longer hold their evidence.
	Stale []StaleQuestion `json:"stale,omitempty"`
	// Errors lists the questions without an answer; a report with any is never a measurement.
	Errors []QuestionError `json:"errors,omitempty"`
	// Invalid says why this is no valid measurement although every question was answered; empty when it is one.
	Invalid string `json:"invalid,omitempty"`
}

// QuestionReport is what one question found.
type QuestionReport struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Hits are the first ones in the order that was judged: by score, document, position.
	Hits []HitReport `json:"hits"`
	// Ranks holds, per evidence group, the 1-based rank at which it was first found; 0 when it was not.
	Ranks []int `json:"ranks,omitempty"`
	// Values and Baseline hold the question's value per metric, by its short name, each in [0,1].
	Values   map[string]float64 `json:"values,omitempty"`
	Baseline map[string]float64 `json:"baseline,omitempty"`
	// ForbiddenHits are the documents which the asker may not read and got all the same.
	ForbiddenHits []string `json:"forbiddenHits,omitempty"`
	// LatencyMillis is the time of the answer that counted, retries apart.
	LatencyMillis float64 `json:"latencyMillis"`
}

// HitReport locates one passage; offsets count code points.
type HitReport struct {
	Document string  `json:"document"`
	Start    int     `json:"start"`
	End      int     `json:"end"`
	Score    float64 `json:"score"`
}

// MetricReport is one metric over all measured questions.
type MetricReport struct {
	Metric
	// Value is the mean; Lower and Upper bound its 95 % bootstrap interval.
	Value     float64 `json:"value"`
	Lower     float64 `json:"lower"`
	Upper     float64 `json:"upper"`
	Questions int     `json:"questions"`
	// Paired is the comparison over the same questions; nil without a baseline.
	Paired *Paired `json:"paired,omitempty"`
}

// Paired compares subject and baseline question by question.
type Paired struct {
	Baseline float64 `json:"baseline"`
	// Delta is subject minus baseline; Lower and Upper bound its 95 % bootstrap interval.
	Delta float64 `json:"delta"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// Gained and Lost count the questions that the subject answers better, or worse, than the baseline.
	Gained int `json:"gained"`
	Lost   int `json:"lost"`
}

// LeakReport counts the answers that were checked and the forbidden documents found in them.
type LeakReport struct {
	Probes int `json:"probes"`
	Hits   int `json:"hits"`
	// Late counts forbidden hits that were gone when asked again after the grace period: a revocation on its way.
	Late int `json:"late,omitempty"`
}

// Latency holds percentiles of the subject's answers in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// StaleQuestion is a question that the corpus has outgrown.
type StaleQuestion struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// QuestionError is a question that got no usable answer.
type QuestionError struct {
	ID      string `json:"id"`
	Message string `json:"message"`
}

// Metric returns the measurement of m, and false when the report lacks it.
func (r Report) Metric(m Metric) (MetricReport, bool) {
	for _, got := range r.Metrics {
		if got.Metric == m {
			return got, true
		}
	}
	return MetricReport{}, false
}

// Text is a summary for a terminal.
func (r Report) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d questions", r.Index, len(r.Questions))
	if r.Baseline != "" {
		fmt.Fprintf(&out, ", compared with %s", r.Baseline)
	}
	out.WriteString("\n")
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "METRIC\tVALUE\t95 %\tN\tBASELINE\tDELTA\tGAINED\tLOST")
	for _, m := range r.Metrics {
		fmt.Fprintf(table, "%s\t%.4f\t%.4f-%.4f\t%d", m.Metric, m.Value, m.Lower, m.Upper, m.Questions)
		if p := m.Paired; p != nil {
			fmt.Fprintf(table, "\t%.4f\t%+.4f\t%d\t%d", p.Baseline, p.Delta, p.Gained, p.Lost)
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // a strings.Builder takes every write
	fmt.Fprintf(&out, "leaks: %d forbidden hits in %d answers\n", r.Leaks.Hits, r.Leaks.Probes)
	fmt.Fprintf(&out, "latency: p50 %.0f ms, p95 %.0f ms, p99 %.0f ms\n", r.Latency.P50, r.Latency.P95, r.Latency.P99)
	if len(r.Stale) > 0 {
		fmt.Fprintf(&out, "stale: %d questions left out, first %s (%s)\n", len(r.Stale), r.Stale[0].ID, r.Stale[0].Reason)
	}
	if len(r.Errors) > 0 {
		fmt.Fprintf(&out, "errors: %d questions without an answer, first %s: %s\n", len(r.Errors), r.Errors[0].ID, r.Errors[0].Message)
	}
	if r.Invalid != "" {
		fmt.Fprintf(&out, "invalid: %s\n", r.Invalid)
	}
	return out.String()
}
