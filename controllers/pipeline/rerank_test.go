package pipeline_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

var _ = Describe("A recipe that reranks", func() {
	It("has a reranker, which is waited for, mended, and gone with its stack", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		plain := w.promote(p, "acme")
		w.expectNoReranker(plain)

		w.rerank(p, v1alpha1.RerankSpec{Type: v1alpha1.RerankLateInteraction})
		w.reconcile("support")
		second := w.newest(p, plain)
		w.build(second)
		w.reconcile("support")
		w.startRoles(second, desired.BM25Part, desired.HNSWPart, desired.GatewayPart)
		w.reconcile("support")
		Expect(w.runs(second)).To(BeEmpty(), "nothing is asked before the reranker is ready")
		busy := meta.FindStatusCondition(w.reload(p).Status.Conditions, v1alpha1.ConditionReconciling)
		Expect(busy.Message).To(HaveSuffix("is starting: not ready yet: reranker"), "whoever looks finds the part that keeps it")
		w.start(second)
		w.reconcile("support")
		Expect(w.runs(second)).To(HaveLen(1))
		w.judge(second, v1alpha1.VerdictPassed)
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(Equal(second))

		By("mending what somebody deletes")
		name := desired.PartName(second, desired.RerankerPart)
		Expect(k8s.Delete(ctx, &appsv1.Deployment{ObjectMeta: w.meta(name)})).To(Succeed())
		w.reconcile("support")
		Expect(w.get(name, &appsv1.Deployment{})).To(Succeed())
		w.start(second)

		By("removing it when another version without one has taken over")
		w.rerank(p, v1alpha1.RerankSpec{})
		// The recipe is that of the first version, which is still there: going back needs a verdict, and no build.
		w.reconcile("support")
		w.judge(plain, v1alpha1.VerdictPassed)
		w.reconcile("support")
		Expect(w.indexes(p)).To(HaveLen(2))
		Expect(w.active("support", "acme")).To(Equal(plain))
		w.now = w.now.Add(11 * time.Minute)
		w.reconcile("support")
		w.expectNoReranker(second)
		Expect(w.get(name, &networkingv1.NetworkPolicy{})).To(Succeed(), "its pods listen while they shut down")
		w.expectNoReranker(plain)
	})

	It("says which Secret is missing, builds nothing meanwhile, and goes on when it is there", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		w.rerank(p, v1alpha1.RerankSpec{Type: v1alpha1.RerankTypeEndpoint, Endpoint: &v1alpha1.RerankEndpoint{
			URL: "https://rerank.example.com", Model: "reranker",
			CredentialsRef: &v1alpha1.SecretRef{Name: "rerank"}, CABundleRef: &v1alpha1.KeyRef{Name: "rerank-ca", Key: "ca.pem"},
		}})
		says := func(words string) {
			GinkgoHelper()
			Expect(w.reconcile("support").RequeueAfter).To(BeNumerically("<=", 30*time.Second), "nothing else would tell that it is there")
			stalled := meta.FindStatusCondition(w.reload(p).Status.Conditions, v1alpha1.ConditionStalled)
			Expect(stalled.Reason).To(Equal(v1alpha1.ReasonSecretNotFound))
			Expect(stalled.Message).To(ContainSubstring(words))
			Expect(w.indexes(p)).To(HaveLen(1), "nothing is built that could not start")
			Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "users are served")
			Expect(w.active("support", "acme")).To(Equal(first))
		}
		says(`spec.retrieval.rerank.endpoint.credentialsRef: Secret "rerank" does not exist in this namespace`)
		secret := &corev1.Secret{ObjectMeta: w.meta("rerank"), StringData: map[string]string{"key": "typo"}}
		w.create(secret)
		says(`spec.retrieval.rerank.endpoint.credentialsRef: Secret "rerank" has no value for key "apiKey"`)
		secret.StringData = map[string]string{desired.RerankKey: "k"}
		Expect(k8s.Update(ctx, secret)).To(Succeed())
		says(`spec.retrieval.rerank.endpoint.caBundleRef: Secret "rerank-ca" does not exist`)
		w.create(&corev1.Secret{ObjectMeta: w.meta("rerank-ca"), StringData: map[string]string{"ca.pem": "-"}})
		second := w.promote(p, "acme")
		deployment := &appsv1.Deployment{}
		Expect(w.get(desired.PartName(second, desired.RerankerPart), deployment)).To(Succeed())
		Expect(meta.IsStatusConditionTrue(w.reload(p).Status.Conditions, v1alpha1.ConditionStalled)).To(BeFalse())
	})

	It("is judged anew: a verdict about another reranker promotes nothing", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		w.rerank(p, v1alpha1.RerankSpec{Type: v1alpha1.RerankLateInteraction})
		w.reconcile("support")
		second := w.newest(p, first)
		w.build(second)
		w.reconcile("support")
		w.start(second)
		w.reconcile("support")
		w.judge(second, v1alpha1.VerdictPassed)
		run := w.runs(second)[0]
		without := w.controlledRun(p, first)
		Expect(run.Status.Subject.RetrievalDigest).NotTo(Equal(without.Status.Subject.RetrievalDigest))
		run.Status.Subject.RetrievalDigest = without.Status.Subject.RetrievalDigest
		Expect(k8s.Status().Update(ctx, &run)).To(Succeed())
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(Equal(first))
	})
})

func (w *world) rerank(p *v1alpha1.RetrievalPipeline, rerank v1alpha1.RerankSpec) {
	GinkgoHelper()
	w.reload(p)
	p.Spec.Retrieval.Rerank = rerank
	Expect(k8s.Update(w.ctx, p)).To(Succeed())
}

func (w *world) expectNoReranker(index string) {
	GinkgoHelper()
	for _, obj := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		err := w.get(desired.PartName(index, desired.RerankerPart), obj)
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%T: %v", obj, err)
	}
}
