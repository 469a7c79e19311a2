package pipeline

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/evalrun"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/gate"
	"quarry.dev/quarry/internal/rollout"
)

// planRollout states the facts and asks the planner what to do.
func (r *Reconciler) planRollout(_ context.Context, s *scope, t *tenantScope) error {
	in := rollout.Input{
		Now:          r.Now(),
		EvalRequired: t.spec.EvalSetRef != nil,
		Hold:         t.spec.Hold,
		RollbackTo:   t.spec.RollbackTo,
		MinInterval:  s.pipeline.Spec.Promotion.MinInterval.Duration,
		HistoryLimit: int(s.pipeline.Spec.HistoryLimit),
	}
	if t.service != nil {
		record := t.service.Annotations
		in.Active, in.Previous = record[desired.AnnotationActiveIndex], record[desired.AnnotationPreviousIndex]
		in.PromotedAt, _ = time.Parse(time.RFC3339, record[desired.AnnotationPromotedAt])
		in.SoakUntil = in.PromotedAt
		if soak := s.pipeline.Spec.Promotion.Soak; soak != nil {
			in.SoakUntil = in.PromotedAt.Add(soak.Duration)
		}
	}
	for _, index := range t.indexes {
		in.Indexes = append(in.Indexes, r.indexFact(s, t, index, in))
	}
	for _, run := range t.runs {
		in.Runs = append(in.Runs, r.runFact(s, t, run, in))
	}
	t.desired = r.desiredVersion(s, t)
	if t.desired != nil && t.problem == "" {
		// Nothing new is started on missing references; what serves goes on serving.
		in.Desired = &t.desired.Version
	}
	t.plan = rollout.Next(in)
	s.soonest(t.plan.Requeue)
	return nil
}

// desiredVersion is nil while the corpus has no snapshot. Under NextVersion a new operator release is no reason for a
// new version: one that exists already keeps its image.
func (r *Reconciler) desiredVersion(s *scope, t *tenantScope) *desiredVersion {
	if t.corpus == nil || t.corpus.Status.Snapshot == nil || t.corpus.Status.Snapshot.Digest == "" {
		return nil
	}
	image := r.Image
	spec := &s.pipeline.Spec
	if spec.Serving.Image != v1alpha1.ServingImageNow {
		for _, index := range t.indexes {
			same := desired.RecipeDigest(spec.Indexing, spec.Retrieval, index.Spec.Image)
			if index.Spec.Snapshot.Digest == t.corpus.Status.Snapshot.Digest && recipeOf(index) == same && index.DeletionTimestamp.IsZero() {
				image = index.Spec.Image
			}
		}
	}
	snapshot, recipe := t.corpus.Status.Snapshot.Digest, desired.RecipeDigest(spec.Indexing, spec.Retrieval, image)
	name := desired.IndexName(s.pipeline.Namespace, s.pipeline.Name, t.spec.Name, desired.VersionDigest(snapshot, recipe))
	return &desiredVersion{rollout.Version{Name: name, Snapshot: snapshot, RecipeDigest: recipe}, image}
}

func recipeOf(index *v1alpha1.Index) string {
	return desired.RecipeDigest(index.Spec.Indexing, index.Spec.Retrieval, index.Spec.Image)
}

func (r *Reconciler) indexFact(s *scope, t *tenantScope, index *v1alpha1.Index, in rollout.Input) rollout.IndexFact {
	conditions := index.Status.Conditions
	fact := rollout.IndexFact{
		Name:     index.Name,
		Version:  rollout.Version{Name: index.Name, Snapshot: index.Spec.Snapshot.Digest, RecipeDigest: recipeOf(index)},
		Created:  index.CreationTimestamp.Time,
		Ready:    meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) && index.Status.Artifact != nil,
		Deleting: !index.DeletionTimestamp.IsZero(),
		Promoted: index.Name == in.Active || index.Name == in.Previous || index.Annotations[annotationPromoted] != "",
	}
	if stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled); stalled != nil && stalled.Status == "True" {
		fact.Failed, fact.FailMessage = true, stalled.Message
	}
	fact.HasStack, fact.Starting = stackState(t.deployments, index)
	fact.StackReady = len(fact.Starting) == 0
	return fact
}

// stackState names the roles of which not every replica is ready with the newest template.
func stackState(deployments map[string]*appsv1.Deployment, index *v1alpha1.Index) (exists bool, starting []string) {
	for _, role := range desired.Roles(index) {
		d := deployments[desired.PartName(index.Name, role)]
		if d == nil {
			starting = append(starting, string(role))
			continue
		}
		exists = true
		st := d.Status
		if d.Spec.Replicas == nil || st.ObservedGeneration < d.Generation || st.UpdatedReplicas != *d.Spec.Replicas ||
			st.ReadyReplicas != *d.Spec.Replicas || st.Replicas != *d.Spec.Replicas {
			starting = append(starting, string(role))
		}
	}
	return exists, starting
}

func (r *Reconciler) runFact(s *scope, t *tenantScope, run *v1alpha1.EvalRun, in rollout.Input) rollout.RunFact {
	fact := rollout.RunFact{
		Name: run.Name, Index: run.Spec.IndexRef.Name, Attempt: run.Spec.Attempt,
		Complete: run.Status.Verdict != "", Verdict: string(run.Status.Verdict),
		Decision: gate.Decide(r.gateInput(s, t, run, in)),
	}
	if run.Spec.BaselineIndexRef != nil {
		fact.Baseline = run.Spec.BaselineIndexRef.Name
	}
	if ready := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionReady); ready != nil && fact.Complete {
		fact.Finished = ready.LastTransitionTime.Time
	}
	return fact
}

// runSpec is what a run of this index must say today, attempts apart.
func runSpec(s *scope, t *tenantScope, index, baseline string, attempt int32) v1alpha1.EvalRunSpec {
	gateSpec := s.pipeline.Spec.Promotion.Gate
	spec := v1alpha1.EvalRunSpec{
		IndexRef: v1alpha1.LocalRef{Name: index}, PipelineRef: v1alpha1.LocalRef{Name: s.pipeline.Name}, Tenant: t.spec.Name,
		Metrics: gateSpec.Metrics, DecideOn: gateSpec.DecideOn, MinQuestions: gateSpec.MinQuestions, Leaks: gateSpec.Leaks,
		Attempt: attempt,
	}
	if baseline != "" {
		spec.BaselineIndexRef = &v1alpha1.LocalRef{Name: baseline}
	}
	if t.spec.EvalSetRef != nil {
		spec.EvalSet = v1alpha1.EvalSetBinding{Ref: *t.spec.EvalSetRef, Digest: t.evalSetDigest}
	}
	return spec
}

func (r *Reconciler) subjectNow(t *tenantScope, run *v1alpha1.EvalRun) *v1alpha1.EvalSubject {
	index := t.index(run.Spec.IndexRef.Name)
	if index == nil {
		return nil
	}
	var baseline *v1alpha1.Index
	if run.Spec.BaselineIndexRef != nil {
		baseline = t.index(run.Spec.BaselineIndexRef.Name)
	}
	return evalrun.Subject(run, index, baseline)
}
