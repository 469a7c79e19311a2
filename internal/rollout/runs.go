package rollout

import (
	"slices"
	"time"

	"quarry.dev/quarry/internal/gate"
)

const (
	// maxErrors is how many runs of one version may end without a measurement before a person is asked.
	maxErrors = 3
	// firstBackoff doubles with each run that ended without a measurement, up to eight minutes: most such ends are a pod or a
	// node on its way out. Cancelled runs are paced as well, so that no disagreement can create runs without end.
	firstBackoff = 15 * time.Second
	maxDoublings = 5

	verdictPassed    = "Passed"
	verdictError     = "Error"
	verdictCancelled = "Cancelled"
)

// outcome is what the runs say about an index, against the baseline of today.
type outcome int

const (
	// unjudged: a new run is needed.
	unjudged outcome = iota
	// running: a run is under way.
	running
	// retrying: the last run was no measurement, and there may be another.
	retrying
	// passed: it may be promoted. waiting: it passed, but something freezes promotion.
	passed
	waiting
	// held: a person decides. rejected: it stays out.
	held
	rejected
)

// outcome reads the newest run that is about what stands now. Without an eval set, a stack that is ready is all that is asked.
func (p *planner) outcome(ix IndexFact) (outcome, RunFact) {
	if !p.in.EvalRequired {
		if ix.Ready && ix.StackReady {
			return passed, RunFact{}
		}
		return unjudged, RunFact{}
	}
	run, ok := p.currentRun(ix.Name)
	switch {
	case !ok:
		return unjudged, run
	case !run.Complete:
		return running, run
	case run.Decision.Action == gate.Promote:
		return passed, run
	case run.Decision.Action == gate.Reject:
		return rejected, run
	case run.Decision.Action == gate.Retry && p.count(ix.Name, verdictError) < maxErrors:
		return retrying, run
	case run.Decision.Action == gate.Hold && slices.Contains([]string{gate.ReasonHeld, gate.ReasonRolledBack, gate.ReasonMinInterval}, run.Decision.Reason):
		return waiting, run
	}
	return held, run
}

// current tells whether a run is about the gate, the version and the baseline of today.
func (p *planner) current(run RunFact) bool {
	stale := []string{gate.ReasonNoRun, gate.ReasonNotControlled, gate.ReasonSpecChanged, gate.ReasonSubjectChanged}
	return run.Baseline == p.baseline() && !slices.Contains(stale, run.Decision.Reason)
}

// currentRun is the current run of an index with the highest attempt.
func (p *planner) currentRun(index string) (RunFact, bool) {
	var newest RunFact
	found := false
	for _, run := range p.in.Runs {
		if run.Index == index && p.current(run) && (!found || run.Attempt > newest.Attempt) {
			newest, found = run, true
		}
	}
	return newest, found
}

// count counts the current runs of an index that ended with a verdict.
func (p *planner) count(index, verdict string) int {
	count := 0
	for _, run := range p.in.Runs {
		if run.Index == index && run.Complete && run.Verdict == verdict && p.current(run) {
			count++
		}
	}
	return count
}

// passed tells whether any run of an index ever passed.
func (p *planner) passed(index string) bool {
	return slices.ContainsFunc(p.in.Runs, func(run RunFact) bool {
		return run.Index == index && run.Complete && run.Verdict == verdictPassed
	})
}

// judged tells whether an index ever got a verdict about its quality. A stale one counts: an overtaken version is not judged
// again and again as baselines change.
func (p *planner) judged(index string) bool {
	return slices.ContainsFunc(p.in.Runs, func(run RunFact) bool {
		return run.Index == index && run.Complete && slices.Contains([]string{verdictPassed, "Failed", "Inconclusive"}, run.Verdict)
	})
}

// planRun asks for a run of a candidate that is up and has none about what stands now.
func (p *planner) planRun() {
	ix, ok := p.index(p.plan.Candidate)
	if !ok || !ix.Ready || !ix.StackReady || !p.in.EvalRequired || p.target != "" {
		return // while a rollback is under way the baseline is about to change
	}
	o, last := p.outcome(ix)
	if o != unjudged && o != retrying {
		return
	}
	if o == retrying {
		spent := p.count(ix.Name, verdictError) + p.count(ix.Name, verdictCancelled)
		again := last.Finished.Add(firstBackoff << min(max(spent-1, 0), maxDoublings))
		if again.After(p.in.Now) {
			p.requeueAt(again)
			return
		}
	}
	baseline := p.baseline()
	if active, ok := p.index(baseline); ok && !active.StackReady {
		return // it would answer nothing, and the run would be an error
	}
	attempt := int32(1)
	for _, run := range p.in.Runs {
		if run.Index == ix.Name {
			attempt = max(attempt, run.Attempt+1)
		}
	}
	p.plan.CreateRun = &RunIntent{Index: ix.Name, Baseline: baseline, Attempt: attempt}
}

// planCancelledRuns stops runs whose answer nobody waits for: of another index than the candidate, or about what no longer stands.
func (p *planner) planCancelledRuns() {
	for _, run := range p.in.Runs {
		if !run.Complete && (run.Index != p.plan.Candidate || !p.current(run)) {
			p.plan.CancelRuns = append(p.plan.CancelRuns, run.Name)
		}
	}
	slices.Sort(p.plan.CancelRuns)
}
