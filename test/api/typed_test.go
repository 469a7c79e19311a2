package api_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// typed reads a valid object of testdata into a Go type.
func typed[T any](file string) *T {
	GinkgoHelper()
	into := new(T)
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(load(file).Object, into)).To(Succeed())
	return into
}

var _ = Describe("Go clients", func() {
	// A zero struct or duration must be left out, or no default would apply.
	It("get defaults for what they leave out", func(ctx SpecContext) {
		corpus := typed[v1alpha1.Corpus](corpusYAML)
		Expect(api.Create(ctx, corpus, client.DryRunAll)).To(Succeed())
		Expect(corpus.Spec.Sync.Interval.Duration.String()).To(Equal("1m0s"))
		Expect(corpus.Spec.Sync.DeletionGuard).To(Equal(v1alpha1.DeletionGuard{MaxPercent: 20, MaxDocuments: 1000}))

		pipeline := typed[v1alpha1.RetrievalPipeline](pipelineYAML)
		Expect(api.Create(ctx, pipeline, client.DryRunAll)).To(Succeed())
		Expect(pipeline.Spec.Access.MaxStaleness.Duration.String()).To(Equal("15m0s"))
		Expect(pipeline.Spec.Promotion.Soak.Duration.String()).To(Equal("10m0s"))
		Expect(pipeline.Spec.Indexing.Chunking.Overlap).To(BeEquivalentTo(32))
	})

	// The operator copies the recipe of a pipeline into an Index and compares
	// digests later: what was stored must read back unchanged.
	DescribeTable("read an Index back as they wrote it", func(ctx SpecContext, path, value string) {
		obj := load(pipelineYAML)
		set(obj, path, value)
		Expect(create(ctx, obj)).To(Succeed())
		pipeline := &v1alpha1.RetrievalPipeline{}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pipeline)).To(Succeed())

		index := typed[v1alpha1.Index](indexYAML)
		index.Spec.Indexing, index.Spec.Retrieval = pipeline.Spec.Indexing, pipeline.Spec.Retrieval
		want := index.Spec.DeepCopy()
		Expect(api.Create(ctx, index, client.DryRunAll)).To(Succeed())
		Expect(index.Spec).To(Equal(*want))
	},
		Entry("defaults", "spec.historyLimit", "5"),
		Entry("no overlap", "spec.indexing.chunking", "{strategy: Sentence, size: 128, overlap: 0}"),
		Entry("no vectors in the fusion", "spec.retrieval.fusion.denseWeight", `"0"`),
		Entry("reciprocal ranks", "spec.retrieval.fusion", "{type: ReciprocalRank, reciprocalRank: {k: 60}}"),
		Entry("a reranker", "spec.retrieval.rerank", `{type: LateInteraction, candidates: 10, denseWeight: "0"}`),
		Entry("a reranking server", "spec.retrieval.rerank", "{type: Endpoint, endpoint: {url: 'http://r', model: m, timeout: 1500ms, credentialsRef: {name: r}}}"),
		Entry("bm25 without saturation", "spec.indexing.bm25", `{k1: "0", b: "0"}`),
	)

	It("keep an explicit zero duration", func(ctx SpecContext) {
		pipeline := typed[v1alpha1.RetrievalPipeline](pipelineYAML)
		pipeline.Spec.Promotion.Soak = &metav1.Duration{}
		Expect(api.Create(ctx, pipeline, client.DryRunAll)).To(Succeed())
		Expect(pipeline.Spec.Promotion.Soak.Duration).To(BeZero())
	})
})
