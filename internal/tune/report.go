package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"quarry.dev/quarry/internal/eval"
)

// Report is a Result for people and programs.
type Report struct {
	Metric        string `json:"metric"`
	DevQuestions  int    `json:"devQuestions"`
	GateQuestions int    `json:"gateQuestions"`
	// Compared is the number of recipes tried beside the baseline, which the p-values are corrected for.
	Compared  int     `json:"compared"`
	Tolerance float64 `json:"tolerance"`
	Stopped   string  `json:"stopped,omitempty"`
	// Baseline, Best and Winner are trials.
	Baseline Trial   `json:"baseline"`
	Best     Trial   `json:"best"`
	Winner   Trial   `json:"winner"`
	Trials   []Trial `json:"trials"`

	Gate    *GateResult `json:"gate,omitempty"`
	Refused string      `json:"refused,omitempty"`
	Outcome Outcome     `json:"outcome"`
	// Verdict says the outcome in sentences. Apply is the recipe to use, and YAML the same as it is written.
	Verdict []string `json:"verdict"`
	Apply   Recipe   `json:"apply"`
	YAML    string   `json:"yaml"`
	Notes   []string `json:"notes,omitempty"`

	asGood []bool
}

// Report describes the result of in. gate is the number of questions of the Gate part; notes are passed on.
func (r Result) Report(in Input, gate int, notes []string) (Report, error) {
	yaml, err := r.Apply.YAML()
	out := Report{
		Metric: in.Metric.String(), DevQuestions: len(r.Trials[0].values(in.Metric)), GateQuestions: gate, Compared: r.Compared,
		Tolerance: in.Tolerance, Stopped: r.Stopped, Baseline: r.Trials[0], Best: r.Trials[r.Best], Winner: r.Trials[r.Winner], Trials: r.Trials,
		Gate: r.Gate, Refused: r.Refused, Outcome: r.Outcome, Apply: r.Apply, YAML: yaml, Notes: slices.Clone(notes),
	}
	for i := range r.Trials {
		out.asGood = append(out.asGood, r.AsGood(i, in.Tolerance))
	}
	for _, l := range r.LeftOut {
		out.Notes = append(out.Notes, "left out: "+l)
	}
	if n := r.Trials[0].Stale; n > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d questions of the part Dev are stale and left out", n))
	}
	out.Verdict = append(out.sayDev(), out.sayGate()...)
	return out, err
}

// sayDev says which differences are real, and why the winner was chosen.
func (r Report) sayDev() []string {
	better, worse := 0, 0
	for _, t := range r.Trials[1:] {
		if t.Compared.Real && t.Compared.Delta > 0 {
			better++
		} else if t.Compared.Real {
			worse++
		}
	}
	out := []string{fmt.Sprintf("Of %d recipes, %d are really better than the current one and %d really worse, on %d questions, corrected for %d comparisons (Holm, %.0f %%); the other %d are not distinguishable from it.",
		r.Compared, better, worse, r.DevQuestions, r.Compared, 100*Level, r.Compared-better-worse)}
	if r.Compared == 0 {
		out = nil
	}
	if r.Winner.Recipe.Key() != r.Best.Recipe.Key() {
		out = append(out, fmt.Sprintf("The best is %.4f (%s). Chosen is %s: it is not distinguishable from the best (%.4f behind, p %.2g), at most %g behind, and the cheapest of those.",
			r.Best.Mean, cmp.Or(strings.Join(r.Best.Changes, ", "), "the current recipe"), r.Winner.name(), r.Winner.BehindBest, r.Winner.BestP, r.Tolerance))
	}
	if more := r.Winner.Characters / max(r.Baseline.Characters, 1); more > longer {
		out = append(out, fmt.Sprintf("Its first ten passages are %.1f times as long as the current ones: a longer passage holds the labelled words more easily, and a language model has to read it.", more))
	}
	return out
}

// longer is the ratio of the lengths of answers from which it is worth a word.
const longer = 1.25

func (t Trial) name() string {
	if len(t.Changes) == 0 {
		return "the current recipe"
	}
	return strings.Join(t.Changes, ", ")
}

// sayGate says what the Gate part made of the winner, and what to do.
func (r Report) sayGate() []string {
	if r.Refused != "" {
		return []string{"Not confirmed: " + r.Refused + ".", "Below is what the Dev part says."}
	}
	if r.Outcome == Unconfirmed {
		return []string{"Not confirmed: the Gate part was not looked at, as --dev-only says. Below is what the Dev part says."}
	}
	if r.Gate == nil {
		return []string{"Keep the current recipe: no other was chosen on the Dev part. The Gate part was not looked at."}
	}
	c := r.Gate.Compared
	said := fmt.Sprintf("On the %d Gate questions (look %d) the chosen recipe has %s %.4f, the current one %.4f: %+.4f (95 %%: %+.4f to %+.4f, p %.2g), which is ",
		r.Gate.Questions, r.Gate.Looks, r.Metric, r.Gate.Value, c.Baseline, c.Delta, c.Lower, c.Upper, c.AdjustedP)
	if c.Real {
		said += "real."
	} else {
		said += "not distinguishable from no difference by this part alone."
	}
	do := map[Outcome]string{
		Better:  "Apply the recipe below: it is better.",
		Cheaper: "Apply the recipe below: it is not distinguishable from the current one, and costs less.",
		Keep:    "Keep the current recipe, below: the chosen one was not shown to be better.",
	}[r.Outcome]
	return []string{said, do}
}

// topTrials is how many trials a table shows, the baseline apart.
const topTrials = 10

// Text is the report for a terminal.
func (r Report) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "The current recipe: %s\n%d recipes compared with it on %d Dev questions", r.Baseline.Recipe.Describe(), r.Compared, r.DevQuestions)
	if r.Stopped != "" {
		fmt.Fprintf(&out, "; stopped %s", r.Stopped)
	}
	out.WriteString("\n\n")
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\t%s\tdifference\t95 %%\tp corrected\t\tchunks\tcharacters read\tchanges\n", r.Metric)
	for _, i := range r.shown() {
		r.row(table, i)
	}
	_ = table.Flush() // a strings.Builder takes every write
	out.WriteString("\n> chosen, = as good as the best; intervals are each for itself alone, p is corrected for all comparisons.\n")
	for _, n := range r.Notes {
		fmt.Fprintln(&out, "note:", n)
	}
	out.WriteString("\n" + strings.Join(r.Verdict, "\n") + "\n\n")
	fmt.Fprintf(&out, "# below spec of the RetrievalPipeline, or as a --recipe file\n%s", r.YAML)
	return out.String()
}

// shown are the first trials by their means, the winner and the baseline.
func (r Report) shown() []int {
	order := make([]int, len(r.Trials))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Trials[b].Mean, r.Trials[a].Mean) })
	var out []int
	for rank, i := range order {
		if rank < topTrials || i == 0 || r.Trials[i].Recipe.Key() == r.Winner.Recipe.Key() {
			out = append(out, i)
		}
	}
	return out
}

func (r Report) row(table *tabwriter.Writer, i int) {
	t, mark := r.Trials[i], ""
	if r.asGood[i] {
		mark = "="
	}
	if t.Recipe.Key() == r.Winner.Recipe.Key() {
		mark = ">"
	}
	fmt.Fprintf(table, "%s\t%.4f\t", mark, t.Mean)
	if c := t.Compared; c == nil {
		fmt.Fprint(table, "\t\t\tcurrent")
	} else {
		fmt.Fprintf(table, "%+.4f\t%+.4f to %+.4f\t%.3g\t%s", c.Delta, c.Lower, c.Upper, c.AdjustedP, c.word())
	}
	fmt.Fprintf(table, "\t%d\t%.0f\t%s\n", t.Chunks, t.Characters, t.name())
}

func (c Comparison) word() string {
	switch {
	case !c.Real:
		return "not distinguishable"
	case c.Delta > 0:
		return "better"
	}
	return "worse"
}

// Line is one line of progress.
func (p Progress) Line(m eval.Metric) string {
	trial := p.Trial
	line := fmt.Sprintf("trial %d of at most %d: %s %.4f", p.Done, p.Most, m, trial.Mean)
	if p.Cached {
		line += " (measured before)"
	}
	line += ", " + trial.name() + fmt.Sprintf("; best so far %.4f", p.Best)
	if p.Left > 0 {
		line += fmt.Sprintf("; about %s left", p.Left.Round(time.Second))
	}
	return line
}
