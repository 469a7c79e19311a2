package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry/internal/gate"
)

const tick = 10 * time.Second

// world is a toy cluster for one tenant: builds take 30 s, stacks start in 20 s and stop in 10 s, runs take 20 s.
type world struct {
	t        *testing.T
	start    time.Time
	in       Input
	building map[string]time.Time
	starting map[string]time.Time
	stopping map[string]time.Time
	runEnds  map[string]time.Time
	verdicts map[string][]string // by index: the verdict per attempt, the last one again and again; Passed by default
	override string
	// gate stands in for decide where it is set.
	gate     func(*RunFact)
	soak     time.Duration
	trace    strings.Builder
	lastLine string
	// promotions counts switches of the tenant Service.
	promotions int
}

func newWorld(t *testing.T) *world {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &world{
		t: t, start: start, soak: 60 * time.Second,
		in:       Input{Now: start, EvalRequired: true, HistoryLimit: 2},
		building: map[string]time.Time{}, starting: map[string]time.Time{}, stopping: map[string]time.Time{}, runEnds: map[string]time.Time{},
		verdicts: map[string][]string{},
	}
}

// want sets recipe and snapshot of the desired version.
func (w *world) want(recipe, snapshot string) {
	w.in.Desired = &Version{Name: recipe + "-" + snapshot, Snapshot: snapshot, RecipeDigest: recipe}
}

// until runs the world up to the given second, planning at every tick.
func (w *world) until(second int) {
	for end := w.start.Add(time.Duration(second) * time.Second); !w.in.Now.After(end); w.in.Now = w.in.Now.Add(tick) {
		w.pass()
		plan := Next(w.in)
		w.record(plan)
		w.check(plan)
		w.apply(plan)
	}
}

// pass lets time do its work: builds, starts, stops and runs end.
func (w *world) pass() {
	due := func(times map[string]time.Time, name string) bool {
		at, ok := times[name]
		if ok && !at.After(w.in.Now) {
			delete(times, name)
			return true
		}
		return false
	}
	for i := range w.in.Indexes {
		ix := &w.in.Indexes[i]
		if due(w.building, ix.Name) {
			ix.Failed = strings.HasPrefix(ix.Name, "broken")
			ix.Ready = !ix.Failed
			if ix.Failed {
				ix.FailMessage = "no document could be read"
			}
		}
		ix.StackReady = ix.StackReady || due(w.starting, ix.Name)
		if due(w.stopping, ix.Name) {
			ix.HasStack = false
		}
	}
	for i := range w.in.Runs {
		run := &w.in.Runs[i]
		if due(w.runEnds, run.Name) {
			run.Complete, run.Finished, run.Verdict = true, w.in.Now, "Passed"
			if list := w.verdicts[run.Index]; len(list) > 0 {
				run.Verdict = list[min(int(run.Attempt), len(list))-1]
			}
		}
		if w.gate != nil {
			w.gate(run)
		} else {
			run.Decision = w.decide(*run)
		}
	}
}

// decide is the gate in small.
func (w *world) decide(run RunFact) gate.Decision {
	lifted := w.override == run.Index && (run.Verdict == "Failed" || run.Verdict == "Inconclusive")
	d := gate.Decision{Message: "verdict " + run.Verdict}
	switch {
	case run.Baseline != w.in.Active:
		d.Action, d.Reason = gate.Retry, gate.ReasonSpecChanged
	case !run.Complete:
		d.Action, d.Reason = gate.Hold, gate.ReasonRunning
	case run.Verdict == "Error":
		d.Action, d.Reason = gate.Retry, gate.ReasonError
	case run.Verdict == "Failed" && !lifted:
		d.Action, d.Reason = gate.Reject, gate.ReasonFailed
	case run.Verdict == "Inconclusive" && !lifted:
		d.Action, d.Reason = gate.Hold, gate.ReasonInconclusive
	case w.in.Hold != "":
		d.Action, d.Reason = gate.Hold, gate.ReasonHeld
	case w.in.RollbackTo != "":
		d.Action, d.Reason = gate.Hold, gate.ReasonRolledBack
	default:
		d.Action, d.Reason = gate.Promote, gate.ReasonPassed
	}
	return d
}

// record writes a line whenever something changes or is done.
func (w *world) record(plan Plan) {
	var does []string
	if plan.CreateIndex != nil {
		does = append(does, "create "+plan.CreateIndex.Name)
	}
	if r := plan.CreateRun; r != nil {
		does = append(does, fmt.Sprintf("run %s against %q, attempt %d", r.Index, r.Baseline, r.Attempt))
	}
	if plan.Promote != "" {
		does = append(does, "PROMOTE "+plan.Promote)
	}
	for verb, names := range map[string][]string{"cancel": plan.CancelRuns, "delete": plan.DeleteIndexes} {
		if len(names) > 0 {
			does = append(does, verb+" "+strings.Join(names, ", "))
		}
	}
	slices.Sort(does)
	state := fmt.Sprintf("active %q candidate %q %s stacks %v retire %v\n       %s: %s", w.in.Active, plan.Candidate, plan.Stage, plan.EnsureStacks, plan.RetireStacks, plan.Reason, plan.Message)
	if state == w.lastLine && len(does) == 0 {
		return
	}
	w.lastLine = state
	fmt.Fprintf(&w.trace, "%4ds  %s\n", int(w.in.Now.Sub(w.start).Seconds()), state)
	for _, d := range does {
		fmt.Fprintf(&w.trace, "       -> %s\n", d)
	}
}

// check holds at every step of every rollout.
func (w *world) check(plan Plan) {
	w.t.Helper()
	fail := func(format string, values ...any) {
		w.t.Helper()
		w.t.Fatalf("at %v: %s\n%s", w.in.Now.Sub(w.start), fmt.Sprintf(format, values...), w.trace.String())
	}
	stacks := map[string]bool{}
	for _, ix := range w.in.Indexes {
		if ix.HasStack {
			stacks[ix.Name] = true
		}
	}
	for _, name := range plan.EnsureStacks {
		stacks[name] = true
		if slices.Contains(plan.RetireStacks, name) || slices.Contains(plan.DeleteIndexes, name) {
			fail("%s is needed and removed at once", name)
		}
	}
	if len(stacks) > maxStacks {
		fail("%d stacks: %v", len(stacks), stacks)
	}
	for _, name := range plan.DeleteIndexes {
		if name == w.in.Active || name == plan.Candidate || name == plan.Promote || name == w.in.Previous && w.in.SoakUntil.After(w.in.Now) {
			fail("%s is in use and deleted", name)
		}
	}
	if w.in.Active != "" && !slices.Contains(plan.EnsureStacks, w.in.Active) {
		fail("the active index %s has no stack", w.in.Active)
	}
	w.checkPromotion(plan, fail)
}

// checkPromotion: nothing serves without a Passed verdict or an override, nor while promotion is frozen, nor with half a stack.
func (w *world) checkPromotion(plan Plan, fail func(string, ...any)) {
	w.t.Helper()
	if plan.Promote == "" {
		return
	}
	at := slices.IndexFunc(w.in.Indexes, func(ix IndexFact) bool { return ix.Name == plan.Promote })
	if at < 0 || !w.in.Indexes[at].StackReady {
		fail("%s is promoted without a ready stack", plan.Promote)
	}
	proven := w.in.Indexes[at].Promoted || !w.in.EvalRequired || w.override == plan.Promote
	for _, run := range w.in.Runs {
		proven = proven || run.Index == plan.Promote && run.Verdict == "Passed"
	}
	switch {
	case !proven:
		fail("%s is promoted without a verdict", plan.Promote)
	case w.in.Hold != "" && w.in.RollbackTo == "":
		fail("%s is promoted in spite of hold", plan.Promote)
	case w.in.RollbackTo != "" && plan.Promote != w.in.RollbackTo:
		fail("%s is promoted in spite of rollbackTo", plan.Promote)
	}
}

// apply carries the plan out.
func (w *world) apply(plan Plan) {
	now := w.in.Now
	if v := plan.CreateIndex; v != nil {
		w.in.Indexes = append(w.in.Indexes, IndexFact{Name: v.Name, Version: *v, Created: now})
		w.building[v.Name] = now.Add(30 * time.Second)
	}
	for i := range w.in.Indexes {
		ix := &w.in.Indexes[i]
		switch {
		case slices.Contains(plan.EnsureStacks, ix.Name) && (!ix.HasStack || w.stops(ix.Name)):
			delete(w.stopping, ix.Name)
			ix.HasStack = true
			w.starting[ix.Name] = now.Add(20 * time.Second)
		case slices.Contains(plan.RetireStacks, ix.Name) && !w.stops(ix.Name):
			ix.StackReady = false
			delete(w.starting, ix.Name)
			w.stopping[ix.Name] = now.Add(10 * time.Second)
		}
	}
	if r := plan.CreateRun; r != nil {
		name := fmt.Sprintf("%s.%d", r.Index, r.Attempt)
		w.in.Runs = append(w.in.Runs, RunFact{Name: name, Index: r.Index, Baseline: r.Baseline, Attempt: r.Attempt})
		w.runEnds[name] = now.Add(20 * time.Second)
	}
	w.in.Runs = slices.DeleteFunc(w.in.Runs, func(run RunFact) bool { return slices.Contains(plan.CancelRuns, run.Name) })
	w.in.Indexes = slices.DeleteFunc(w.in.Indexes, func(ix IndexFact) bool { return slices.Contains(plan.DeleteIndexes, ix.Name) })
	if plan.Promote != "" {
		w.promotions++
		w.in.Previous, w.in.Active = w.in.Active, plan.Promote
		w.in.PromotedAt, w.in.SoakUntil = now, now.Add(w.soak)
		for i := range w.in.Indexes {
			w.in.Indexes[i].Promoted = w.in.Indexes[i].Promoted || w.in.Indexes[i].Name == plan.Promote
		}
	}
}

func (w *world) stops(name string) bool { _, ok := w.stopping[name]; return ok }
