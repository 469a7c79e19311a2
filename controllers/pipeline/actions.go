package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/desired"
)

// annotationPromoted stands on an Index that has served users, so that a rollback may name it.
const annotationPromoted = "quarry.dev/promoted"

func (r *Reconciler) createIndex(ctx context.Context, s *scope, t *tenantScope) error {
	version := t.plan.CreateIndex
	if version == nil {
		return nil
	}
	if t.desired == nil || t.desired.Name != version.Name {
		return fmt.Errorf("the plan asks for Index %q, which is not what the spec asks for", version.Name)
	}
	index := newIndex(s, t)
	created, err := apply.Create(ctx, r.Client, index, s.pipeline)
	if err != nil {
		return err
	}
	if created {
		r.Recorder.Eventf(s.pipeline, index, corev1.EventTypeNormal, "IndexCreated", "Build", "tenant %s: building Index %s", t.spec.Name, index.Name)
	}
	t.indexes = append(t.indexes, index)
	return nil
}

func newIndex(s *scope, t *tenantScope) *v1alpha1.Index {
	version := t.desired
	index := &v1alpha1.Index{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.pipeline.Namespace, Name: version.Name},
		Spec: v1alpha1.IndexSpec{
			PipelineRef: v1alpha1.LocalRef{Name: s.pipeline.Name}, Tenant: t.spec.Name, CorpusRef: t.spec.CorpusRef,
			Snapshot: v1alpha1.SnapshotRef{Digest: version.Snapshot},
			Indexing: s.pipeline.Spec.Indexing, Retrieval: s.pipeline.Spec.Retrieval, Image: version.image,
			VersionDigest: desired.VersionDigest(version.Snapshot, version.RecipeDigest),
		},
	}
	index.Spec.Parent = t.parentOf(index)
	index.Labels = desired.Labels(index)
	return index
}

// parentOf is what a new Index builds upon: the version that serves. Where that has another recipe, or none serves, it is the
// newest that was built by this recipe, however it was judged: nothing is wrong with its segments, and to write all of them
// anew for each snapshot would make a new recipe cost most while it is being tried.
func (t *tenantScope) parentOf(index *v1alpha1.Index) string {
	var newest *v1alpha1.Index
	for _, built := range t.indexes {
		if !desired.BuildsUpon(index, built) {
			continue
		}
		if t.service != nil && built.Name == t.service.Annotations[desired.AnnotationActiveIndex] {
			return built.Name
		}
		if newest == nil || newest.CreationTimestamp.Before(&built.CreationTimestamp) {
			newest = built
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Name
}

func (r *Reconciler) ensureStacks(ctx context.Context, s *scope, t *tenantScope) error {
	for _, name := range t.plan.EnsureStacks {
		index := t.index(name)
		if index == nil || t.corpus == nil || index.Status.Artifact == nil {
			continue
		}
		if err := r.ensureStack(ctx, s, t, index); err != nil {
			return fmt.Errorf("stack of Index %s: %w", name, err)
		}
	}
	return nil
}

func (r *Reconciler) ensureStack(ctx context.Context, s *scope, t *tenantScope, index *v1alpha1.Index) error {
	gatewayKey, err := r.publicKey(ctx, index, desired.KeysPart)
	if err != nil {
		return err
	}
	evalKey, err := r.publicKey(ctx, index, desired.EvalPart)
	if err != nil {
		return err
	}
	config, err := json.Marshal(desired.ServeConfig(s.pipeline, t.corpus, index))
	if err != nil {
		return err
	}
	in := desired.StackInput{
		Pipeline: s.pipeline, Corpus: t.corpus, Index: index,
		ServeConfig: config, GatewayPublicPEM: gatewayKey, EvalPublicPEM: evalKey,
	}
	for _, obj := range desired.Stack(in) {
		if err := apply.Apply(ctx, r.Client, obj, index); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) startRun(ctx context.Context, s *scope, t *tenantScope) error {
	intent := t.plan.CreateRun
	if intent == nil {
		return nil
	}
	index := t.index(intent.Index)
	if index == nil {
		return nil
	}
	spec := runSpec(s, t, intent.Index, intent.Baseline, intent.Attempt)
	run := &v1alpha1.EvalRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.pipeline.Namespace,
			Name:      desired.EvalRunName(index.Name, subjectKey(spec, r.subjectNow(t, &v1alpha1.EvalRun{Spec: spec})), intent.Attempt),
			Labels:    desired.ComponentLabels(index, desired.EvalPart),
		},
		Spec: spec,
	}
	_, err := apply.Create(ctx, r.Client, run, s.pipeline)
	return err
}

// promote moves all traffic of the tenant from one version to another with one write.
func (r *Reconciler) promote(ctx context.Context, s *scope, t *tenantScope) error {
	if t.plan.Promote == "" {
		return r.repairService(ctx, s, t)
	}
	index := t.index(t.plan.Promote)
	if index == nil {
		return fmt.Errorf("the plan promotes Index %q, which does not exist", t.plan.Promote)
	}
	previous := ""
	if t.service != nil {
		previous = t.service.Annotations[desired.AnnotationActiveIndex]
	}
	if err := r.notePromoted(ctx, index); err != nil {
		return err
	}
	service := desired.TenantService(s.pipeline, t.spec.Name, index, r.Now().UTC().Format(time.RFC3339), previous)
	if err := apply.Apply(ctx, r.Client, service, s.pipeline); err != nil {
		return err
	}
	t.service = service
	r.Recorder.Eventf(s.pipeline, index, corev1.EventTypeNormal, "Promoted", "Promote", "tenant %s: Index %s serves now; %s", t.spec.Name, index.Name, t.plan.Message)
	// The plan was made for the world before the promotion; look again at once.
	s.soonest(time.Second)
	return nil
}

// repairService mends a selector or a port that someone changed by hand; the annotations are the record and stay.
func (r *Reconciler) repairService(ctx context.Context, s *scope, t *tenantScope) error {
	if t.service == nil {
		return nil
	}
	record := t.service.Annotations
	index := t.index(record[desired.AnnotationActiveIndex])
	if index == nil {
		return nil
	}
	return apply.Apply(ctx, r.Client, desired.TenantService(s.pipeline, t.spec.Name, index,
		record[desired.AnnotationPromotedAt], record[desired.AnnotationPreviousIndex]), s.pipeline)
}

func (r *Reconciler) notePromoted(ctx context.Context, index *v1alpha1.Index) error {
	if index.Annotations[annotationPromoted] != "" {
		return nil
	}
	before := index.DeepCopy()
	metav1.SetMetaDataAnnotation(&index.ObjectMeta, annotationPromoted, r.Now().UTC().Format(time.RFC3339))
	return r.Patch(ctx, index, client.MergeFrom(before), client.FieldOwner(apply.FieldOwner))
}

// retire removes stacks and versions that nothing needs. It comes last: nothing goes before its successor answers.
func (r *Reconciler) retire(ctx context.Context, s *scope, t *tenantScope) error {
	for _, name := range t.plan.RetireStacks {
		index := t.index(name)
		if index == nil || t.corpus == nil {
			continue
		}
		objects := desired.Stack(desired.StackInput{Pipeline: s.pipeline, Corpus: t.corpus, Index: index})
		slices.Reverse(objects)
		for _, obj := range objects {
			if _, fence := obj.(*networkingv1.NetworkPolicy); fence {
				// It goes with the Index: pods that are shutting down still listen, and must not do so in the open.
				continue
			}
			if err := apply.Delete(ctx, r.Client, obj, index); err != nil {
				return err
			}
		}
	}
	for _, run := range t.runs {
		if slices.Contains(t.plan.CancelRuns, run.Name) {
			if err := apply.Delete(ctx, r.Client, run, s.pipeline); err != nil {
				return err
			}
		}
	}
	for _, name := range t.plan.DeleteIndexes {
		if index := t.index(name); index != nil {
			if err := apply.Delete(ctx, r.Client, index, s.pipeline); err != nil {
				return err
			}
		}
	}
	return nil
}
