package pipeline

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/rollout"
)

// scope holds what one pass has read and found. Phases write facts into it; status.go alone turns them into conditions.
type scope struct {
	pipeline *v1alpha1.RetrievalPipeline
	tenants  []*tenantScope
	requeue  time.Duration
}

// tenantScope is everything known of one tenant.
type tenantScope struct {
	spec   *v1alpha1.Tenant
	corpus *v1alpha1.Corpus
	// indexes and runs are those that this pipeline controls.
	indexes []*v1alpha1.Index
	runs    []*v1alpha1.EvalRun
	// service is nil before the first promotion.
	service     *corev1.Service
	deployments map[string]*appsv1.Deployment
	// evalSetDigest is part of what a verdict is bound to; empty without an eval set.
	evalSetDigest string
	// desired is what spec and newest snapshot ask for, and the image of it; nil while there is no snapshot.
	desired *desiredVersion
	plan    rollout.Plan
	// problem stands where the tenant cannot go on; reason is from the closed list.
	reason, problem string
}

// desiredVersion is a version with the image that its digest covers.
type desiredVersion struct {
	rollout.Version
	image string
}

func (t *tenantScope) stall(reason, message string) {
	if t.reason == "" {
		t.reason, t.problem = reason, message
	}
}

func (t *tenantScope) index(name string) *v1alpha1.Index {
	for _, index := range t.indexes {
		if index.Name == name {
			return index
		}
	}
	return nil
}

// soonest keeps the shortest delay that anything asked for.
func (s *scope) soonest(d time.Duration) {
	if d > 0 && (s.requeue == 0 || d < s.requeue) {
		s.requeue = d
	}
}
