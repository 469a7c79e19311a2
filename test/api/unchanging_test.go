package api_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	immutableArtifacts = []string{"spec.artifacts.s3", "endpoint, bucket and prefix of artifacts are immutable", "create a new Corpus"}
	immutableSource    = []string{"spec.source.s3", "prefix of the source is immutable", "create a new Corpus"}
)

var _ = Describe("records", func() {
	DescribeTable("never change", func(ctx SpecContext, file, path, value, want string) {
		obj := load(file)
		Expect(api.Create(ctx, obj, client.FieldValidation("Strict"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, obj))).To(Succeed()) })
		changed := obj.DeepCopy()
		set(changed, path, value)
		Expect(api.Update(ctx, changed)).To(MatchError(ContainSubstring(want)))

		// Metadata and status are no part of the record.
		obj.SetLabels(map[string]string{"team": "search"})
		Expect(api.Update(ctx, obj)).To(Succeed())
	},
		Entry("Index, another tenant", indexYAML, "spec.tenant", "globex", "spec of an Index is immutable: change the RetrievalPipeline"),
		Entry("Index, another recipe", indexYAML, "spec.indexing.chunking.size", "128", "spec of an Index is immutable: change the RetrievalPipeline"),
		Entry("EvalRun, a lower minimum", evalRunYAML, "spec.metrics.0.minimum", `"0.1"`, "spec of an EvalRun is immutable, because a run is a record: create another EvalRun"),
		Entry("EvalRun, an added baseline", evalRunYAML, "spec.baselineIndexRef", "{name: other}", "create another EvalRun"),
	)

	DescribeTable("places of a Corpus never change", func(ctx SpecContext, path, value string, wants []string) {
		obj := load(corpusYAML)
		Expect(api.Create(ctx, obj, client.FieldValidation("Strict"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, obj))).To(Succeed()) })
		set(obj, path, value)
		err := api.Update(ctx, obj)
		for _, want := range wants {
			Expect(err).To(MatchError(ContainSubstring(want)))
		}
	},
		Entry("artifacts, another endpoint", "spec.artifacts.s3.endpoint", "http://s3.other.svc:7070", immutableArtifacts),
		Entry("artifacts, another bucket", "spec.artifacts.s3.bucket", "quarry-2", immutableArtifacts),
		Entry("artifacts, another prefix", "spec.artifacts.s3.prefix", "acme-2/", immutableArtifacts),
		Entry("artifacts, no prefix", "spec.artifacts.s3.prefix", `""`, immutableArtifacts),
		Entry("source, another prefix", "spec.source.s3.prefix", "globex/", immutableSource),
		Entry("source, a narrower prefix", "spec.source.s3.prefix", "acme/hr/", immutableSource),
		Entry("source, no prefix", "spec.source.s3.prefix", `""`, immutableSource),
	)

	DescribeTable("a spec whose behaviour may change does", func(ctx SpecContext, file, path, value string) {
		obj := load(file)
		Expect(api.Create(ctx, obj, client.FieldValidation("Strict"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(api.Delete(ctx, obj))).To(Succeed()) })
		set(obj, path, value)
		Expect(api.Update(ctx, obj)).To(Succeed())
	},
		Entry("chunking", pipelineYAML, "spec.indexing.chunking", "{strategy: Sentence, size: 128, overlap: 0}"),
		Entry("topK", pipelineYAML, "spec.retrieval.topK", "20"),
		Entry("keys of the source and the artifacts", corpusYAML, "spec.artifacts.s3.readCredentialsRef.name", "rotated"),
		Entry("the source's endpoint", corpusYAML, "spec.source.s3.endpoint", "http://s3.other.svc:7070"),
		Entry("access rules", corpusYAML, "spec.access.rules", "[{prefix: hr/, allow: [{type: Group, name: hr}]}]"),
	)
})
