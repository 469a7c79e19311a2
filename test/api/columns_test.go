package api_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// table asks for an object as kubectl get does and returns its default columns.
func table(ctx context.Context, resource, name string) map[string]string {
	GinkgoHelper()
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &v1alpha1.GroupVersion, "/apis", scheme.Codecs.WithoutConversion()
	rc, err := rest.RESTClientFor(c)
	Expect(err).NotTo(HaveOccurred())
	var got metav1.Table
	data, err := rc.Get().Namespace("default").Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	Expect(err).NotTo(HaveOccurred())
	Expect(unmarshal(data, &got)).To(Succeed())
	Expect(got.Rows).To(HaveLen(1))
	cells := map[string]string{}
	for i, column := range got.ColumnDefinitions {
		if column.Priority == 0 {
			cells[column.Name] = fmt.Sprint(got.Rows[0].Cells[i])
		}
	}
	return cells
}

// stored creates the valid object and sets its status by the subresource.
func stored(ctx context.Context, file, status string) *unstructured.Unstructured {
	GinkgoHelper()
	obj := load(file)
	Expect(api.Create(ctx, obj, client.FieldValidation("Strict"))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, obj)).To(Succeed()) })
	generation := obj.GetGeneration()
	set(obj, "status", status)
	Expect(api.Status().Update(ctx, obj, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{FieldValidation: "Strict"}})).To(Succeed())
	Expect(obj.GetGeneration()).To(Equal(generation), "a status is no new generation")
	return obj
}

func condition(kind, state, reason string) string {
	return fmt.Sprintf("{type: %s, status: %q, reason: %s, message: '', lastTransitionTime: %q}", kind, state, reason, time.Now().UTC().Format(time.RFC3339))
}

var _ = Describe("status columns", func() {
	It("Corpus", func(ctx SpecContext) {
		obj := stored(ctx, corpusYAML, `{observedGeneration: 1, conditions: [`+condition("Ready", "True", "Ready")+", "+condition("ContentFresh", "False", "DeletionsWithheld")+`],
			snapshot: {digest: d, documents: 120, bytes: 4000}, lastSync: {failed: 2, withheldDeletions: 7, finishedAt: "`+time.Now().UTC().Format(time.RFC3339)+`"}}`)
		cells := table(ctx, "corpora", obj.GetName())
		Expect(cells).To(HaveKeyWithValue("Ready", "True"))
		Expect(cells).To(HaveKeyWithValue("Fresh", "False"))
		Expect(cells).To(HaveKeyWithValue("Docs", "120"))
		Expect(cells).To(HaveKeyWithValue("Failed", "2"))
		Expect(cells["Changed"]).To(MatchRegexp(`^[0-9]+s$`))
	})

	It("RetrievalPipeline", func(ctx SpecContext) {
		obj := stored(ctx, pipelineYAML, `{conditions: [`+condition("Ready", "True", "Serving")+`], summary: {tenants: 2, promoted: 1, candidates: 1},
			tenants: [{name: acme, endpoint: "http://support-acme.default.svc", active: {index: i, recall: "0.91"}, candidate: {index: j, stage: Held}, lastVerdict: {index: j, verdict: Failed}}]}`)
		cells := table(ctx, "retrievalpipelines", obj.GetName())
		Expect(cells).To(HaveKeyWithValue("Ready", "True"))
		Expect(cells).To(HaveKeyWithValue("Tenants", "2"))
		Expect(cells).To(HaveKeyWithValue("Promoted", "1"))
		Expect(cells).To(HaveKeyWithValue("Candidates", "1"))
	})

	It("Index", func(ctx SpecContext) {
		obj := stored(ctx, indexYAML, `{serving: Active, recall: "0.912", progress: {stage: Embed, completed: 3, total: 4}, counts: {chunks: 1234}}`)
		cells := table(ctx, "indexes", obj.GetName())
		for name, want := range map[string]string{"Tenant": "acme", "Stage": "Embed", "Progress": "3", "Of": "4", "Chunks": "1234", "Recall": "0.912", "Serving": "Active"} {
			Expect(cells).To(HaveKeyWithValue(name, want))
		}
	})

	It("EvalRun", func(ctx SpecContext) {
		obj := stored(ctx, evalRunYAML, `{verdict: Failed, results: [{metric: Recall, at: 10, value: "0.71", minimum: "0.85", delta: "-0.1"}], leaks: {probes: 12, hits: 0}}`)
		cells := table(ctx, "evalruns", obj.GetName())
		for name, want := range map[string]string{"Index": "support-acme-7f9c4d", "Metric": "Recall", "Value": "0.71", "Minimum": "0.85", "Delta": "-0.1", "Leaks": "0", "Verdict": "Failed"} {
			Expect(cells).To(HaveKeyWithValue(name, want))
		}
	})

	DescribeTable("a status out of bounds is refused", func(ctx SpecContext, file, status, want string) {
		obj := load(file)
		Expect(api.Create(ctx, obj, client.FieldValidation("Strict"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, obj)).To(Succeed()) })
		set(obj, "status", status)
		Expect(api.Status().Update(ctx, obj)).To(MatchError(ContainSubstring(want)))
	},
		Entry("eleven failures", corpusYAML, failures(11), "must have at most 10 items"),
		Entry("a verdict of its own", evalRunYAML, "{verdict: Promising}", "supported values"),
		Entry("a serving state of its own", indexYAML, "{serving: Warm}", "supported values"),
		Entry("a condition twice", corpusYAML, "{conditions: ["+condition("Ready", "True", "Ready")+", "+condition("Ready", "False", "Ready")+"]}", "Duplicate value"),
	)

	It("lists all kinds by the category", func(ctx SpecContext) {
		shortNames := map[string]string{}
		list, err := discoveryResources()
		Expect(err).NotTo(HaveOccurred())
		for _, resource := range list {
			if len(resource.ShortNames) > 0 {
				Expect(resource.Categories).To(ConsistOf("quarry"), resource.Name)
				shortNames[resource.Kind] = resource.ShortNames[0]
			}
		}
		Expect(shortNames).To(Equal(map[string]string{"Corpus": "corp", "RetrievalPipeline": "rp", "Index": "ridx", "EvalRun": "er"}))
	})
})

func failures(n int) string {
	list := "{failures: ["
	for i := range n {
		list += fmt.Sprintf("{document: d%d, reason: Malformed},", i)
	}
	return list + "]}"
}
