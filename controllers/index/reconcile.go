// Package index reconciles Indexes: it runs the Jobs chunk, contextualize, embed and build one after another, records
// what each of them found, and calls the Index Ready once its manifest and files were seen in object storage.
package index

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

// Reconciler turns an Index into files in object storage.
type Reconciler struct {
	client.Client
	Buckets  objectstore.Buckets
	Recorder events.EventRecorder
	Now      func() time.Time
	// VerifyInterval is how often the files of a Ready Index are looked for again; 10 minutes where it is zero.
	VerifyInterval time.Duration
}

// errEnd ends the phases: what they found is all there is to say for now.
var errEnd = errors.New("nothing more to do")

// +kubebuilder:rbac:groups=quarry.dev,resources=indexes,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.dev,resources=indexes/status,verbs=get;patch
// +kubebuilder:rbac:groups=quarry.dev,resources=indexes/finalizers,verbs=update
// +kubebuilder:rbac:groups=quarry.dev,resources=corpora;retrievalpipelines,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile runs the phases until one of them has to wait, and writes status once. It needs no finalizer: Jobs and
// ConfigMaps go with their owner, and object storage is swept by what live Indexes name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	index := &v1alpha1.Index{}
	if err := r.Get(ctx, req.NamespacedName, index); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !index.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s := newScope(index)
	err := r.run(ctx, s,
		r.findParents,
		r.openArtifacts,
		r.verify,
		r.adopt,
		r.prepareJobs,
		r.runStages,
		r.finish,
	)
	if writeErr := r.writeStatus(ctx, s); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// run executes the phases in order. An error that has a reason for the user becomes a condition and is not returned.
func (r *Reconciler) run(ctx context.Context, s *scope, phases ...func(context.Context, *scope) error) error {
	for _, phase := range phases {
		err := phase(ctx, s)
		if err == nil {
			continue
		}
		if errors.Is(err, errEnd) {
			return nil
		}
		s.explain(err)
		return err
	}
	return nil
}
