package pipeline

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

// servingOwner owns status.serving and status.recall alone; the Index controller owns the rest of an Index's status.
const servingOwner = "quarry-serving"

// markServing says on each Index what it serves and how well, where that has changed.
func (r *Reconciler) markServing(ctx context.Context, s *scope, t *tenantScope) error {
	for _, index := range t.indexes {
		want, recall := servingState(t, index), measuredRecall(t, index)
		if (index.Status.Serving == want && index.Status.Recall == recall) || !index.DeletionTimestamp.IsZero() {
			continue
		}
		status := map[string]any{"serving": string(want)}
		if recall != "" {
			status["recall"] = recall
		}
		obj := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": index.Name, "namespace": index.Namespace},
			"status":   status,
		}}
		obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Index"))
		err := r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(servingOwner), client.ForceOwnership)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// measuredRecall is that of the newest complete run about the index. A run that measured none, or one that is gone, takes
// nothing away from what stands there.
func measuredRecall(t *tenantScope, index *v1alpha1.Index) string {
	if run := lastVerdict(t, index.Name); run != nil {
		if recall := recallOf(run); recall != "" {
			return recall
		}
	}
	return index.Status.Recall
}

func servingState(t *tenantScope, index *v1alpha1.Index) v1alpha1.ServingState {
	if t.service != nil {
		switch index.Name {
		case t.service.Annotations[desired.AnnotationActiveIndex]:
			return v1alpha1.ServingActive
		case t.service.Annotations[desired.AnnotationPreviousIndex]:
			if exists, _ := stackState(t.deployments, index); exists && !slices.Contains(t.plan.RetireStacks, index.Name) {
				return v1alpha1.ServingPrevious
			}
			return v1alpha1.ServingNone
		}
	}
	if slices.Contains(t.plan.EnsureStacks, index.Name) {
		return v1alpha1.ServingPreview
	}
	return v1alpha1.ServingNone
}
