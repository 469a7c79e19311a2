package pipeline

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/gate"
	"quarry.dev/quarry/internal/rollout"
)

// subjectKey digests what a run is about, so that a run of the same attempt on another subject has another name.
func subjectKey(spec v1alpha1.EvalRunSpec, subject *v1alpha1.EvalSubject) string {
	spec.Attempt = 0
	text, err := json.Marshal(struct {
		Spec    v1alpha1.EvalRunSpec
		Subject *v1alpha1.EvalSubject
	}{spec, subject})
	if err != nil {
		// The API types hold nothing that JSON cannot say.
		panic(err)
	}
	return artifact.Digest(text)
}

// gateInput states what the gate needs to know about one run: what it says, what it should say, and what runs now.
func (r *Reconciler) gateInput(s *scope, t *tenantScope, run *v1alpha1.EvalRun, in rollout.Input) gate.Input {
	fact := &gate.Run{Name: run.Name, Spec: run.Spec, Status: run.Status}
	if owner := metav1.GetControllerOf(run); owner != nil {
		fact.ControllerUID = string(owner.UID)
	}
	return gate.Input{
		Now: in.Now, PipelineUID: string(s.pipeline.UID), Run: fact,
		DesiredSpec: runSpec(s, t, run.Spec.IndexRef.Name, in.Active, run.Spec.Attempt),
		Running:     r.subjectNow(t, run),
		Hold:        t.spec.Hold, RollbackTo: t.spec.RollbackTo, Override: t.spec.Override,
		LastPromotion: in.PromotedAt, MinInterval: in.MinInterval,
	}
}
