// Package rollout plans, for one tenant, which index versions exist, which have a serving stack, and which one serves.
//
// It is pure: facts go in, a plan comes out, and planning again from the same facts gives the same plan. The caller carries the
// plan out and comes back with new facts, so a crash between two writes costs nothing.
package rollout

import (
	"time"

	"quarry.dev/quarry/internal/gate"
)

// Version is what an index is made of. Two versions are the same when their names are: names are hashes.
type Version struct {
	// Name of the Index object.
	Name string
	// Snapshot is the digest of the listing.
	Snapshot string
	// RecipeDigest covers indexing, retrieval and image. A candidate survives a newer snapshot, but not a changed recipe.
	RecipeDigest string
}

// IndexFact is an Index object of the tenant as it stands.
type IndexFact struct {
	Name    string
	Version Version
	Created time.Time
	// Ready: the artifact is complete.
	Ready bool
	// Failed: it never will be; FailMessage says why.
	Failed      bool
	FailMessage string
	// HasStack: any Deployment or pod of its stack still exists with replicas. StackReady: every replica of it is ready.
	HasStack   bool
	StackReady bool
	// Starting names the roles that keep it from being ready.
	Starting []string
	// Promoted: it has served users before (so a rollback may name it without a verdict of today).
	Promoted bool
	Deleting bool
}

// RunFact is an EvalRun object of the tenant as it stands. Runs that the pipeline does not control are left out by the caller.
type RunFact struct {
	Name     string
	Index    string
	Baseline string
	Attempt  int32
	// Complete: the record has its verdict. Verdict is one of the words of v1alpha1.Verdict.
	Complete bool
	Verdict  string
	// Finished is when the record was completed; it paces retries.
	Finished time.Time
	// Decision is what the gate says about this run now.
	Decision gate.Decision
}

// Input is everything that the plan depends on.
type Input struct {
	Now time.Time
	// Desired is the version that spec and newest snapshot ask for; nil while the corpus has no snapshot.
	Desired *Version
	Indexes []IndexFact
	Runs    []RunFact

	// Active is the index that the tenant Service names; "" before the first promotion.
	Active     string
	PromotedAt time.Time
	// Previous stays warm until SoakUntil.
	Previous  string
	SoakUntil time.Time

	// EvalRequired: the tenant has an eval set, so nothing is promoted without a verdict.
	EvalRequired bool
	// Hold is the reason why nothing may be promoted; RollbackTo the index that is to serve instead. Once RollbackTo is cleared
	// the desired version is promoted again if it passes: change the recipe first.
	Hold       string
	RollbackTo string
	// MinInterval is the least time between two promotions; 0 means none.
	MinInterval time.Duration
	// HistoryLimit is how many finished indexes are kept beside those in use.
	HistoryLimit int
}

// Stage is how far the candidate has come.
type Stage string

const (
	// StageNone: there is no candidate.
	StageNone Stage = ""
	// StageBuilding: Jobs make the artifact.
	StageBuilding Stage = "Building"
	// StageStarting: the stack loads it.
	StageStarting Stage = "Starting"
	// StageEvaluating: a run asks it.
	StageEvaluating Stage = "Evaluating"
	// StageHeld: it has its verdict, and waits for a person, for time, or for a successor.
	StageHeld Stage = "Held"
)

// Reasons of a plan.
const (
	ReasonNoSnapshot       = "NoSnapshot"
	ReasonUpToDate         = "UpToDate"
	ReasonBuilding         = "Building"
	ReasonBuildFailed      = "BuildFailed"
	ReasonStarting         = "Starting"
	ReasonEvaluating       = "Evaluating"
	ReasonRejected         = "Rejected"
	ReasonHeld             = "Held"
	ReasonRetriesExhausted = "RetriesExhausted"
	ReasonPromoting        = "Promoting"
	ReasonRollingBack      = "RollingBack"
	ReasonRollbackRefused  = "RollbackRefused"
)

// RunIntent asks for a new EvalRun. Baseline is "" when nothing serves yet.
type RunIntent struct {
	Index    string
	Baseline string
	Attempt  int32
}

// Plan is what to do next. All lists are sorted. Everything in it may be done in any order, and again.
type Plan struct {
	CreateIndex *Version
	// EnsureStacks have a full serving stack; RetireStacks have one that nothing needs any more.
	EnsureStacks []string
	RetireStacks []string
	CreateRun    *RunIntent
	// CancelRuns are incomplete runs whose answer nobody waits for.
	CancelRuns []string
	// Promote names the index that the tenant Service is to point to.
	Promote       string
	DeleteIndexes []string

	Candidate string
	Stage     Stage
	// Requeue is when time alone may change the plan; 0 when it cannot.
	Requeue time.Duration
	Reason  string
	Message string
}
