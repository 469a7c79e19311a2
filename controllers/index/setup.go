package index

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

// SetupWithManager registers the reconciler. Jobs are watched for their ends, pods for what keeps them from starting, ConfigMaps
// and NetworkPolicies to mend drift, the Corpus for a storage that has become right. Own status writes wake nothing.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("index").
		For(&v1alpha1.Index{}, changed).
		Owns(&batchv1.Job{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&networkingv1.NetworkPolicy{}, changed).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byPod)).
		Watches(&v1alpha1.Corpus{}, handler.EnqueueRequestsFromMapFunc(r.byCorpus), changed).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, ReconciliationTimeout: time.Minute}).
		Complete(r)
}

// byPod finds the Index of a Job's pod that does not run.
func byPod(_ context.Context, obj client.Object) []reconcile.Request {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Labels[desired.LabelIndex] == "" || stageConditions[desired.Part(pod.Labels[desired.LabelComponent])] == "" {
		return nil
	}
	if reason, _ := stuck(pod); reason == "" && pod.Status.Phase == corev1.PodPending {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[desired.LabelIndex]}}}
}

// byCorpus finds the Indexes of a Corpus that are not Ready.
func (r *Reconciler) byCorpus(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &v1alpha1.IndexList{}
	if err := r.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		index := &list.Items[i]
		if index.Spec.CorpusRef.Name == obj.GetName() && !isTrue(index, v1alpha1.ConditionReady) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(index)})
		}
	}
	return requests
}
