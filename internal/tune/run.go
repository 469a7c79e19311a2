package tune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quarry.dev/quarry/internal/eval"
)

// MinQuestions is the least number of questions in either part: with fewer, hardly any difference can be told from chance.
const MinQuestions = 20

// Measurer measures a recipe on the answerable questions of one part of the set, in the order of the set.
type Measurer interface {
	Measure(ctx context.Context, r Recipe, part eval.Part) (Measurement, error)
}

// Input is all that a run needs.
type Input struct {
	Plan     Plan
	Measurer Measurer
	Store    *Store
	// Subject names what is measured other than the recipe: corpus, access, metrics and the code that measures. DevSet and
	// GateSet are digests of the questions of either part.
	Subject, DevSet, GateSet string
	Metric                   eval.Metric
	// Tolerance, 0 to 1, is how far a cheaper recipe may be behind the best.
	Tolerance float64
	// Max trials are made, the baseline included; 0: as many as there are. Budget bounds the time of new trials; 0: none.
	Max    int
	Budget time.Duration
	// Again permits another look at a Gate part that has judged other recipes.
	Again bool
	// DevOnly keeps the Gate part for a later run.
	DevOnly bool
	// Progress, when set, is called after each trial, and Now is the clock.
	Progress func(Progress)
	Now      func() time.Time
}

// Progress is where a run stands.
type Progress struct {
	Trial Trial
	// Done trials of at most Most; Best is the highest mean so far, of the recipe BestRecipe.
	Done, Most int
	Best       float64
	BestRecipe Recipe
	// Cached tells that the trial was measured by an earlier run. Left is a rough guess of the time to the end, 0 unknown.
	Cached bool
	Left   time.Duration
}

// Result is what a run found.
type Result struct {
	Judgement
	// Stopped says why the search ended early; empty when the plan was carried out to its end.
	Stopped string
	// LeftOut lists rerankers that did not answer, which nothing is said of.
	LeftOut []string
	// Gate is nil where the Gate part was not looked at; Refused says why, where it should have been.
	Gate    *GateResult
	Refused string
	Outcome Outcome
	// Apply is the recipe to use.
	Apply Recipe
}

// ErrGateUsed says that the Gate part has judged other recipes before.
var ErrGateUsed = errors.New("the Gate part was looked at before")

// Run searches on the Dev part, chooses a winner, and measures it once on the Gate part. What the Store holds is not
// measured again, so a run that was stopped goes on where it was.
func Run(ctx context.Context, in Input) (Result, error) {
	found, err := in.search(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Judgement: Judge(found.trials, in.Metric, in.DevSet, in.Tolerance), Stopped: found.stopped, LeftOut: found.leftOut}
	if result.Winner != 0 && !in.DevOnly {
		if err := in.confirm(ctx, &result); err != nil {
			return Result{}, err
		}
	}
	result.Outcome = result.Decide(result.Gate, in.Tolerance)
	result.Apply = in.Plan.Baseline
	if result.Outcome != Keep {
		result.Apply = result.Trials[result.Winner].Recipe
	}
	return result, nil
}

// findings are what a search leaves.
type findings struct {
	trials  []Trial
	stopped string
	leftOut []string
	byKey   map[string]Trial
	scores  Scores
}

// unmeasured is the score of a recipe that gave no measurement: it is never the best.
const unmeasured = -1

// search carries the plan out, until it ends or a bound is reached.
func (in Input) search(ctx context.Context) (findings, error) {
	f := findings{byKey: map[string]Trial{}, scores: Scores{}}
	clock := newClock(in)
	for {
		steps, done := in.Plan.Next(f.scores)
		f.trials = f.trials[:0]
		for i, s := range steps {
			key := s.Recipe.Key()
			if _, tried := f.scores[key]; !tried {
				if f.stopped = clock.stop(i); f.stopped != "" {
					return f, nil
				}
				if err := in.try(ctx, s, &f, clock, i+1); err != nil {
					return f, err
				}
			}
			if t, ok := f.byKey[key]; ok {
				f.trials = append(f.trials, t)
			}
		}
		if done {
			return f, nil
		}
	}
}

// try measures one step. A reranker that is too slow for its time-out must not end a long search: it is left out.
func (in Input) try(ctx context.Context, s Step, f *findings, clock *clock, number int) error {
	key := s.Recipe.Key()
	m, cached, err := in.measure(ctx, s.Recipe, eval.Dev)
	if err != nil && ctx.Err() == nil && s.Recipe.reranks() && number > 1 {
		f.scores[key] = unmeasured
		f.leftOut = append(f.leftOut, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	t := Trial{Stage: s.Stage, Recipe: s.Recipe, Changes: s.Recipe.Changes(in.Plan.Baseline), Measurement: m}
	t.Mean = mean(t.values(in.Metric))
	f.byKey[key], f.scores[key] = t, t.Mean
	clock.tick(t, cached, number, in)
	return nil
}

// measure takes a measurement from the store, or makes it and stores it.
func (in Input) measure(ctx context.Context, r Recipe, part eval.Part) (m Measurement, cached bool, err error) {
	set := in.DevSet
	if part == eval.Gate {
		set = in.GateSet
	}
	key := digest(in.Subject, set, r.Key())
	if m, ok := in.Store.Get(key); ok && m.Values[in.Metric.String()] != nil {
		return m, true, nil
	}
	m, err = in.Measurer.Measure(ctx, r, part)
	if ctx.Err() != nil {
		return m, false, fmt.Errorf("stopped (%w): what was measured is kept, so the same command goes on from here", ctx.Err())
	}
	if err != nil {
		return m, false, fmt.Errorf("trial %s: %w", r.Describe(), err)
	}
	return m, false, in.Store.Put(key, r.Describe(), m)
}

// confirm measures winner and baseline on the Gate part, unless that has judged another pair before.
func (in Input) confirm(ctx context.Context, result *Result) error {
	winner := result.Trials[result.Winner].Recipe
	pair := digest(in.Subject, winner.Key(), in.Plan.Baseline.Key())
	looks, err := in.Store.Look(Look{Gate: in.GateSet, Pair: pair, At: in.Now().UTC()}, in.Again)
	if errors.Is(err, ErrGateUsed) {
		result.Refused = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	var both [2]Measurement
	for i, r := range []Recipe{winner, in.Plan.Baseline} {
		var err error
		if both[i], _, err = in.measure(ctx, r, eval.Gate); err != nil {
			return err
		}
	}
	gate := JudgeGate(both[0], both[1], in.Metric, in.GateSet, looks)
	result.Gate = &gate
	return nil
}
