package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/rollout"
)

// writeStatus turns the facts of the pass into status, and writes only what differs from what stands there.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	before := s.pipeline.DeepCopy()
	status := &s.pipeline.Status
	status.ObservedGeneration = s.pipeline.Generation
	status.Tenants = nil
	for _, t := range s.tenants {
		status.Tenants = append(status.Tenants, tenantStatus(s, t))
	}
	status.Summary = summary(status.Tenants)
	setConditions(s)
	if equality.Semantic.DeepEqual(before.Status, s.pipeline.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, s.pipeline, client.MergeFrom(before), client.FieldOwner(apply.FieldOwner)))
}

func summary(tenants []v1alpha1.TenantStatus) *v1alpha1.PipelineSummary {
	out := &v1alpha1.PipelineSummary{Tenants: int32(len(tenants))}
	for _, tenant := range tenants {
		if tenant.Active != nil {
			out.Promoted++
		}
		if tenant.Candidate != nil {
			out.Candidates++
		}
	}
	return out
}

func tenantStatus(s *scope, t *tenantScope) v1alpha1.TenantStatus {
	out := v1alpha1.TenantStatus{Name: t.spec.Name}
	if t.service != nil {
		record := t.service.Annotations
		out.Endpoint = fmt.Sprintf("http://%s.%s.svc", t.service.Name, s.pipeline.Namespace)
		out.Active = &v1alpha1.ActiveStatus{Index: record[desired.AnnotationActiveIndex]}
		if at, err := time.Parse(time.RFC3339, record[desired.AnnotationPromotedAt]); err == nil {
			promoted := metav1.NewTime(at)
			out.Active.PromotedAt = &promoted
		}
		if run := lastVerdict(t, out.Active.Index); run != nil {
			out.Active.Recall = recallOf(run)
		}
		if previous := record[desired.AnnotationPreviousIndex]; previous != "" && t.index(previous) != nil {
			out.Previous = &v1alpha1.PreviousStatus{Index: previous}
		}
	}
	if t.plan.Candidate != "" {
		out.Candidate = &v1alpha1.CandidateStatus{Index: t.plan.Candidate, Stage: v1alpha1.CandidateStage(t.plan.Stage)}
	}
	if run := lastVerdict(t, ""); run != nil {
		out.LastVerdict = verdictStatus(run)
	}
	return out
}

// lastVerdict is the newest complete run of the index, or of any where index is empty. Creation times are whole seconds, so
// between equals the run about a version that does not serve is the newer one.
func lastVerdict(t *tenantScope, index string) *v1alpha1.EvalRun {
	var last *v1alpha1.EvalRun
	for _, run := range t.runs {
		if run.Status.Verdict == "" || (index != "" && run.Spec.IndexRef.Name != index) {
			continue
		}
		if last == nil || last.CreationTimestamp.Before(&run.CreationTimestamp) ||
			(last.CreationTimestamp.Equal(&run.CreationTimestamp) && newer(t, last, run)) {
			last = run
		}
	}
	return last
}

func newer(t *tenantScope, last, run *v1alpha1.EvalRun) bool {
	if last.Spec.IndexRef == run.Spec.IndexRef {
		return last.Spec.Attempt < run.Spec.Attempt
	}
	return t.service != nil && last.Spec.IndexRef.Name == t.service.Annotations[desired.AnnotationActiveIndex]
}

func recallOf(run *v1alpha1.EvalRun) string {
	for _, result := range run.Status.Results {
		if result.Metric == "Recall" {
			return string(result.Value)
		}
	}
	return ""
}

func verdictStatus(run *v1alpha1.EvalRun) *v1alpha1.VerdictStatus {
	out := &v1alpha1.VerdictStatus{Index: run.Spec.IndexRef.Name, Verdict: run.Status.Verdict, Message: run.Status.Message, Recall: recallOf(run)}
	for _, result := range run.Status.Results {
		if result.Metric == "Recall" {
			out.Minimum, out.Questions = string(result.Minimum), result.Questions
			break
		}
	}
	return out
}

// setConditions: Ready says whether users of every tenant are served; it stays True while a candidate builds, fails or is
// held, and its message says so.
func setConditions(s *scope) {
	var unserved, busy, stuck, notes []string
	stuckReason, unservedReason := "", v1alpha1.ReasonNoActiveIndex
	for _, t := range s.tenants {
		name := t.spec.Name
		served := t.service != nil && serving(t)
		if !served {
			unserved = append(unserved, name)
			if t.service != nil {
				unservedReason = v1alpha1.ReasonUnavailable
			}
		}
		reason, waits := waitsForPeople(t)
		switch {
		case t.problem != "":
			stuck, stuckReason = append(stuck, name+": "+t.problem), t.reason
		case waits && t.service == nil:
			stuck, stuckReason = append(stuck, name+": "+t.plan.Message), reason
		case waits:
			// Users are served: a version that waits is neither progress nor an obstacle, but worth a word.
			notes = append(notes, name+": "+t.plan.Message)
		case t.plan.Stage != rollout.StageNone:
			busy = append(busy, name+": "+t.plan.Message)
		case !served && t.service != nil:
			busy = append(busy, fmt.Sprintf("%s: pods of index %s are not ready", name, t.service.Annotations[desired.AnnotationActiveIndex]))
		case !served:
			busy = append(busy, name+": "+t.plan.Message)
		}
	}
	set := func(kind string, ok bool, reason, message string) {
		state := metav1.ConditionFalse
		if ok {
			state = metav1.ConditionTrue
		}
		apply.SetCondition(&s.pipeline.Status.Conditions, s.pipeline.Generation, kind, state, reason, message)
	}
	switch {
	case len(unserved) > 0 && len(stuck) > 0:
		set(v1alpha1.ConditionReady, false, stuckReason, "not served: "+strings.Join(unserved, ", ")+"; "+strings.Join(stuck, "; "))
	case len(unserved) > 0:
		set(v1alpha1.ConditionReady, false, unservedReason, "no ready version serves: "+strings.Join(unserved, ", "))
	default:
		served := fmt.Sprintf("%d of %d tenants are served", len(s.tenants), len(s.tenants))
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonServing, strings.Join(append([]string{served}, notes...), "; "))
	}
	set(v1alpha1.ConditionReconciling, len(busy) > 0, v1alpha1.ReasonProgressing, strings.Join(busy, "; "))
	if len(stuck) == 0 {
		stuckReason = v1alpha1.ReasonReady
	}
	set(v1alpha1.ConditionStalled, len(stuck) > 0, stuckReason, strings.Join(stuck, "; "))
}

// waitsForPeople tells whether nothing will happen to the tenant's candidate by itself, and why.
func waitsForPeople(t *tenantScope) (reason string, waits bool) {
	switch t.plan.Reason {
	case rollout.ReasonBuildFailed:
		return v1alpha1.ReasonBuildFailed, true
	case rollout.ReasonRejected, rollout.ReasonRetriesExhausted:
		return v1alpha1.ReasonGateFailed, true
	case rollout.ReasonHeld, rollout.ReasonRollbackRefused:
		return v1alpha1.ReasonHeld, true
	}
	return v1alpha1.ReasonHeld, t.plan.Stage == rollout.StageHeld
}

// serving: the version that the Service names has its whole stack ready.
func serving(t *tenantScope) bool {
	index := t.index(t.service.Annotations[desired.AnnotationActiveIndex])
	if index == nil {
		return false
	}
	_, starting := stackState(t.deployments, index)
	return len(starting) == 0
}
