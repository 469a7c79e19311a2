// Package pipeline reconciles RetrievalPipelines: one Index per tenant and version, a serving stack for each version that
// answers, an EvalRun for each candidate, and the tenant Service, whose selector is the promotion.
package pipeline

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

// Reconciler turns a RetrievalPipeline into serving stacks.
type Reconciler struct {
	client.Client
	Buckets  objectstore.Buckets
	Recorder events.EventRecorder
	// Image is what new versions run: the operator's own image.
	Image string
	Now   func() time.Time
}

// +kubebuilder:rbac:groups=quarry.dev,resources=retrievalpipelines,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.dev,resources=retrievalpipelines/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=quarry.dev,resources=retrievalpipelines/finalizers,verbs=update
// +kubebuilder:rbac:groups=quarry.dev,resources=corpora,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.dev,resources=indexes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=quarry.dev,resources=indexes/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=quarry.dev,resources=evalruns,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch;update;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;update;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;update;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile gathers the facts of each tenant, plans its rollout, acts on the plan, and writes status once.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pipeline := &v1alpha1.RetrievalPipeline{}
	if err := r.Get(ctx, req.NamespacedName, pipeline); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !pipeline.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s := &scope{pipeline: pipeline}
	phases := []func(context.Context, *scope) error{
		r.removeTenants,
		r.reconcileTenants,
	}
	var failures []error
	for _, phase := range phases {
		failures = append(failures, phase(ctx, s))
	}
	err := errors.Join(failures...)
	if statusErr := r.writeStatus(ctx, s); statusErr != nil {
		return ctrl.Result{}, errors.Join(err, statusErr)
	}
	return ctrl.Result{RequeueAfter: s.requeue}, err
}
