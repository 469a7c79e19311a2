package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxStacks is how many serving stacks one tenant may have: active, previous, and candidate or rollback target. A new one
// waits until a retiring one is gone, because the cluster may have room for no more.
const maxStacks = 3

// planner collects the plan of one tenant.
type planner struct {
	in   Input
	plan Plan
	// target is the index to roll back to, "" when none is wanted or it was refused.
	target string
}

// Next plans from the facts. It is a table of contents: each step reads the facts and what the steps before it decided.
func Next(in Input) Plan {
	p := &planner{in: in}
	p.planRollback()
	p.planCandidate()
	p.planSwitch()
	p.planStacks()
	p.planRun()
	p.planCancelledRuns()
	p.planDeletions()
	return p.plan
}

// say records reason and message, unless an earlier step had something more important to say.
func (p *planner) say(reason, format string, values ...any) {
	if p.plan.Reason == "" {
		p.plan.Reason, p.plan.Message = reason, fmt.Sprintf(format, values...)
	}
}

// requeueAt asks to be planned again at that time, or earlier if a step before wants that.
func (p *planner) requeueAt(at time.Time) {
	wait := at.Sub(p.in.Now)
	if wait > 0 && (p.plan.Requeue == 0 || wait < p.plan.Requeue) {
		p.plan.Requeue = wait
	}
}

// index finds a fact by name; Deleting ones count as gone.
func (p *planner) index(name string) (IndexFact, bool) {
	for _, ix := range p.in.Indexes {
		if ix.Name == name && !ix.Deleting {
			return ix, true
		}
	}
	return IndexFact{}, false
}

// baseline is the index that a candidate is compared with; "" when nothing serves.
func (p *planner) baseline() string {
	if _, ok := p.index(p.in.Active); ok {
		return p.in.Active
	}
	return ""
}

// planRollback checks whether the index that rollbackTo names may serve, and switches to it once its stack is ready.
func (p *planner) planRollback() {
	name := p.in.RollbackTo
	if name == "" || name == p.in.Active {
		return
	}
	ix, ok := p.index(name)
	switch {
	case !ok:
		p.say(ReasonRollbackRefused, "rollbackTo %q names no index of this tenant: name one that still exists, or clear it; nothing is promoted until then", name)
	case ix.Failed || !ix.Ready:
		p.say(ReasonRollbackRefused, "rollbackTo %q names an index without a complete artifact: name one that has served, or clear it; nothing is promoted until then", name)
	case p.in.EvalRequired && !ix.Promoted && !p.passed(name):
		p.say(ReasonRollbackRefused, "rollbackTo %q names an index that never passed its gate: name one that has served, or clear it; nothing is promoted until then", name)
	case !ix.StackReady:
		p.target = name
		p.say(ReasonRollingBack, "rolling back to %s, once its stack is ready", name)
	default:
		p.target = name
		p.plan.Promote = name
		p.say(ReasonRollingBack, "rolling back to %s, whose stack is ready", name)
	}
}

// planCandidate chooses the candidate: the overtaken one that still awaits its verdict, or else the desired version.
func (p *planner) planCandidate() {
	desired := p.in.Desired
	if desired == nil {
		p.say(ReasonNoSnapshot, "the corpus has no snapshot yet")
		return
	}
	if name := p.overtaken(); name != "" {
		p.plan.Candidate = name
		return
	}
	if desired.Name == p.in.Active {
		if _, ok := p.index(desired.Name); ok {
			p.say(ReasonUpToDate, "the active index is the desired version")
			return
		}
	}
	at := slices.IndexFunc(p.in.Indexes, func(ix IndexFact) bool { return ix.Name == desired.Name })
	if at < 0 {
		p.plan.CreateIndex = desired
		p.plan.Candidate = desired.Name
		return
	}
	switch ix := p.in.Indexes[at]; {
	case ix.Deleting:
		p.say(ReasonBuilding, "index %s is being deleted, and is built again afterwards", ix.Name)
	case ix.Failed:
		p.say(ReasonBuildFailed, "index %s cannot be built: %s; it is not tried again until the version changes", ix.Name, ix.FailMessage)
	default:
		if o, run := p.outcome(ix); o == rejected {
			p.say(ReasonRejected, "index %s is rejected until the version or the gate changes: %s", ix.Name, run.Decision.Message)
			return
		}
		p.plan.Candidate = ix.Name
	}
}

// overtaken finds the candidate that a newer snapshot has overtaken and that runs to its verdict all the same; otherwise a
// corpus that changes faster than an index is judged would never get a promotion. The oldest comes first.
func (p *planner) overtaken() string {
	var found *IndexFact
	for i, ix := range p.in.Indexes {
		if ix.Deleting || ix.Failed || ix.Name == p.in.Active || ix.Name == p.in.Desired.Name || ix.Version.RecipeDigest != p.in.Desired.RecipeDigest {
			continue
		}
		if p.inFlight(ix) && (found == nil || ix.Created.Before(found.Created) || ix.Created.Equal(found.Created) && ix.Name < found.Name) {
			found = &p.in.Indexes[i]
		}
	}
	if found == nil {
		return ""
	}
	return found.Name
}

// inFlight tells whether an index that is not the desired one still awaits its verdict, or passed and may be promoted in a while.
func (p *planner) inFlight(ix IndexFact) bool {
	o, _ := p.outcome(ix)
	frozen := p.in.Hold != "" || p.in.RollbackTo != ""
	switch {
	case ix.Promoted: // it was active once: only a run that is under way makes it a candidate
		return o == running
	case o == passed:
		return !frozen
	case o == waiting:
		return !frozen && p.intervalEnd().After(p.in.Now)
	case o == held || o == rejected:
		return false
	}
	return !p.judged(ix.Name)
}

// intervalEnd is when the next promotion is allowed.
func (p *planner) intervalEnd() time.Time {
	if p.in.Active == "" {
		return time.Time{}
	}
	return p.in.PromotedAt.Add(p.in.MinInterval)
}

// planSwitch tells how far the candidate has come, and whether it is promoted.
func (p *planner) planSwitch() {
	ix, exists := p.index(p.plan.Candidate)
	switch {
	case p.plan.Candidate == "":
		return
	case !exists || !ix.Ready:
		p.plan.Stage = StageBuilding
		p.say(ReasonBuilding, "index %s is being built", p.plan.Candidate)
		return
	}
	switch o, run := p.outcome(ix); {
	case o == held:
		p.plan.Stage = StageHeld
		p.say(p.heldReason(run), "index %s is held: %s", ix.Name, run.Decision.Message)
	case !ix.StackReady:
		p.plan.Stage = StageStarting
		p.say(ReasonStarting, "%s", startingMessage(ix))
	case o == passed || o == waiting:
		p.planPromotion(ix, o, run)
	default:
		p.plan.Stage = StageEvaluating
		p.say(ReasonEvaluating, "index %s is being evaluated", ix.Name)
	}
}

// startingMessage names the roles that are not ready: a reranker whose server does not answer is found by its name.
func startingMessage(ix IndexFact) string {
	if len(ix.Starting) == 0 {
		return fmt.Sprintf("the stack of index %s is starting", ix.Name)
	}
	return fmt.Sprintf("the stack of index %s is starting: not ready yet: %s", ix.Name, strings.Join(ix.Starting, ", "))
}

// heldReason distinguishes a person's turn from runs that gave no measurement.
func (p *planner) heldReason(run RunFact) string {
	if run.Verdict == verdictError {
		return ReasonRetriesExhausted
	}
	return ReasonHeld
}

// planPromotion promotes a candidate that passed, unless something freezes promotion. The checks stand here as well as in the
// gate: a decision may have been taken a moment before someone set hold.
func (p *planner) planPromotion(ix IndexFact, o outcome, run RunFact) {
	p.plan.Stage = StageHeld
	switch end := p.intervalEnd(); {
	case p.in.Hold != "":
		p.say(ReasonHeld, "index %s passed, and is held: %s", ix.Name, p.in.Hold)
	case p.in.RollbackTo != "":
		p.say(ReasonHeld, "index %s passed, and is held while rollbackTo is %s", ix.Name, p.in.RollbackTo)
	case end.After(p.in.Now):
		p.requeueAt(end)
		p.say(ReasonHeld, "index %s passed, and waits for minInterval until %s", ix.Name, end.UTC().Format(time.RFC3339))
	case o == waiting:
		p.say(ReasonHeld, "index %s passed, and is held: %s", ix.Name, run.Decision.Message)
	case !p.in.EvalRequired:
		p.promote(ix.Name, "without an evaluation, because the tenant has no evalSetRef")
	default:
		p.promote(ix.Name, "%s", run.Decision.Message)
	}
}

func (p *planner) promote(name, format string, values ...any) {
	p.plan.Promote, p.plan.Stage = name, StageEvaluating
	p.say(ReasonPromoting, format, values...)
}

// planStacks says which stacks are needed: that of the active index, of the rollback target, of the previous one during its
// soak, and of a candidate with an artifact.
func (p *planner) planStacks() {
	needed := map[string]bool{}
	ensure := func(name string) {
		if ix, ok := p.index(name); ok && ix.Ready {
			needed[name] = true
		}
	}
	ensure(p.in.Active)
	if p.in.Previous != "" && p.in.SoakUntil.After(p.in.Now) {
		p.requeueAt(p.in.SoakUntil)
		// a rollback needs the room: what it leaves is warm enough
		if p.target == "" || p.target == p.in.Previous {
			ensure(p.in.Previous)
		}
	}
	for _, name := range []string{p.target, p.plan.Candidate} {
		if name != "" && (needed[name] || p.hasRoom(name, needed)) {
			ensure(name)
		}
	}
	for _, ix := range p.in.Indexes {
		switch {
		case needed[ix.Name]:
			p.plan.EnsureStacks = append(p.plan.EnsureStacks, ix.Name)
		case ix.HasStack && !ix.Deleting:
			p.plan.RetireStacks = append(p.plan.RetireStacks, ix.Name)
		}
	}
	slices.Sort(p.plan.EnsureStacks)
	slices.Sort(p.plan.RetireStacks)
}

// hasRoom tells whether name may have a stack beside those that are needed or not yet gone. One that is up already stays,
// unless the needed ones alone fill the room.
func (p *planner) hasRoom(name string, needed map[string]bool) bool {
	others, own := len(needed), false
	for _, ix := range p.in.Indexes {
		if ix.HasStack && ix.Name == name {
			own = true
		} else if ix.HasStack && !needed[ix.Name] {
			others++
		}
	}
	return others < maxStacks || own && len(needed) < maxStacks
}
