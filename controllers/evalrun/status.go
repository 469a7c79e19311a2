package evalrun

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
)

// writeStatus turns the facts of the pass into conditions, and writes them only where they differ from what stands there.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	before := s.run.DeepCopy()
	status := &s.run.Status
	status.ObservedGeneration = s.run.Generation
	set := func(kind string, ok metav1.ConditionStatus, reason, message string) {
		apply.SetCondition(&status.Conditions, s.run.Generation, kind, ok, reason, message)
	}
	if s.verdict == "" {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, s.waiting)
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, s.waiting)
	} else {
		r.recordVerdict(s)
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "the record is complete")
		set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonReady, "")
		valid, passed := metav1.ConditionFalse, metav1.ConditionFalse
		switch s.verdict {
		case v1alpha1.VerdictPassed:
			valid, passed = metav1.ConditionTrue, metav1.ConditionTrue
		case v1alpha1.VerdictFailed:
			valid = metav1.ConditionTrue
		}
		set(v1alpha1.ConditionValid, valid, string(s.verdict), s.message)
		set(v1alpha1.ConditionPassed, passed, string(s.verdict), s.message)
	}
	if equality.Semantic.DeepEqual(before.Status, s.run.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, s.run, client.MergeFrom(before), client.FieldOwner(apply.FieldOwner)))
}

// recordVerdict fills in what the verdict rests on. It is bound to digests, so that it can promote nothing else.
func (r *Reconciler) recordVerdict(s *scope) {
	status := &s.run.Status
	status.Verdict, status.Message = s.verdict, apply.Truncate(s.message, apply.MaxMessage)
	if s.judgement == nil {
		return
	}
	status.Results, status.Leaks, status.Latency = s.judgement.Results, s.judgement.Leaks, s.judgement.Latency
	status.ReportURI = s.reportKey
	status.Subject = Subject(s.run, s.index, s.baseline)
	status.Subject.EvalSetDigest = s.report.EvalSetDigest
	status.Subject.AccessEpoch = s.report.AccessEpoch
}
