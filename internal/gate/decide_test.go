package gate

import (
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
)

func input() Input {
	subject := v1alpha1.EvalSubject{IndexDigest: "sha256:i", RetrievalDigest: "sha256:r", Image: "quarry:1", GateDigest: "sha256:g", EvalSetDigest: "sha256:set", BaselineIndexDigest: "sha256:b"}
	judged, running := subject, subject
	judged.AccessEpoch, running.AccessEpoch = 3, 9
	ran := spec()
	ran.Attempt = 2
	return Input{
		Now: time.Unix(10000, 0), PipelineUID: "uid", DesiredSpec: spec(), Running: &running, LastPromotion: time.Unix(9000, 0),
		Run: &Run{Name: "run", ControllerUID: "uid", Spec: ran, Status: v1alpha1.EvalRunStatus{
			Verdict: v1alpha1.VerdictPassed, Message: "Recall@10 0.9", Subject: &judged, Leaks: &v1alpha1.LeakStatus{Probes: 70},
		}},
	}
}

func TestDecide(t *testing.T) {
	override := &v1alpha1.Override{Index: "new", Reason: "checked by hand"}
	status := func(in *Input) *v1alpha1.EvalRunStatus { return &in.Run.Status }
	for name, c := range map[string]struct {
		change func(*Input)
		action Action
		reason string
	}{
		"all agree":        {func(*Input) {}, Promote, ReasonPassed},
		"no run":           {func(in *Input) { in.Run = nil }, Hold, ReasonNoRun},
		"a user's run":     {func(in *Input) { in.Run.ControllerUID = "" }, Hold, ReasonNotControlled},
		"a namesake's run": {func(in *Input) { in.Run.ControllerUID = "older" }, Hold, ReasonNotControlled},
		"no UID at all":    {func(in *Input) { in.Run.ControllerUID, in.PipelineUID = "", "" }, Hold, ReasonNotControlled},
		"gate changed":     {func(in *Input) { in.DesiredSpec.Metrics[0].Minimum = "0.99" }, Retry, ReasonSpecChanged},
		"baseline changed": {func(in *Input) { in.DesiredSpec.BaselineIndexRef.Name = "older" }, Retry, ReasonSpecChanged},
		"set changed":      {func(in *Input) { in.DesiredSpec.EvalSet.Digest = "x" }, Retry, ReasonSpecChanged},
		"running":          {func(in *Input) { status(in).Verdict = "" }, Hold, ReasonRunning},
		"no subject":       {func(in *Input) { status(in).Subject = nil }, Retry, ReasonSubjectChanged},
		"index gone":       {func(in *Input) { in.Running = nil }, Retry, ReasonSubjectChanged},
		"image changed":    {func(in *Input) { in.Running.Image = "quarry:2" }, Retry, ReasonSubjectChanged},
		"no digests":       {func(in *Input) { *in.Running, *status(in).Subject = v1alpha1.EvalSubject{}, v1alpha1.EvalSubject{} }, Retry, ReasonSubjectChanged},
		"failed":           {func(in *Input) { status(in).Verdict = v1alpha1.VerdictFailed }, Reject, ReasonFailed},
		"inconclusive":     {func(in *Input) { status(in).Verdict = v1alpha1.VerdictInconclusive }, Hold, ReasonInconclusive},
		"error":            {func(in *Input) { status(in).Verdict, status(in).Subject = v1alpha1.VerdictError, nil }, Retry, ReasonError},
		"cancelled":        {func(in *Input) { status(in).Verdict = v1alpha1.VerdictCancelled }, Retry, ReasonCancelled},
		"unknown verdict":  {func(in *Input) { status(in).Verdict = "Splendid" }, Hold, ReasonUnknownVerdict},
		"passed unprobed":  {func(in *Input) { status(in).Leaks = nil }, Hold, ReasonInconclusive},
		"passed with leak": {func(in *Input) { status(in).Leaks.Hits = 1 }, Reject, ReasonLeaks},
		"held":             {func(in *Input) { in.Hold = "fair week" }, Hold, ReasonHeld},
		"rolled back":      {func(in *Input) { in.RollbackTo = "old" }, Hold, ReasonRolledBack},
		"too early":        {func(in *Input) { in.MinInterval = 1001 * time.Second }, Hold, ReasonMinInterval},
		"late enough":      {func(in *Input) { in.MinInterval = 1000 * time.Second }, Promote, ReasonPassed},
		"first promotion":  {func(in *Input) { in.MinInterval, in.LastPromotion = 24*time.Hour, time.Time{} }, Promote, ReasonPassed},
		"held and failed":  {func(in *Input) { in.Hold, status(in).Verdict = "x", v1alpha1.VerdictFailed }, Reject, ReasonFailed},

		"override lifts failed":       {func(in *Input) { in.Override, status(in).Verdict = override, v1alpha1.VerdictFailed }, Promote, ReasonOverridden},
		"override lifts inconclusive": {func(in *Input) { in.Override, status(in).Verdict = override, v1alpha1.VerdictInconclusive }, Promote, ReasonOverridden},
		"override without reason": {func(in *Input) {
			in.Override, status(in).Verdict = &v1alpha1.Override{Index: "new"}, v1alpha1.VerdictFailed
		}, Reject, ReasonFailed},
		"override of another index": {func(in *Input) {
			in.Override, status(in).Verdict = &v1alpha1.Override{Index: "old", Reason: "r"}, v1alpha1.VerdictFailed
		}, Reject, ReasonFailed},
		"override lifts no leak": {func(in *Input) {
			in.Override, status(in).Verdict, status(in).Leaks.Hits = override, v1alpha1.VerdictFailed, 1
		}, Reject, ReasonLeaks},
		"override lifts no error": {func(in *Input) { in.Override, status(in).Verdict = override, v1alpha1.VerdictError }, Retry, ReasonError},
		"override lifts no digest": {func(in *Input) {
			in.Override, status(in).Verdict, in.Running.Image = override, v1alpha1.VerdictFailed, "x"
		}, Retry, ReasonSubjectChanged},
		"override lifts no hold": {func(in *Input) { in.Override, status(in).Verdict, in.Hold = override, v1alpha1.VerdictFailed, "x" }, Hold, ReasonHeld},
		"override lifts nothing unprobed": {func(in *Input) {
			in.Override, status(in).Verdict, status(in).Leaks.Probes = override, v1alpha1.VerdictInconclusive, 0
		}, Hold, ReasonInconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			in := input()
			c.change(&in)
			d := Decide(in)
			if d.Action != c.action || d.Reason != c.reason {
				t.Errorf("got %s %s: %s", d.Action, d.Reason, d.Message)
			}
			if (d.RequeueAfter > 0) != (d.Reason == ReasonMinInterval) {
				t.Errorf("requeue after %v for %s", d.RequeueAfter, d.Reason)
			}
		})
	}
	in := input()
	in.Override, in.Run.Status.Verdict = override, v1alpha1.VerdictFailed
	if d := Decide(in); !strings.Contains(d.Message, "overridden (checked by hand)") {
		t.Errorf("got %q", d.Message)
	}
}
