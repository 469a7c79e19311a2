//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

const (
	pollEvery = 300 * time.Millisecond
	sayEvery  = 10 * time.Second
	// rolloutLimit bounds one version from its snapshot to its promotion, with all that two cores have to do beside it.
	rolloutLimit = 3 * time.Minute
	// vanishLimit is what Quarry promises for deletions and revocations.
	vanishLimit = 30 * time.Second
)

// await repeats check until it returns nil, says every ten seconds what is missing, and fails with the last answer and all
// statuses when the limit is over. It returns how long it took.
func await(ctx context.Context, limit time.Duration, what string, check func() error) time.Duration {
	GinkgoHelper()
	begun := time.Now()
	said := begun
	for {
		err := check()
		if err == nil {
			took := time.Since(begun)
			GinkgoWriter.Printf("  %s: after %.1f s\n", what, took.Seconds())
			return took
		}
		if time.Since(begun) > limit || ctx.Err() != nil {
			Fail(fmt.Sprintf("gave up after %.0f s of %.0f s: %s: %v\n%s", time.Since(begun).Seconds(), limit.Seconds(), what, err, statuses()))
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			GinkgoWriter.Printf("  ... %s (%.0f s): %v\n", what, time.Since(begun).Seconds(), err)
		}
		pause(ctx, pollEvery)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// activeIndex is the Index that the tenant Service names, or an error while there is none.
func activeIndex(ctx context.Context, pipeline, tenant string) (string, error) {
	service, err := tenantService(ctx, pipeline, tenant)
	if err != nil {
		return "", err
	}
	if name := service.Annotations[desired.AnnotationActiveIndex]; name != "" {
		return name, nil
	}
	return "", fmt.Errorf("service %s names no active Index", service.Name)
}

func tenantService(ctx context.Context, pipeline, tenant string) (*corev1.Service, error) {
	service := &corev1.Service{}
	return service, world.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: desired.TenantServiceName(pipeline, tenant)}, service)
}

// settled tells whether the tenant serves the newest snapshot by the recipe of now, and nothing is under way.
func settled(ctx context.Context, tenant string) error {
	corpus, err := getCorpus(ctx, tenant)
	if err != nil {
		return err
	}
	p, err := getPipeline(ctx, pipeline)
	if err != nil {
		return err
	}
	name, err := activeIndex(ctx, pipeline, tenant)
	if err != nil {
		return err
	}
	index, err := getIndex(ctx, name)
	if err != nil {
		return err
	}
	status, err := tenantStatus(ctx, pipeline, tenant)
	switch {
	case err != nil:
		return err
	case p.Status.ObservedGeneration != p.Generation || corpus.Status.ObservedGeneration != corpus.Generation:
		return errors.New("the newest spec was not seen yet")
	case corpus.Status.Snapshot == nil:
		return errors.New("the corpus has no snapshot")
	case index.Spec.Snapshot.Digest != corpus.Status.Snapshot.Digest:
		return fmt.Errorf("active %s does not hold the newest snapshot; candidate %v", name, status.Candidate)
	case index.Spec.Indexing.Chunking.Size != p.Spec.Indexing.Chunking.Size:
		return fmt.Errorf("active %s has the recipe of before; candidate %v", name, status.Candidate)
	case status.Candidate != nil:
		return fmt.Errorf("candidate %s is %s", status.Candidate.Index, status.Candidate.Stage)
	case status.Active == nil || status.Active.Index != name:
		return fmt.Errorf("the Service names %s, status %v", name, status.Active)
	}
	return nil
}

// awaitSettled waits for both tenants. Specs begin and end with it, so that none stumbles over what another has left.
func awaitSettled(ctx context.Context) {
	GinkgoHelper()
	for _, tenant := range tenants {
		await(ctx, rolloutLimit, "tenant "+tenant+" serves its newest version", func() error { return settled(ctx, tenant) })
	}
}

// awaitPromotion waits until another Index than before answers the tenant, and returns its name.
func awaitPromotion(ctx context.Context, tenant, before string) string {
	GinkgoHelper()
	now := before
	await(ctx, rolloutLimit, fmt.Sprintf("tenant %s is served by another version than %q", tenant, before), func() error {
		name, err := activeIndex(ctx, pipeline, tenant)
		if err != nil {
			return err
		}
		if now = name; name != before {
			return nil
		}
		status, err := tenantStatus(ctx, pipeline, tenant)
		return errors.Join(err, fmt.Errorf("still the same; %s", describe(status)))
	})
	return now
}

// awaitSnapshot waits until the Corpus has taken over what was changed at the source.
func awaitSnapshot(ctx context.Context, tenant, before string) {
	GinkgoHelper()
	await(ctx, time.Minute, "Corpus "+tenant+" has a new snapshot", func() error {
		corpus, err := getCorpus(ctx, tenant)
		if err != nil {
			return err
		}
		if corpus.Status.Snapshot == nil || corpus.Status.Snapshot.Digest == before {
			return fmt.Errorf("still %q", before)
		}
		return nil
	})
}

// awaitBuilding waits until the tenant has another candidate than the one given, whose Jobs are running.
func awaitBuilding(ctx context.Context, tenant string) string {
	GinkgoHelper()
	candidate := ""
	await(ctx, time.Minute, "a candidate of tenant "+tenant+" is being built", func() error {
		status, err := tenantStatus(ctx, pipeline, tenant)
		switch {
		case err != nil:
			return err
		case status.Candidate == nil:
			return errors.New("there is no candidate")
		case status.Candidate.Stage != v1alpha1.CandidateBuilding:
			return fmt.Errorf("candidate %s is %s already", status.Candidate.Index, status.Candidate.Stage)
		}
		candidate = status.Candidate.Index
		jobs, err := jobsOf(ctx, candidate)
		if err == nil && len(jobs) == 0 {
			err = errors.New("it has no Job yet")
		}
		return err
	})
	return candidate
}

func condition(conditions []metav1.Condition, kind string) string {
	found := meta.FindStatusCondition(conditions, kind)
	if found == nil {
		return kind + " is absent"
	}
	return fmt.Sprintf("%s=%s %s: %s", kind, found.Status, found.Reason, found.Message)
}
