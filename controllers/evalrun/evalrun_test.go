package evalrun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/evalrun"
	"quarry.dev/quarry/controllers/testenv"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/eval"
)

var (
	k8s  client.Client
	stop func() error
)

func TestEvalRun(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "EvalRun controller")
}

var _ = BeforeSuite(func() {
	config, end, err := testenv.Start()
	Expect(err).NotTo(HaveOccurred())
	stop = end
	scheme, err := testenv.Scheme()
	Expect(err).NotTo(HaveOccurred())
	k8s, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if stop != nil {
		Expect(stop()).To(Succeed())
	}
})

const (
	questions = `{"id":"q1","question":"how long is parental leave","as":{"user":"ann"},"evidence":[[{"document":"leave.md","quote":"26 weeks"}]]}` + "\n"
	version   = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"
)

// world is one namespace with everything that a run names.
type world struct {
	ctx        context.Context
	namespace  string
	now        time.Time
	buckets    *testenv.Buckets
	corpus     *v1alpha1.Corpus
	reconciler *evalrun.Reconciler
}

var count int

func newWorld(ctx context.Context) *world {
	count++
	w := &world{ctx: ctx, namespace: fmt.Sprintf("e%d", count), now: time.Now(), buckets: &testenv.Buckets{}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.reconciler = &evalrun.Reconciler{Client: k8s, Buckets: w.buckets, Now: func() time.Time { return w.now }}
	s3 := v1alpha1.S3Location{Endpoint: "http://s3.storage.svc:7070", Bucket: "documents", Prefix: "docs/"}
	artifacts := s3
	artifacts.Bucket = "quarry"
	keys := v1alpha1.SecretRef{Name: "s3"}
	w.corpus = &v1alpha1.Corpus{ObjectMeta: w.meta("docs"), Spec: v1alpha1.CorpusSpec{
		Source:    v1alpha1.SourceSpec{Type: "S3", S3: &v1alpha1.S3Source{S3Location: s3, CredentialsRef: keys}},
		Artifacts: v1alpha1.ArtifactsSpec{S3: v1alpha1.ArtifactsS3{S3Location: artifacts, WriteCredentialsRef: keys, ReadCredentialsRef: keys}},
	}}
	w.create(w.corpus)
	w.create(&v1alpha1.RetrievalPipeline{ObjectMeta: w.meta("support"), Spec: v1alpha1.RetrievalPipelineSpec{
		Tenants: []v1alpha1.Tenant{{Name: "acme", CorpusRef: v1alpha1.LocalRef{Name: "docs"}}},
		Access: v1alpha1.PipelineAccessSpec{Identity: v1alpha1.IdentitySpec{Type: "JWT", JWT: &v1alpha1.JWTSpec{
			Issuer: "https://sso.example.com", Audiences: []string{"search"}, TenantClaim: "tenant",
			JWKSRef: &v1alpha1.JWKSRef{ConfigMap: &v1alpha1.KeyRef{Name: "sso", Key: "jwks.json"}},
		}}},
	}})
	p := &v1alpha1.RetrievalPipeline{}
	Expect(w.get("support", p)).To(Succeed())
	w.create(&v1alpha1.Index{ObjectMeta: w.meta("one"), Spec: v1alpha1.IndexSpec{
		PipelineRef: v1alpha1.LocalRef{Name: "support"}, Tenant: "acme", CorpusRef: v1alpha1.LocalRef{Name: "docs"},
		Snapshot: v1alpha1.SnapshotRef{Digest: version}, Indexing: p.Spec.Indexing, Retrieval: p.Spec.Retrieval,
		Image: "quarry:dev", VersionDigest: version,
	}})
	w.create(&corev1.ConfigMap{ObjectMeta: w.meta("one-serve"), Data: map[string]string{"config.json": "{}"}})
	w.create(&corev1.ConfigMap{ObjectMeta: w.meta("questions"), Data: map[string]string{"eval.jsonl": questions}})
	return w
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(obj client.Object) { Expect(k8s.Create(w.ctx, obj)).To(Succeed()) }

func (w *world) get(name string, obj client.Object) error {
	return k8s.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: name}, obj)
}

func (w *world) run(change func(*v1alpha1.EvalRunSpec)) *v1alpha1.EvalRun {
	run := &v1alpha1.EvalRun{ObjectMeta: w.meta("judge"), Spec: v1alpha1.EvalRunSpec{
		IndexRef: v1alpha1.LocalRef{Name: "one"}, PipelineRef: v1alpha1.LocalRef{Name: "support"}, Tenant: "acme",
		EvalSet: v1alpha1.EvalSetBinding{
			Ref:    v1alpha1.EvalSetRef{ConfigMap: &v1alpha1.KeyRef{Name: "questions", Key: "eval.jsonl"}},
			Digest: artifact.Digest([]byte(questions)),
		},
		Metrics:      []v1alpha1.GateMetric{{Name: "Recall", K: 5, Minimum: "0.50"}},
		MinQuestions: 1, DecideOn: v1alpha1.DecideOnEstimate, Leaks: v1alpha1.LeaksForbid, Attempt: 1,
	}}
	if change != nil {
		change(&run.Spec)
	}
	w.create(run)
	w.reconcile(run)
	return run
}

func (w *world) reconcile(run *v1alpha1.EvalRun) {
	_, err := w.reconciler.Reconcile(w.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(run)})
	Expect(err).NotTo(HaveOccurred())
	Expect(w.get(run.Name, run)).To(Succeed())
}

// finish plays the Job controller and the pod: the Job has ended, and its pod left this message.
func (w *world) finish(run *v1alpha1.EvalRun, end batchv1.JobConditionType, message string) {
	job := &batchv1.Job{}
	Expect(w.get(run.Name, job)).To(Succeed())
	now := metav1.Now()
	job.Status.StartTime = &now
	before := batchv1.JobSuccessCriteriaMet
	if end == batchv1.JobFailed {
		before = batchv1.JobFailureTarget
	} else {
		job.Status.CompletionTime = &now
		job.Status.Succeeded = 1
	}
	for _, kind := range []batchv1.JobConditionType{before, end} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now})
	}
	Expect(k8s.Status().Update(w.ctx, job)).To(Succeed())
	exit := int32(0)
	if end == batchv1.JobFailed {
		exit = 1
	}
	pod := &corev1.Pod{ObjectMeta: w.meta("judge-pod"), Spec: job.Spec.Template.Spec}
	pod.Labels = map[string]string{batchv1.JobNameLabel: run.Name}
	w.create(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "eval", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message}},
	}}
	Expect(k8s.Status().Update(w.ctx, pod)).To(Succeed())
	w.reconcile(run)
}

func (w *world) report(value float64, leaks int) string {
	report := eval.Report{
		Run: "judge", Index: "one", VersionDigest: version, EvalSetDigest: artifact.Digest([]byte(questions)), AccessEpoch: 7,
		Questions: []eval.QuestionReport{{ID: "q1", Kind: eval.Answerable}},
		Metrics:   []eval.MetricReport{{Metric: eval.Metric{Name: "Recall", K: 5}, Value: value, Lower: value, Upper: value, Questions: 1}},
		Leaks:     eval.LeakReport{Probes: 1, Hits: leaks},
	}
	body, err := json.Marshal(report)
	Expect(err).NotTo(HaveOccurred())
	_, err = w.buckets.ArtifactsOf(w.corpus).Put(w.ctx, "evals/judge/report.json", body, artifact.Condition{})
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf(`{"report":"evals/judge/report.json","digest":%q}`, artifact.Digest(body))
}

var _ = Describe("A run", func() {
	It("starts one Job, and records Passed for a report that is good enough", func(ctx SpecContext) {
		w := newWorld(ctx)
		run := w.run(nil)
		Expect(run.Status.Verdict).To(BeEmpty())
		Expect(meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionReconciling)).To(BeTrue())
		w.finish(run, batchv1.JobComplete, w.report(0.9, 0))
		Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictPassed), run.Status.Message)
		Expect(run.Status.Subject.AccessEpoch).To(Equal(int64(7)))
		Expect(run.Status.Subject.EvalSetDigest).To(Equal(artifact.Digest([]byte(questions))))
		Expect(meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionPassed)).To(BeTrue())
		for _, condition := range run.Status.Conditions {
			Expect(condition.ObservedGeneration).To(Equal(run.Generation))
		}
	})

	It("tells the Job which versions rerank, so that fused answers are no measurement of them", func(ctx SpecContext) {
		w := newWorld(ctx)
		one := &v1alpha1.Index{}
		Expect(w.get("one", one)).To(Succeed())
		two := &v1alpha1.Index{ObjectMeta: w.meta("two"), Spec: *one.Spec.DeepCopy()}
		two.Spec.Retrieval.Rerank = v1alpha1.RerankSpec{Type: v1alpha1.RerankLateInteraction}
		w.create(two)
		w.create(&corev1.ConfigMap{ObjectMeta: w.meta("two-serve"), Data: map[string]string{"config.json": "{}"}})
		run := w.run(func(spec *v1alpha1.EvalRunSpec) {
			spec.IndexRef.Name, spec.BaselineIndexRef = "two", &v1alpha1.LocalRef{Name: "one"}
		})
		config, plan := &corev1.ConfigMap{}, eval.Plan{}
		Expect(w.get(run.Name, config)).To(Succeed())
		Expect(json.Unmarshal([]byte(config.Data["eval.json"]), &plan)).To(Succeed())
		Expect(plan.Subject.Reranks).To(BeTrue())
		Expect(plan.Baseline.Reranks).To(BeFalse())
	})

	It("fails below the minimum, and says value and minimum", func(ctx SpecContext) {
		w := newWorld(ctx)
		run := w.run(nil)
		w.finish(run, batchv1.JobComplete, w.report(0.2, 0))
		Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictFailed))
		Expect(run.Status.Message).To(And(ContainSubstring("0.2"), ContainSubstring("0.5")))
	})

	It("fails on one leak, whatever the recall", func(ctx SpecContext) {
		w := newWorld(ctx)
		run := w.run(nil)
		w.finish(run, batchv1.JobComplete, w.report(1, 1))
		Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictFailed))
	})

	It("is immutable once recorded", func(ctx SpecContext) {
		w := newWorld(ctx)
		run := w.run(nil)
		w.finish(run, batchv1.JobComplete, w.report(0.2, 0))
		w.report(1, 0)
		w.reconcile(run)
		Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictFailed))
	})

	DescribeTable("without evidence never passes",
		func(ctx SpecContext, end func(*world, *v1alpha1.EvalRun), says string) {
			w := newWorld(ctx)
			run := w.run(nil)
			end(w, run)
			Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictError))
			Expect(run.Status.Message).To(ContainSubstring(says))
			Expect(meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionPassed)).To(BeFalse())
		},
		Entry("the Job fails", func(w *world, run *v1alpha1.EvalRun) {
			w.finish(run, batchv1.JobFailed, "bucket not found")
		}, "bucket not found"),
		Entry("the Job succeeds and says nothing", func(w *world, run *v1alpha1.EvalRun) {
			w.finish(run, batchv1.JobComplete, "")
		}, "no evidence"),
		Entry("the report is gone", func(w *world, run *v1alpha1.EvalRun) {
			message := w.report(1, 0)
			Expect(w.buckets.ArtifactsOf(w.corpus).Delete(w.ctx, "evals/judge/report.json")).To(Succeed())
			w.finish(run, batchv1.JobComplete, message)
		}, "does not exist"),
		Entry("the report was changed", func(w *world, run *v1alpha1.EvalRun) {
			message := w.report(0.1, 0)
			w.report(1, 0)
			w.finish(run, batchv1.JobComplete, message)
		}, "has digest"),
	)

	DescribeTable("that names what is not there ends at once",
		func(ctx SpecContext, change func(*v1alpha1.EvalRunSpec), verdict v1alpha1.Verdict, says string) {
			w := newWorld(ctx)
			run := w.run(change)
			Expect(run.Status.Verdict).To(Equal(verdict))
			Expect(run.Status.Message).To(ContainSubstring(says))
			Expect(w.get("judge", &batchv1.Job{})).NotTo(Succeed(), "no Job is started")
		},
		Entry("Index", func(s *v1alpha1.EvalRunSpec) { s.IndexRef.Name = "absent" }, v1alpha1.VerdictCancelled, `Index "absent"`),
		Entry("baseline", func(s *v1alpha1.EvalRunSpec) { s.BaselineIndexRef = &v1alpha1.LocalRef{Name: "absent"} }, v1alpha1.VerdictCancelled, `Index "absent"`),
		Entry("eval set", func(s *v1alpha1.EvalRunSpec) { s.EvalSet.Ref.ConfigMap.Name = "absent" }, v1alpha1.VerdictCancelled, `ConfigMap "absent"`),
		Entry("other questions", func(s *v1alpha1.EvalRunSpec) { s.EvalSet.Digest = version }, v1alpha1.VerdictCancelled, "evalSet.digest"),
	)

	It("with an eval set that is no JSON says which line", func(ctx SpecContext) {
		w := newWorld(ctx)
		set := &corev1.ConfigMap{}
		Expect(w.get("questions", set)).To(Succeed())
		set.Data["eval.jsonl"] = questions + "not json\n"
		Expect(k8s.Update(ctx, set)).To(Succeed())
		run := w.run(func(s *v1alpha1.EvalRunSpec) { s.EvalSet.Digest = artifact.Digest([]byte(set.Data["eval.jsonl"])) })
		Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictError))
		Expect(run.Status.Message).To(ContainSubstring("line 2"))
	})

	It("whose image cannot be pulled ends as Error within a bounded time", func(ctx SpecContext) {
		w := newWorld(ctx)
		run := w.run(nil)
		job := &batchv1.Job{}
		Expect(w.get(run.Name, job)).To(Succeed())
		pod := &corev1.Pod{ObjectMeta: w.meta("judge-pod"), Spec: job.Spec.Template.Spec}
		pod.Labels = map[string]string{batchv1.JobNameLabel: run.Name}
		w.create(pod)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "eval", Image: "nowhere/none:0", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}
		Expect(k8s.Status().Update(ctx, pod)).To(Succeed())
		w.reconcile(run)
		Expect(run.Status.Verdict).To(BeEmpty())
		Expect(meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionReady).Message).To(ContainSubstring("nowhere/none:0"))
		w.now = w.now.Add(3 * time.Minute)
		w.reconcile(run)
		Expect(run.Status.Verdict).To(Equal(v1alpha1.VerdictError))
	})
})
