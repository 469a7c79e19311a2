// Package corpus reconciles Corpora: a background worker lists the source, publishes the snapshot that indexes are built
// of and the overlay that says who may read what now, and status says how that went. An unchanged source writes nothing
// to the API server, however often it is listed.
package corpus

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/objectstore"
)

// Finalizer holds a Corpus whose artifacts are to be deleted with it. Others go at once.
const Finalizer = "quarry.dev/artifacts"

// Reconciler keeps Corpora in step with their sources.
type Reconciler struct {
	client.Client
	// APIReader reads past the cache, which holds no Namespaces.
	APIReader client.Reader
	Buckets   objectstore.Buckets
	Recorder  events.EventRecorder
	Now       func() time.Time
	// Workers is how many sources are listed at a time; 4 where it is zero.
	Workers int
	// ClusterUID tells this cluster from others that use the same bucket; the UID of kube-system where it is empty.
	ClusterUID string

	pool     *pool[outcome]
	memories memories
}

// +kubebuilder:rbac:groups=quarry.dev,resources=corpora,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=quarry.dev,resources=corpora/status,verbs=get;patch
// +kubebuilder:rbac:groups=quarry.dev,resources=corpora/finalizers,verbs=update
// +kubebuilder:rbac:groups=quarry.dev,resources=indexes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile takes in what the worker found, gives it the next task when one is due, and writes status once.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	corpus := &v1alpha1.Corpus{}
	if err := r.Get(ctx, req.NamespacedName, corpus); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{corpus: corpus, before: corpus.DeepCopy(), key: req.NamespacedName, memory: r.memories.of(req.NamespacedName, corpus.UID), now: r.Now()}
	if !corpus.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, s)
	}
	var failures []error
	for _, phase := range []func(context.Context, *scope) error{
		r.ensureFinalizer,
		r.takeOutcome,
		r.findLive,
		r.scheduleSync,
	} {
		if err := phase(ctx, s); err != nil {
			failures = append(failures, err)
			break
		}
	}
	failures = append(failures, r.writeStatus(ctx, s))
	if err := errors.Join(failures...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}
