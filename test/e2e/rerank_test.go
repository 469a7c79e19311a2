//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

const (
	rerankPipeline = "reranked"
	rerankTenant   = "r"
	// policyLag is longer than the network takes to apply its policies to a new pod.
	policyLag = 12 * time.Second
)

// reranking runs a pipeline of its own on tenant a's corpus: static vectors, and the best passages compared once more by minilm.
func reranking(ctx SpecContext) {
	awaitSettled(ctx)
	p := newPipeline(rerankPipeline, rerankTenant)
	p.Spec.Tenants[0].CorpusRef.Name, p.Spec.Tenants[0].EvalSetRef.ConfigMap.Name = "a", "a-questions"
	p.Spec.Indexing.Embedding.Model = "static-256"
	p.Spec.Retrieval.Rerank = v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin, Candidates: 20}
	p.Spec.Serving.Reranker = role()
	DeferCleanup(func(ctx SpecContext) { deletePipelines(ctx, p) }, NodeTimeout(2*time.Minute))
	Expect(world.kube.Create(ctx, p)).To(Succeed())
	var active string
	await(ctx, rolloutLimit, "the version that reranks serves", func() (err error) {
		active, err = activeIndex(ctx, rerankPipeline, rerankTenant)
		return err
	})
	expectVerdict(ctx, active, v1alpha1.VerdictPassed)
	service := serviceOf(ctx, rerankPipeline, rerankTenant)
	service.impatient().expectVisible(ctx, ann(rerankTenant), topics[0], 20*time.Second)
	for _, t := range topics {
		got := service.mustAsk(ctx, ann(rerankTenant), t.question, 3)
		Expect(got.Reranked).To(BeTrue(), "%q: %s", t.question, got)
		Expect(got.first().Document).To(Equal(t.key), "%q: %s", t.question, got)
	}
	expectSealed(ctx, active)
	expectFailingRerankerRefused(ctx, service, active)
}

func expectVerdict(ctx context.Context, index string, verdict v1alpha1.Verdict) {
	GinkgoHelper()
	runs := &v1alpha1.EvalRunList{}
	Expect(world.kube.List(ctx, runs, client.InNamespace(namespace))).To(Succeed())
	for _, run := range runs.Items {
		if run.Spec.IndexRef.Name == index && run.Status.Verdict == verdict {
			GinkgoWriter.Printf("  EvalRun %s: %s\n", run.Name, run.Status.Message)
			return
		}
	}
	Fail(fmt.Sprintf("no EvalRun of Index %s has the verdict %s\n%s", index, verdict, statuses()))
}

// expectSealed: the network lets the gateways of this version into the reranker and nobody else, and lets the reranker go
// nowhere. A pod that carries another's labels is another to the network.
func expectSealed(ctx context.Context, index string) {
	GinkgoHelper()
	loadProbe(ctx)
	version, err := getIndex(ctx, index)
	Expect(err).NotTo(HaveOccurred())
	pods := &corev1.PodList{}
	Expect(world.kube.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(desired.SelectorLabels(version, desired.RerankerPart)))).To(Succeed())
	Expect(pods.Items).To(HaveLen(1))
	reranker := rerankDoor(pods.Items[0].Status.PodIP, desired.PortAPI)
	admin := rerankDoor(pods.Items[0].Status.PodIP, desired.PortAdmin)
	storage := &corev1.Service{}
	Expect(world.kube.Get(ctx, client.ObjectKey{Namespace: "storage", Name: "s3"}, storage)).To(Succeed())
	s3 := door{url: "http://" + net.JoinHostPort(storage.Spec.ClusterIP, "7070") + "/"}
	gateway := rerankDoor(serviceAddress(ctx, desired.PartName(index, desired.GatewayPart)), desired.PortAPI)

	By("the gateway of the version reaches the reranker, whose answer is 401 to who has not the gateway's key")
	results := knockAfter(ctx, policyLag, namespace, "as-gateway", desired.SelectorLabels(version, desired.GatewayPart), ann(rerankTenant).token(), []door{reranker, admin, s3})
	Expect(results[reranker.url]).To(Equal("status 401"))
	Expect(results[admin.url]).To(HavePrefix("unreachable"))
	Expect(results[s3.url]).To(HavePrefix("status "), "the probe is no blind witness: a gateway reaches the storage")
	for name, labels := range map[string]map[string]string{
		"as-retriever": desired.SelectorLabels(version, desired.HNSWPart),
		"as-nobody":    {"app": "nobody"},
	} {
		By("a pod " + name + " does not")
		results := knockAfter(ctx, policyLag, namespace, name, labels, "", []door{reranker, admin})
		Expect(results).To(HaveEach(HavePrefix("unreachable")))
	}
	By("a pod with the reranker's labels reaches neither the storage, nor the gateway, nor another reranker")
	results = knockAfter(ctx, policyLag, namespace, "as-reranker", desired.SelectorLabels(version, desired.RerankerPart), "", []door{s3, gateway, reranker})
	Expect(results).To(HaveEach(HavePrefix("unreachable")))
}

func rerankDoor(ip string, port int) door {
	return door{url: "http://" + net.JoinHostPort(ip, strconv.Itoa(port)) + "/v1/rerank"}
}

func serviceAddress(ctx context.Context, name string) string {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(world.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service)).To(Succeed())
	return service.Spec.ClusterIP
}

// expectFailingRerankerRefused: a server that refuses connections leaves every answer in its fused order. Such a version is
// measured as an error, whatever its recall, and the old one serves on.
func expectFailingRerankerRefused(ctx context.Context, service searcher, before string) {
	GinkgoHelper()
	By("a version whose reranker cannot be reached is built without a Job, and judged an error")
	changePipeline(ctx, rerankPipeline, func(spec *v1alpha1.RetrievalPipelineSpec) {
		spec.Retrieval.Rerank = v1alpha1.RerankSpec{Type: v1alpha1.RerankTypeEndpoint, Endpoint: &v1alpha1.RerankEndpoint{
			URL: "http://127.0.0.1:9", Model: "nothing", API: v1alpha1.RerankAPITEI,
		}}
	})
	var candidate string
	await(ctx, rolloutLimit, "its run ends as Error", func() error {
		status, err := tenantStatus(ctx, rerankPipeline, rerankTenant)
		if err != nil {
			return err
		}
		if status.LastVerdict == nil || status.LastVerdict.Index == before || status.LastVerdict.Verdict == "" {
			return errors.New(describe(status))
		}
		candidate = status.LastVerdict.Index
		return nil
	})
	expectVerdict(ctx, candidate, v1alpha1.VerdictError)
	Expect(jobsOf(ctx, candidate)).To(BeEmpty(), "retrieval alone has changed: nothing is built")
	Expect(world.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: desired.PartName(candidate, desired.RerankerPart)}, &appsv1.Deployment{})).To(Succeed())
	Expect(activeIndex(ctx, rerankPipeline, rerankTenant)).To(Equal(before))
	Expect(service.mustAsk(ctx, ann(rerankTenant), topics[0].question, 3).Reranked).To(BeTrue())
}
