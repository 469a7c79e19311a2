package gate

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"quarry.dev/quarry/api/v1alpha1"
)

// Input is everything that a decision about one run depends on.
type Input struct {
	Now time.Time
	// PipelineUID is the UID of the pipeline that asks.
	PipelineUID string
	// Run is the record; nil when there is none.
	Run *Run
	// DesiredSpec is what a run of this index must say today; its attempt is ignored.
	DesiredSpec v1alpha1.EvalRunSpec
	// Running is what stands now, computed afresh; nil when the index is gone. Its access epoch is ignored.
	Running *v1alpha1.EvalSubject

	Hold       string
	RollbackTo string
	Override   *v1alpha1.Override
	// LastPromotion is zero before the first one.
	LastPromotion time.Time
	MinInterval   time.Duration
}

// Run is an EvalRun, as far as it is evidence.
type Run struct {
	Name string
	// ControllerUID is the UID of the controlling owner; "" for a run that somebody created by hand.
	ControllerUID string
	Spec          v1alpha1.EvalRunSpec
	Status        v1alpha1.EvalRunStatus
}

// policy objects to a promotion, or returns nil.
type policy func(Input) *Decision

// chain is the whole gate. The first policy that objects wins, so whose evidence it is comes before what it says, and what it
// says before whether now is the time.
var chain = []policy{
	isControlled,
	matchesSpec,
	isComplete,
	foundNoLeak,
	matchesSubject,
	passed,
	isNotHeld,
	isNotRolledBack,
	keepsInterval,
}

// Decide runs the policy chain.
func Decide(in Input) Decision {
	for _, objects := range chain {
		if d := objects(in); d != nil {
			return *d
		}
	}
	if lifts(in) {
		return Decision{Action: Promote, Reason: ReasonOverridden, Message: fmt.Sprintf("verdict %s overridden (%s): %s", in.Run.Status.Verdict, in.Override.Reason, in.Run.Status.Message)}
	}
	return Decision{Action: Promote, Reason: ReasonPassed, Message: in.Run.Status.Message}
}

// isControlled: a run that anybody may create is no evidence.
func isControlled(in Input) *Decision {
	switch {
	case in.Run == nil:
		return &Decision{Action: Hold, Reason: ReasonNoRun, Message: "there is no run"}
	case in.PipelineUID == "" || in.Run.ControllerUID != in.PipelineUID:
		return &Decision{Action: Hold, Reason: ReasonNotControlled, Message: fmt.Sprintf("run %s is not controlled by this pipeline", in.Run.Name)}
	}
	return nil
}

// matchesSpec: a verdict of another gate, eval set or baseline says nothing about this one.
func matchesSpec(in Input) *Decision {
	ran, wanted := in.Run.Spec, in.DesiredSpec
	ran.Attempt, wanted.Attempt = 0, 0
	if equality.Semantic.DeepEqual(ran, wanted) {
		return nil
	}
	return &Decision{Action: Retry, Reason: ReasonSpecChanged, Message: fmt.Sprintf("run %s asked something else than the gate, the eval set and the baseline of today", in.Run.Name)}
}

func isComplete(in Input) *Decision {
	if in.Run.Status.Verdict != "" {
		return nil
	}
	return &Decision{Action: Hold, Reason: ReasonRunning, Message: fmt.Sprintf("run %s is under way", in.Run.Name)}
}

// foundNoLeak: no override lifts a leak, and no verdict hides one.
func foundNoLeak(in Input) *Decision {
	if l := in.Run.Status.Leaks; l != nil && l.Hits > 0 {
		return &Decision{Action: Reject, Reason: ReasonLeaks, Message: in.Run.Status.Message}
	}
	return nil
}

// matchesSubject: what was judged is what runs now, digest by digest. The access epoch differs all the time, and is no part of a
// version: permissions are applied to every answer, whatever its version.
func matchesSubject(in Input) *Decision {
	verdict := in.Run.Status.Verdict
	if verdict == v1alpha1.VerdictError || verdict == v1alpha1.VerdictCancelled {
		return nil // there is nothing to compare; passed sends for another run
	}
	if in.Run.Status.Subject == nil || in.Running == nil {
		return &Decision{Action: Retry, Reason: ReasonSubjectChanged, Message: fmt.Sprintf("run %s does not say what it judged, or that no longer exists", in.Run.Name)}
	}
	judged, running := *in.Run.Status.Subject, *in.Running
	judged.AccessEpoch, running.AccessEpoch = 0, 0
	if judged != running || running.IndexDigest == "" {
		return &Decision{Action: Retry, Reason: ReasonSubjectChanged, Message: fmt.Sprintf("run %s judged other digests than those that run now", in.Run.Name)}
	}
	return nil
}

// passed: only Passed passes; Failed and Inconclusive may be overridden for this one index.
func passed(in Input) *Decision {
	message := in.Run.Status.Message
	switch in.Run.Status.Verdict {
	case v1alpha1.VerdictPassed:
		if l := in.Run.Status.Leaks; l == nil || l.Probes <= 0 {
			return &Decision{Action: Hold, Reason: ReasonInconclusive, Message: "the run says Passed, but shows no answer that was checked for leaks"}
		}
		return nil
	case v1alpha1.VerdictFailed:
		if lifts(in) {
			return nil
		}
		return &Decision{Action: Reject, Reason: ReasonFailed, Message: message}
	case v1alpha1.VerdictInconclusive:
		if lifts(in) {
			return nil
		}
		return &Decision{Action: Hold, Reason: ReasonInconclusive, Message: message}
	case v1alpha1.VerdictError:
		return &Decision{Action: Retry, Reason: ReasonError, Message: message}
	case v1alpha1.VerdictCancelled:
		return &Decision{Action: Retry, Reason: ReasonCancelled, Message: message}
	}
	return &Decision{Action: Hold, Reason: ReasonUnknownVerdict, Message: fmt.Sprintf("verdict %q of run %s is unknown", in.Run.Status.Verdict, in.Run.Name)}
}

// lifts tells whether the override names this very index, gives a reason, and meets a verdict that may be overridden. A run
// that checked no answer has not shown that nothing leaked, so it cannot be lifted either.
func lifts(in Input) bool {
	status := in.Run.Status
	return in.Override != nil && in.Override.Reason != "" && in.Override.Index == in.Run.Spec.IndexRef.Name && in.Override.Index != "" &&
		(status.Verdict == v1alpha1.VerdictFailed || status.Verdict == v1alpha1.VerdictInconclusive) && status.Leaks != nil && status.Leaks.Hits == 0 && status.Leaks.Probes > 0
}

func isNotHeld(in Input) *Decision {
	if in.Hold == "" {
		return nil
	}
	return &Decision{Action: Hold, Reason: ReasonHeld, Message: "hold: " + in.Hold}
}

func isNotRolledBack(in Input) *Decision {
	if in.RollbackTo == "" {
		return nil
	}
	return &Decision{Action: Hold, Reason: ReasonRolledBack, Message: fmt.Sprintf("rollbackTo is %s: clear it to promote again", in.RollbackTo)}
}

// keepsInterval: at most one promotion per interval; the first one waits for nothing.
func keepsInterval(in Input) *Decision {
	wait := in.LastPromotion.Add(in.MinInterval).Sub(in.Now)
	if in.LastPromotion.IsZero() || wait <= 0 {
		return nil
	}
	return &Decision{Action: Hold, Reason: ReasonMinInterval, Message: fmt.Sprintf("minInterval %s since the last promotion is not over", in.MinInterval), RequeueAfter: wait}
}
