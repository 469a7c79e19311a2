package pipeline_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

var _ = Describe("A rollout", func() {
	It("builds, starts, judges, and only then promotes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")

		w.reconcile("support")
		Expect(w.indexes(p)).To(HaveLen(1))
		index := w.indexes(p)[0].Name
		Expect(w.runs(index)).To(BeEmpty())
		Expect(w.active("support", "acme")).To(BeEmpty())

		w.build(index)
		w.reconcile("support")
		Expect(w.runs(index)).To(BeEmpty(), "nothing is asked before every replica is ready")
		w.start(index)
		w.reconcile("support")
		Expect(w.runs(index)).To(HaveLen(1))
		Expect(w.active("support", "acme")).To(BeEmpty(), "a run without a verdict promotes nothing")

		w.judge(index, v1alpha1.VerdictPassed)
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(Equal(index))

		w.reconcile("support")
		p = w.reload(p)
		Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
		Expect(p.Status.Tenants[0].Active.Index).To(Equal(index))
		Expect(p.Status.Tenants[0].Endpoint).To(Equal("http://support-acme." + w.namespace + ".svc"))
		service := &corev1.Service{}
		Expect(w.get("support-acme", service)).To(Succeed())
		Expect(service.Spec.Selector).To(HaveKeyWithValue(desired.LabelIndex, index))
		got := &v1alpha1.Index{}
		Expect(w.get(index, got)).To(Succeed())
		Expect(got.Status.Serving).To(Equal(v1alpha1.ServingActive))
	})

	It("writes nothing when nothing changes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		w.promote(p, "acme")
		w.reconcile("support")
		before := writes.Count()
		for range 3 {
			w.now = w.now.Add(time.Second)
			w.reconcile("support")
		}
		Expect(writes.Count()).To(Equal(before))
	})

	DescribeTable("is blocked by every verdict but Passed, and serves on",
		func(ctx SpecContext, verdict v1alpha1.Verdict) {
			w := newWorld(ctx)
			w.corpus("docs", "one")
			p := w.pipeline("support", "acme")
			first := w.promote(p, "acme")
			w.changeChunking(p, 64)
			w.reconcile("support")
			second := w.newest(p, first)
			w.build(second)
			w.reconcile("support")
			w.start(second)
			w.reconcile("support")
			w.judge(second, verdict)
			w.reconcile("support")
			Expect(w.active("support", "acme")).To(Equal(first))
			p = w.reload(p)
			Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "users are served")
			Expect(p.Status.Tenants[0].LastVerdict.Verdict).To(Equal(verdict))
		},
		Entry("Failed", v1alpha1.VerdictFailed),
		Entry("Inconclusive", v1alpha1.VerdictInconclusive),
		Entry("Error", v1alpha1.VerdictError),
		Entry("Cancelled", v1alpha1.VerdictCancelled),
	)

	It("does not promote by a verdict about something else", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		w.reconcile("support")
		index := w.indexes(p)[0].Name
		w.build(index)
		w.reconcile("support")
		w.start(index)
		w.reconcile("support")
		w.judge(index, v1alpha1.VerdictPassed)
		run := w.runs(index)[0]
		run.Status.Subject.IndexDigest = digest("other")
		Expect(k8s.Status().Update(ctx, &run)).To(Succeed())
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(BeEmpty())
	})

	It("does not trust a run that somebody else created", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		w.reconcile("support")
		index := w.indexes(p)[0].Name
		w.build(index)
		w.reconcile("support")
		w.start(index)
		w.reconcile("support")
		ours := w.runs(index)[0]
		forged := &v1alpha1.EvalRun{ObjectMeta: w.meta("forged"), Spec: ours.Spec}
		w.create(forged)
		Expect(k8s.Delete(ctx, &ours)).To(Succeed())
		w.judge(index, v1alpha1.VerdictPassed)
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(BeEmpty())
	})

	It("notes on each Index what its newest measurement found", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		index := &v1alpha1.Index{}
		Expect(w.get(first, index)).To(Succeed())
		Expect(index.Status.Recall).To(Equal("0.9000"))
		Expect(index.Status.Serving).To(Equal(v1alpha1.ServingActive))

		// A candidate that fails has been measured too, and one whose run ends without a measurement has not.
		w.changeChunking(p, 64)
		w.reconcile("support")
		second := w.newest(p, first)
		w.build(second)
		w.reconcile("support")
		w.start(second)
		w.reconcile("support")
		w.create(&v1alpha1.EvalRun{ObjectMeta: w.meta("forged"), Spec: w.runs(second)[0].Spec})
		w.judge(second, v1alpha1.VerdictFailed)
		run := w.controlledRun(p, second)
		run.Status.Results[0].Value = "0.4000"
		Expect(k8s.Status().Update(ctx, &run)).To(Succeed())
		w.reconcile("support")
		Expect(w.get(second, index)).To(Succeed())
		Expect(index.Status.Recall).To(Equal("0.4000"), "a run that somebody else created measures nothing")
		Expect(w.get(first, index)).To(Succeed())
		Expect(index.Status.Recall).To(Equal("0.9000"))

		run = w.controlledRun(p, second)
		run.Status.Verdict, run.Status.Results = v1alpha1.VerdictError, nil
		Expect(k8s.Status().Update(ctx, &run)).To(Succeed())
		w.reconcile("support")
		w.reconcile("support")
		Expect(w.get(second, index)).To(Succeed())
		Expect(index.Status.Recall).To(Equal("0.4000"), "an Error takes nothing away from what was measured")
		before := writes.Count()
		w.reconcile("support")
		Expect(writes.Count()).To(Equal(before))
	})

	It("keeps the previous version warm during soak, and rolls back to it with one write", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		w.snapshot("docs", "two")
		second := w.promote(p, "acme")
		Expect(second).NotTo(Equal(first))
		p = w.reload(p)
		Expect(p.Status.Tenants[0].Previous.Index).To(Equal(first))
		p.Spec.Tenants[0].RollbackTo = first
		Expect(k8s.Update(ctx, p)).To(Succeed())
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(Equal(first))
	})

	It("builds upon what serves, whatever failed in between, and upon what failed where only that has the recipe", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		reject := func() (index v1alpha1.Index) {
			w.reconcile("support")
			for _, index = range w.indexes(p) {
				if index.Status.Artifact == nil {
					break
				}
			}
			w.build(index.Name)
			w.reconcile("support")
			w.start(index.Name)
			w.reconcile("support")
			w.judge(index.Name, v1alpha1.VerdictFailed)
			w.reconcile("support")
			w.now = w.now.Add(time.Minute)
			return index
		}
		first := reject()
		Expect(first.Spec.Parent).To(BeEmpty())
		w.snapshot("docs", "two")
		serving := w.promote(p, "acme")
		index := &v1alpha1.Index{}
		Expect(w.get(serving, index)).To(Succeed())
		Expect(index.Spec.Parent).To(Equal(first.Name), "nothing serves yet, and the segments are as good as any")
		w.snapshot("docs", "three")
		Expect(reject().Spec.Parent).To(Equal(serving))
		w.snapshot("docs", "four")
		Expect(reject().Spec.Parent).To(Equal(serving), "a failed version between two others is passed over")

		w.changeChunking(p, 128)
		other := reject()
		Expect(other.Spec.Parent).To(BeEmpty(), "no segment is of the new recipe")
		w.snapshot("docs", "five")
		Expect(reject().Spec.Parent).To(Equal(other.Name), "what serves has another recipe, so every segment would be written anew")
		Expect(w.active("support", "acme")).To(Equal(serving))
	})

	It("ends the previous stack after soak", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		w.snapshot("docs", "two")
		w.promote(p, "acme")
		w.now = w.now.Add(11 * time.Minute)
		w.reconcile("support")
		service := &corev1.Service{}
		Expect(client.IgnoreNotFound(w.get(desired.PartName(first, desired.GatewayPart), service))).To(Succeed())
		Expect(service.Name).To(BeEmpty())
		Expect(w.get(desired.PartName(first, desired.BM25Part), &networkingv1.NetworkPolicy{})).To(Succeed(),
			"its pods listen while they shut down, so the policies stay until the Index goes")
	})

	It("promotes nothing while held", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		p = w.reload(p)
		p.Spec.Tenants[0].Hold = "audit until Friday"
		Expect(k8s.Update(ctx, p)).To(Succeed())
		w.snapshot("docs", "two")
		w.reconcile("support")
		second := w.newest(p, first)
		w.build(second)
		w.reconcile("support")
		w.start(second)
		w.reconcile("support")
		w.judge(second, v1alpha1.VerdictPassed)
		w.reconcile("support")
		Expect(w.active("support", "acme")).To(Equal(first))
		Expect(w.reload(p).Status.Tenants[0].Candidate.Stage).To(Equal(v1alpha1.CandidateHeld))
	})
})

var _ = Describe("Many tenants", func() {
	It("are served apart, and what is stuck for one stops no other", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme", "globex")
		p.Spec.Tenants[1].CorpusRef.Name = "absent"
		Expect(k8s.Update(ctx, p)).To(Succeed())
		w.promote(p, "acme")
		p = w.reload(p)
		stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
		Expect(stalled.Reason).To(Equal(v1alpha1.ReasonCorpusNotFound))
		Expect(stalled.Message).To(And(ContainSubstring("globex"), ContainSubstring(`"absent"`)))
	})

	It("say what an unserved one waits for, while nothing is in the way", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		docs := &v1alpha1.Corpus{}
		Expect(w.get("docs", docs)).To(Succeed())
		docs.Status.Snapshot = nil
		Expect(k8s.Status().Update(ctx, docs)).To(Succeed())
		p := w.pipeline("support", "acme")
		w.reconcile("support")
		waiting := meta.FindStatusCondition(w.reload(p).Status.Conditions, v1alpha1.ConditionReconciling)
		Expect(waiting.Status).To(Equal(metav1.ConditionTrue), "not Ready, not Stalled, and nothing under way: nobody would know why")
		Expect(waiting.Message).To(ContainSubstring("acme: the corpus has no snapshot yet"))
	})

	It("make nothing anew, and no noise, while their namespace is deleted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		w.pipeline("support", "acme")
		Expect(k8s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
		w.reconcile("support")
	})

	It("never meet: support + acme-eu beside support-acme + eu", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		one, two := w.pipeline("support", "acme-eu"), w.pipeline("support-acme", "eu")
		first := w.promote(one, "acme-eu")
		w.reconcile("support-acme")
		two = w.reload(two)
		stalled := meta.FindStatusCondition(two.Status.Conditions, v1alpha1.ConditionStalled)
		Expect(stalled.Reason).To(Equal(v1alpha1.ReasonNameConflict))
		Expect(stalled.Message).To(ContainSubstring("RetrievalPipeline/support"))
		Expect(w.active("support", "acme-eu")).To(Equal(first))
		Expect(w.indexes(two)).To(BeEmpty(), "nothing is built that could never serve")
	})

	It("take their parts with them when they leave the spec", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme", "globex")
		w.promote(p, "globex")
		p = w.reload(p)
		p.Spec.Tenants = p.Spec.Tenants[:1]
		Expect(k8s.Update(ctx, p)).To(Succeed())
		w.reconcile("support")
		Expect(w.active("support", "globex")).To(BeEmpty())
		for _, index := range w.indexes(p) {
			Expect(index.Spec.Tenant).To(Equal("acme"))
		}
	})
})

var _ = Describe("The tenant Service", func() {
	It("is repaired when someone points it elsewhere", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		index := w.promote(p, "acme")
		service := &corev1.Service{}
		Expect(w.get("support-acme", service)).To(Succeed())
		patch := []byte(`{"spec":{"selector":{"quarry.dev/index":"elsewhere"}}}`)
		Expect(k8s.Patch(ctx, service, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		w.reconcile("support")
		Expect(w.get("support-acme", service)).To(Succeed())
		Expect(service.Spec.Selector).To(HaveKeyWithValue(desired.LabelIndex, index))
	})
})

var _ = Describe("An operator release", func() {
	It("restarts and rebuilds nothing", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.corpus("docs", "one")
		p := w.pipeline("support", "acme")
		first := w.promote(p, "acme")
		w.reconcile("support")
		w.reconciler.Image = "quarry:two"
		before := writes.Count()
		w.reconcile("support")
		Expect(writes.Count()).To(Equal(before))
		w.snapshot("docs", "two")
		w.reconcile("support")
		next := &v1alpha1.Index{}
		Expect(w.get(w.newest(p, first), next)).To(Succeed())
		Expect(next.Spec.Image).To(Equal("quarry:two"), "the next version takes the new image")
	})
})

func (w *world) changeChunking(p *v1alpha1.RetrievalPipeline, size int32) {
	w.reload(p)
	p.Spec.Indexing.Chunking.Size = size
	p.Spec.Indexing.Chunking.Overlap = 0
	Expect(k8s.Update(w.ctx, p)).To(Succeed())
}

// newest is the one index that is not the given one.
func (w *world) newest(p *v1alpha1.RetrievalPipeline, other string) string {
	for _, index := range w.indexes(p) {
		if index.Name != other {
			return index.Name
		}
	}
	Fail("there is no version beside " + other)
	return ""
}

// controlledRun is the newest run about the index that the pipeline created.
func (w *world) controlledRun(p *v1alpha1.RetrievalPipeline, index string) v1alpha1.EvalRun {
	for _, run := range w.runs(index) {
		if metav1.IsControlledBy(&run, p) {
			return run
		}
	}
	Fail("there is no run about " + index)
	return v1alpha1.EvalRun{}
}
