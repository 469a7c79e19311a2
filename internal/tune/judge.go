package tune

import (
	"cmp"
	"slices"

	"quarry.dev/quarry/internal/eval"
)

// Level is the chance of calling a difference real that is none, over all trials together.
const Level = 0.05

// Trial is one measured recipe and what is said of it.
type Trial struct {
	Stage  Stage  `json:"stage"`
	Recipe Recipe `json:"recipe"`
	// Changes is what the recipe has other than the baseline.
	Changes     []string `json:"changes"`
	Measurement `json:"measurement"`
	// Mean of the chosen metric over the Dev questions, 0 to 1.
	Mean float64 `json:"mean"`
	// Compared is the difference to the baseline; nil for the baseline itself.
	Compared *Comparison `json:"compared,omitempty"`
	// BehindBest is the best trial's mean less this one's, and BestP the p-value of that difference, for itself alone.
	BehindBest float64 `json:"behindBest"`
	BestP      float64 `json:"bestP"`
}

// Comparison is a paired comparison with the baseline.
type Comparison struct {
	// Paired holds the difference, its 95 % bootstrap interval, and the numbers of questions gained and lost.
	eval.Paired
	// P is the p-value of the paired randomisation test; AdjustedP is corrected for the number of trials.
	P         float64 `json:"p"`
	AdjustedP float64 `json:"adjustedP"`
	// Real tells whether AdjustedP is below Level.
	Real bool `json:"real"`
}

// Judgement is what the Dev part says.
type Judgement struct {
	// Trials in the order of the plan; the first is the baseline.
	Trials []Trial
	// Best has the highest mean. Winner is the cheapest of those that are neither distinguishable from it nor further
	// behind than the tolerance; of equal ones that with the fewest changes, then the highest mean.
	Best, Winner int
	// Compared is the number of comparisons that the p-values are corrected for.
	Compared int
}

// values are the per-question values of the metric.
func (t Trial) values(m eval.Metric) []float64 { return t.Values[m.String()] }

// Judge compares all trials with the first, the baseline, and chooses the winner. Every trial has a value for each of the
// same questions. tolerance, 0 to 1, is how far a cheaper recipe may be behind the best one.
func Judge(trials []Trial, m eval.Metric, seed string, tolerance float64) Judgement {
	j := Judgement{Trials: slices.Clone(trials), Compared: len(trials) - 1}
	base := j.Trials[0].values(m)
	p := make([]float64, 0, len(trials))
	for i := range j.Trials {
		t := &j.Trials[i]
		t.Mean, t.Changes = mean(t.values(m)), t.Recipe.Changes(trials[0].Recipe)
		if t.Mean > j.Trials[j.Best].Mean {
			j.Best = i
		}
		if i == 0 {
			continue
		}
		t.Compared = compare(t.values(m), base, m, seed)
		p = append(p, t.Compared.P)
	}
	for i, adjusted := range Holm(p) {
		c := j.Trials[i+1].Compared
		c.AdjustedP, c.Real = adjusted, adjusted < Level
	}
	best := j.Trials[j.Best]
	for i := range j.Trials {
		t := &j.Trials[i]
		t.BehindBest = best.Mean - t.Mean
		t.BestP = PairedP(differences(best.values(m), t.values(m)), seed)
	}
	j.Winner = j.choose(tolerance)
	return j
}

func compare(values, base []float64, m eval.Metric, seed string) *Comparison {
	c := &Comparison{P: PairedP(differences(values, base), seed)}
	if paired := eval.Summarise(m, seed, values, base).Paired; paired != nil {
		c.Paired = *paired
	}
	c.AdjustedP, c.Real = c.P, c.P < Level
	return c
}

// AsGood tells whether a trial could stand for the best one.
func (j Judgement) AsGood(i int, tolerance float64) bool {
	t := j.Trials[i]
	return i == j.Best || t.BestP >= Level && t.BehindBest <= tolerance
}

func (j Judgement) choose(tolerance float64) int {
	winner := j.Best
	for i := range j.Trials {
		if j.AsGood(i, tolerance) && j.prefer(i, winner) < 0 {
			winner = i
		}
	}
	return winner
}

// prefer is negative where a is the better choice of two that are as good: the cheaper one, then the one that changes less,
// then the one with the higher mean.
func (j Judgement) prefer(a, b int) int {
	x, y := j.Trials[a], j.Trials[b]
	return cmp.Or(cheaper(x.Recipe, y.Recipe, x.Chunks, y.Chunks), cmp.Compare(len(x.Changes), len(y.Changes)), cmp.Compare(y.Mean, x.Mean))
}

// Outcome is what to do.
type Outcome string

const (
	// Better: the winner is better than the baseline; apply it.
	Better Outcome = "Better"
	// Cheaper: the winner costs less and is not distinguishable from the baseline; apply it.
	Cheaper Outcome = "Cheaper"
	// Keep: nothing was shown to be better than the baseline.
	Keep Outcome = "Keep"
	// Unconfirmed: the Gate part was not looked at, so nothing confirms what the Dev part says.
	Unconfirmed Outcome = "Unconfirmed"
)

// GateResult compares the winner with the baseline on the Gate part.
type GateResult struct {
	// Looks is how many different pairs of recipes this Gate part has judged, this one included; P is multiplied by it.
	Looks     int         `json:"looks"`
	Questions int         `json:"questions"`
	Value     float64     `json:"value"`
	Compared  *Comparison `json:"compared"`
}

// JudgeGate compares two measurements of the Gate part: one comparison that was decided on before, so it needs no
// correction but for the earlier looks.
func JudgeGate(winner, baseline Measurement, m eval.Metric, seed string, looks int) GateResult {
	values, base := winner.Values[m.String()], baseline.Values[m.String()]
	c := compare(values, base, m, seed)
	c.AdjustedP = min(1, c.P*float64(looks))
	c.Real = c.AdjustedP < Level
	return GateResult{Looks: looks, Questions: len(values), Value: mean(values), Compared: c}
}

// Decide joins what both parts say of the winner; gate is nil where the Gate part was not looked at.
func (j Judgement) Decide(gate *GateResult, tolerance float64) Outcome {
	winner, base := j.Trials[j.Winner], j.Trials[0]
	if j.Winner == 0 {
		return Keep
	}
	if gate == nil {
		return Unconfirmed
	}
	on := gate.Compared
	switch dev := winner.Compared; {
	case on.Delta > 0 && (on.Real || dev.Real && dev.Delta > 0):
		return Better
	case on.Real || cheaper(winner.Recipe, base.Recipe, winner.Chunks, base.Chunks) >= 0:
		return Keep
	case on.Delta >= -tolerance:
		return Cheaper
	}
	return Keep
}
