// Package gate turns a report into a verdict, and a verdict into a decision. Both are pure functions of their input.
//
// Only a completed, valid measurement of exactly what runs now can pass; the absence of evidence never does.
package gate

import "time"

// Action is what a decision asks the rollout to do with one candidate.
type Action string

const (
	// Promote: every policy agreed.
	Promote Action = "Promote"
	// Hold: nothing is wrong that a new run or a new version would cure by itself; a person or time decides.
	Hold Action = "Hold"
	// Reject: this version is not good enough, or leaks; it stays rejected until the gate or the version changes.
	Reject Action = "Reject"
	// Retry: the run is no evidence about what runs now; another one is needed.
	Retry Action = "Retry"
)

// Reasons of a decision.
const (
	ReasonPassed         = "Passed"
	ReasonOverridden     = "Overridden"
	ReasonNoRun          = "NoRun"
	ReasonNotControlled  = "NotControlled"
	ReasonSpecChanged    = "SpecChanged"
	ReasonSubjectChanged = "SubjectChanged"
	ReasonRunning        = "Running"
	ReasonLeaks          = "Leaks"
	ReasonFailed         = "Failed"
	ReasonInconclusive   = "Inconclusive"
	ReasonError          = "Error"
	ReasonCancelled      = "Cancelled"
	ReasonUnknownVerdict = "UnknownVerdict"
	ReasonHeld           = "Held"
	ReasonRolledBack     = "RolledBack"
	ReasonMinInterval    = "MinInterval"
)

// Decision is the outcome of the policy chain for one run.
type Decision struct {
	Action  Action
	Reason  string
	Message string
	// RequeueAfter is when time alone may change the decision; 0 when it cannot.
	RequeueAfter time.Duration
}
