package rollout

import (
	"cmp"
	"slices"
)

// planDeletions removes what is neither in use nor history. Without a desired version nothing is deleted: then nobody knows
// what is in use.
func (p *planner) planDeletions() {
	if p.in.Desired == nil {
		return
	}
	var history []IndexFact
	for _, ix := range p.in.Indexes {
		switch {
		case ix.Deleting || p.inUse(ix.Name):
		case ix.Ready && (ix.Promoted || p.judged(ix.Name)):
			history = append(history, ix)
		default: // a candidate that was cancelled, or a build that failed
			p.plan.DeleteIndexes = append(p.plan.DeleteIndexes, ix.Name)
		}
	}
	// what has served comes first: a row of rejected versions must not push out the one to roll back to
	slices.SortFunc(history, func(a, b IndexFact) int {
		return cmp.Or(compareBool(b.Promoted, a.Promoted), b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
	for _, ix := range history[min(max(p.in.HistoryLimit, 0), len(history)):] {
		p.plan.DeleteIndexes = append(p.plan.DeleteIndexes, ix.Name)
	}
	slices.Sort(p.plan.DeleteIndexes)
}

// inUse tells whether an index must stay: it serves, may serve again at any moment, is judged, or is the record that keeps the
// desired version rejected.
func (p *planner) inUse(name string) bool {
	return name == p.in.Active || name == p.in.RollbackTo || name == p.plan.Candidate || name == p.in.Desired.Name ||
		name == p.in.Previous && p.in.SoakUntil.After(p.in.Now)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
