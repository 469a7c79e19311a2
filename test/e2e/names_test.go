//go:build e2e

package e2e

import (
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// nameConflict: `support` with tenant `acme-eu` and `support-acme` with tenant `eu` both want the Service support-acme-eu.
func nameConflict(ctx SpecContext) {
	awaitSettled(ctx)
	first, second := ungated("support", "acme-eu"), ungated("support-acme", "eu")
	DeferCleanup(func(ctx SpecContext) { deletePipelines(ctx, second, first) }, NodeTimeout(2*time.Minute))

	Expect(world.kube.Create(ctx, first)).To(Succeed())
	await(ctx, rolloutLimit, "the first pipeline serves", func() error {
		_, err := activeIndex(ctx, "support", "acme-eu")
		return err
	})
	Expect(world.kube.Create(ctx, second)).To(Succeed())
	await(ctx, time.Minute, "the second pipeline is Stalled, naming the owner", func() error {
		p, err := getPipeline(ctx, second.Name)
		if err != nil {
			return err
		}
		stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
		if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonNameConflict ||
			!strings.Contains(stalled.Message, "RetrievalPipeline/support") {
			return errors.New(condition(p.Status.Conditions, v1alpha1.ConditionStalled))
		}
		return nil
	})
	By("the first one keeps its Service, and nothing was built for the second")
	service, err := tenantService(ctx, "support", "acme-eu")
	Expect(err).NotTo(HaveOccurred())
	Expect(metav1.GetControllerOf(service).Name).To(Equal("support"))
	Expect(indexesOf(ctx, second.Name, "eu")).To(BeEmpty())
}

// ungated serves tenant a's corpus to one tenant, without questions.
func ungated(name, tenant string) *v1alpha1.RetrievalPipeline {
	p := newPipeline(name, tenant)
	p.Spec.Tenants[0].CorpusRef.Name, p.Spec.Tenants[0].EvalSetRef = "a", nil
	p.Spec.Promotion.Gate = v1alpha1.GateSpec{MinQuestions: 10}
	return p
}

func deletePipelines(ctx context.Context, pipelines ...*v1alpha1.RetrievalPipeline) {
	GinkgoHelper()
	for _, p := range pipelines {
		Expect(client.IgnoreNotFound(world.kube.Delete(ctx, p))).To(Succeed())
	}
	for _, p := range pipelines {
		await(ctx, time.Minute, "RetrievalPipeline "+p.Name+" is gone", func() error {
			if _, err := getPipeline(ctx, p.Name); !apierrors.IsNotFound(err) {
				return errors.Join(err, errors.New("it still exists"))
			}
			return nil
		})
	}
}
