package corpus

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"quarry.dev/quarry/api/v1alpha1"
)

const defaultWorkers = 4

// SetupWithManager registers the reconciler and its workers. Indexes are watched because the overlay covers the
// snapshots of exactly those that exist: a new one, or one that is gone, makes a sync due at once.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	workers := r.Workers
	if workers <= 0 {
		workers = defaultWorkers
	}
	r.pool = newPool[outcome](workers)
	if err := mgr.Add(r.pool); err != nil {
		return err
	}
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	comesAndGoes := builder.WithPredicates(predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("corpus").
		For(&v1alpha1.Corpus{}, changed).
		Watches(&v1alpha1.Index{}, handler.EnqueueRequestsFromMapFunc(byIndex), comesAndGoes).
		WatchesRawSource(source.Channel(r.pool.events, ended())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, ReconciliationTimeout: time.Minute}).
		Complete(r)
}

// byIndex finds the Corpus of an Index.
func byIndex(_ context.Context, obj client.Object) []reconcile.Request {
	index, ok := obj.(*v1alpha1.Index)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: index.Namespace, Name: index.Spec.CorpusRef.Name}}}
}

// ended reconciles the object whose task has ended.
func ended() handler.TypedEventHandler[types.NamespacedName, reconcile.Request] {
	return handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	}
}
