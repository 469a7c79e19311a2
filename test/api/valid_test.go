package api_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// create asks the server without storing anything, as strictly as kubectl does.
func create(ctx context.Context, obj *unstructured.Unstructured) error {
	return api.Create(ctx, obj, client.DryRunAll, client.FieldValidation("Strict"))
}

var _ = Describe("valid objects", func() {
	DescribeTable("a minimal object gets its defaults", func(ctx SpecContext, file string, defaults map[string]any) {
		obj := load(file)
		Expect(create(ctx, obj)).To(Succeed())
		for path, want := range defaults {
			if want == nil {
				Expect(field(obj, path)).To(BeNil(), path)
				continue
			}
			Expect(field(obj, path)).To(BeEquivalentTo(want), path)
		}
	},
		Entry("Corpus", corpusYAML, map[string]any{
			"spec.source.s3.region": "us-east-1", "spec.source.s3.addressing": "Path",
			"spec.sync.interval": "1m", "spec.sync.mode": "Active",
			"spec.sync.deletionGuard.maxPercent": 20, "spec.sync.deletionGuard.maxDocuments": 1000,
			"spec.access.default": "Nobody", "spec.access.sidecarSuffix": ".acl.json",
			"spec.artifacts.s3.region": "us-east-1",
			"spec.deletionPolicy":      "Retain",
		}),
		Entry("RetrievalPipeline", pipelineYAML, map[string]any{
			"spec.indexing.chunking.strategy": "Structure", "spec.indexing.chunking.unit": "Tokens",
			"spec.indexing.chunking.size": 256, "spec.indexing.chunking.overlap": 32,
			"spec.indexing.context.type": "Heading", "spec.indexing.embedding.type": "Builtin",
			"spec.indexing.embedding.model": "minilm-l6-v2", "spec.indexing.bm25.analyzer": "english",
			"spec.indexing.bm25.k1": "0.9", "spec.indexing.bm25.b": "0.4", "spec.indexing.hnsw.m": 16,
			"spec.indexing.hnsw.efConstruction": 128, "spec.indexing.hnsw.quantization": "Int8",
			"spec.retrieval.candidates": 100, "spec.retrieval.fusion.type": "WeightedScore",
			"spec.retrieval.fusion.denseWeight": nil, "spec.retrieval.rerank.type": "None", "spec.retrieval.topK": 10,
			"spec.build.shards": 4, "spec.build.parallelism": 2, "spec.access.maxStaleness": "15m",
			"spec.access.identity.jwt.userClaim": "sub", "spec.access.identity.jwt.groupsClaim": "groups",
			"spec.serving.image": "NextVersion", "spec.serving.gateway.replicas": 2, "spec.serving.bm25.replicas": 2,
			"spec.serving.hnsw.replicas": 2, "spec.serving.reranker.replicas": 1,
			"spec.promotion.gate.decideOn": "Estimate", "spec.promotion.gate.minQuestions": 30,
			"spec.promotion.gate.leaks": "Forbid", "spec.promotion.soak": "10m", "spec.promotion.minInterval": "0s",
			"spec.historyLimit": 5,
		}),
		Entry("Index", indexYAML, map[string]any{
			"spec.indexing.chunking.size": 256, "spec.retrieval.topK": 10,
		}),
		Entry("EvalRun", evalRunYAML, map[string]any{
			"spec.decideOn": "Estimate", "spec.minQuestions": 30, "spec.leaks": "Forbid",
		}),
	)

	It("accepts every sample", func(ctx SpecContext) {
		files, err := filepath.Glob("../../config/samples/quarry_*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			data, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(create(ctx, parse(data))).To(Succeed(), file)
		}
	})

	DescribeTable("accepts", func(ctx SpecContext, file, path, value string) {
		obj := load(file)
		set(obj, path, value)
		Expect(create(ctx, obj)).To(Succeed())
	},
		Entry("overlap 0", pipelineYAML, "spec.indexing.chunking", "{overlap: 0}"),
		Entry("reciprocal rank fusion", pipelineYAML, "spec.retrieval.fusion", `{type: ReciprocalRank, reciprocalRank: {k: 60, weights: {bm25: "1", hnsw: "0.5"}}}`),
		Entry("the smaller model", pipelineYAML, "spec.indexing.embedding.model", "static-256"),
		Entry("no reranker, said in words", pipelineYAML, "spec.retrieval.rerank", "{type: None}"),
		Entry("an Index with a reranker", indexYAML, "spec.retrieval", "{rerank: {type: LateInteraction}}"),
		Entry("an empty TLS secret", pipelineYAML, "spec.serving.tls", `{secretRef: {name: ""}}`),
		Entry("an empty override, hold and rollback", pipelineYAML, "spec.tenants.0", `{name: acme, corpusRef: {name: a}, evalSetRef: {object: evals/a.jsonl}, hold: "", rollbackTo: "", override: {index: "", reason: ""}}`),
		Entry("no soak", pipelineYAML, "spec.promotion.soak", "0s"),
		Entry("a JWKS URL", pipelineYAML, "spec.access.identity.jwt", "{issuer: i, audiences: [a], jwksURL: 'https://issuer.example.org/jwks.json'}"),
		Entry("questions in the artifacts bucket", pipelineYAML, "spec.tenants.0.evalSetRef", "{object: evals/sets/acme.jsonl}"),
		Entry("the whole of a source bucket beside an artifacts bucket", corpusYAML, "spec.source.s3.prefix", `""`),
		Entry("rules of every type", corpusYAML, "spec.access.rules", "[{prefix: hr/, allow: [{type: Group, name: hr}, {type: User, name: ann}]}, {prefix: public/, allow: [{type: Everyone}]}, {prefix: secret/, allow: []}]"),
		Entry("consent to one listing", corpusYAML, "spec.sync.approveDeletions", `{max: 400, expires: "2026-12-01T00:00:00Z", listingDigest: "sha256:`+hexDigest+`"}`),
	)

	It("fills in what a reranking server leaves out", func(ctx SpecContext) {
		obj := load(pipelineYAML)
		set(obj, "spec.retrieval.rerank", "{type: Endpoint, endpoint: {url: 'http://r', model: m}}")
		Expect(create(ctx, obj)).To(Succeed())
		Expect(field(obj, "spec.retrieval.rerank.endpoint.api")).To(Equal("Cohere"))
		Expect(field(obj, "spec.retrieval.rerank.endpoint.timeout")).To(Equal("2s"))
		Expect(field(obj, "spec.retrieval.rerank.candidates")).To(BeNil(), "what is absent follows the release that serves")
	})

	It("keeps a stored zero of a field whose default is another", func(ctx SpecContext) {
		obj := load(pipelineYAML)
		set(obj, "spec.indexing.chunking.overlap", "0")
		Expect(create(ctx, obj)).To(Succeed())
		Expect(field(obj, "spec.indexing.chunking.overlap")).To(BeEquivalentTo(0))
	})
})
