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
	failure  error
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
	evalSet     evalSet
	plan        rollout.Plan
	// problem stands where the tenant cannot go on; reason is from the closed list.
	reason, problem string
}

// evalSet is the content that decides what a verdict is bound to.
type evalSet struct {
	digest string
	inline []byte
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
