package pipeline

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

// SetupWithManager registers the reconciler. Corpora are watched for new snapshots, Deployments for readiness, ConfigMaps
// for eval sets; the rest are the pipeline's own objects and the parts of its stacks, watched to mend drift.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("retrievalpipeline").
		For(&v1alpha1.RetrievalPipeline{}).
		Owns(&v1alpha1.Index{}).
		Owns(&v1alpha1.EvalRun{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(byLabel)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(byLabel)).
		Watches(&networkingv1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(byLabel)).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(byLabel)).
		Watches(&v1alpha1.Corpus{}, handler.EnqueueRequestsFromMapFunc(r.byCorpus)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.byEvalSet)).
		Complete(r)
}

func request(namespace, name string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// byLabel finds the pipeline of an object that an Index owns.
func byLabel(_ context.Context, obj client.Object) []reconcile.Request {
	if name := obj.GetLabels()[desired.LabelPipeline]; name != "" {
		return request(obj.GetNamespace(), name)
	}
	return nil
}

func (r *Reconciler) byCorpus(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.where(ctx, obj.GetNamespace(), func(t v1alpha1.Tenant) bool { return t.CorpusRef.Name == obj.GetName() })
}

func (r *Reconciler) byEvalSet(ctx context.Context, obj client.Object) []reconcile.Request {
	if requests := byLabel(ctx, obj); requests != nil {
		return requests
	}
	return r.where(ctx, obj.GetNamespace(), func(t v1alpha1.Tenant) bool {
		return t.EvalSetRef != nil && t.EvalSetRef.ConfigMap != nil && t.EvalSetRef.ConfigMap.Name == obj.GetName()
	})
}

func (r *Reconciler) where(ctx context.Context, namespace string, match func(v1alpha1.Tenant) bool) []reconcile.Request {
	pipelines := &v1alpha1.RetrievalPipelineList{}
	if err := r.List(ctx, pipelines, client.InNamespace(namespace)); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for _, pipeline := range pipelines.Items {
		for _, tenant := range pipeline.Spec.Tenants {
			if match(tenant) {
				requests = append(requests, request(namespace, pipeline.Name)...)
				break
			}
		}
	}
	return requests
}
