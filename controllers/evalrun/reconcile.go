// Package evalrun reconciles EvalRuns: it starts the Job that asks, waits for its report, and records the verdict once.
package evalrun

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/objectstore"
)

// Reconciler measures one Index per EvalRun. A run is a record: once it is complete nothing changes it.
type Reconciler struct {
	client.Client
	Buckets objectstore.Buckets
	Now     func() time.Time
}

// +kubebuilder:rbac:groups=quarry.dev,resources=evalruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.dev,resources=evalruns/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=quarry.dev,resources=evalruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=quarry.dev,resources=indexes;corpora;retrievalpipelines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;update;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;update;delete

// Reconcile starts the measurement, or records its outcome.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	run := &v1alpha1.EvalRun{}
	if err := r.Get(ctx, req.NamespacedName, run); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !run.DeletionTimestamp.IsZero() || run.Status.Verdict != "" {
		return ctrl.Result{}, nil
	}
	s := &scope{run: run}
	phases := []func(context.Context, *scope) error{
		r.findSubjects,
		r.bindEvalSet,
		r.startJob,
		r.readOutcome,
	}
	var err error
	for _, phase := range phases {
		if err = phase(ctx, s); err != nil || s.done() {
			break
		}
	}
	if statusErr := r.writeStatus(ctx, s); statusErr != nil {
		return ctrl.Result{}, statusErr
	}
	return ctrl.Result{RequeueAfter: s.requeue}, err
}
