package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/evalrun"
	"quarry.dev/quarry/controllers/pipeline"
	"quarry.dev/quarry/controllers/testenv"
	"quarry.dev/quarry/internal/desired"
)

var (
	k8s    client.Client
	writes testenv.Writes
	stop   func() error
)

func TestPipeline(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "RetrievalPipeline controller")
}

var _ = BeforeSuite(func() {
	config, end, err := testenv.Start()
	Expect(err).NotTo(HaveOccurred())
	stop = end
	scheme, err := testenv.Scheme()
	Expect(err).NotTo(HaveOccurred())
	plain, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	k8s = writes.Wrap(plain)
})

var _ = AfterSuite(func() {
	if stop != nil {
		Expect(stop()).To(Succeed())
	}
})

// world is one namespace with a pipeline in it, and a clock that only the test moves.
type world struct {
	ctx        context.Context
	namespace  string
	now        time.Time
	reconciler *pipeline.Reconciler
	buckets    *testenv.Buckets
}

var count int

func newWorld(ctx context.Context) *world {
	count++
	w := &world{ctx: ctx, namespace: fmt.Sprintf("w%d", count), now: time.Now().Truncate(time.Second), buckets: &testenv.Buckets{}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.reconciler = &pipeline.Reconciler{
		Client: k8s, Buckets: w.buckets, Recorder: events.NewFakeRecorder(100),
		Image: "quarry:one", Now: func() time.Time { return w.now },
	}
	w.create(&corev1.ConfigMap{ObjectMeta: w.meta("questions"), Data: map[string]string{"eval.jsonl": "{}"}})
	return w
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(obj client.Object) { Expect(k8s.Create(w.ctx, obj)).To(Succeed()) }

func (w *world) get(name string, obj client.Object) error {
	return k8s.Get(w.ctx, types.NamespacedName{Namespace: w.namespace, Name: name}, obj)
}

func (w *world) corpus(name, snapshot string) {
	s3 := v1alpha1.S3Location{Endpoint: "http://s3.storage.svc:7070", Bucket: "documents", Prefix: name + "/"}
	artifacts := s3
	artifacts.Bucket = "quarry"
	corpus := &v1alpha1.Corpus{
		ObjectMeta: w.meta(name),
		Spec: v1alpha1.CorpusSpec{
			Source: v1alpha1.SourceSpec{Type: "S3", S3: &v1alpha1.S3Source{S3Location: s3, CredentialsRef: v1alpha1.SecretRef{Name: "s3"}}},
			Artifacts: v1alpha1.ArtifactsSpec{S3: v1alpha1.ArtifactsS3{
				S3Location: artifacts, WriteCredentialsRef: v1alpha1.SecretRef{Name: "s3"}, ReadCredentialsRef: v1alpha1.SecretRef{Name: "s3"},
			}},
		},
	}
	w.create(corpus)
	w.snapshot(name, snapshot)
}

func (w *world) snapshot(corpusName, text string) {
	corpus := &v1alpha1.Corpus{}
	Expect(w.get(corpusName, corpus)).To(Succeed())
	corpus.Status.Snapshot = &v1alpha1.SnapshotStatus{Digest: digest(text), Documents: 1, Bytes: 1}
	Expect(k8s.Status().Update(w.ctx, corpus)).To(Succeed())
}

func (w *world) pipeline(name string, tenants ...string) *v1alpha1.RetrievalPipeline {
	p := &v1alpha1.RetrievalPipeline{ObjectMeta: w.meta(name)}
	for _, tenant := range tenants {
		p.Spec.Tenants = append(p.Spec.Tenants, v1alpha1.Tenant{
			Name: tenant, CorpusRef: v1alpha1.LocalRef{Name: "docs"},
			EvalSetRef: &v1alpha1.EvalSetRef{ConfigMap: &v1alpha1.KeyRef{Name: "questions", Key: "eval.jsonl"}},
		})
	}
	p.Spec.Access.Identity = v1alpha1.IdentitySpec{Type: "JWT", JWT: &v1alpha1.JWTSpec{
		Issuer: "https://sso.example.com", Audiences: []string{"search"}, TenantClaim: "tenant",
		JWKSRef: &v1alpha1.JWKSRef{ConfigMap: &v1alpha1.KeyRef{Name: "sso", Key: "jwks.json"}},
	}}
	p.Spec.Promotion.Gate.Metrics = []v1alpha1.GateMetric{{Name: "Recall", K: 10, Minimum: "0.80"}}
	w.create(p)
	return p
}

func (w *world) reconcile(name string) ctrl.Result {
	result, err := w.reconciler.Reconcile(w.ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}})
	Expect(err).NotTo(HaveOccurred())
	return result
}

func (w *world) reload(p *v1alpha1.RetrievalPipeline) *v1alpha1.RetrievalPipeline {
	Expect(w.get(p.Name, p)).To(Succeed())
	return p
}

func (w *world) indexes(p *v1alpha1.RetrievalPipeline) []v1alpha1.Index {
	list := &v1alpha1.IndexList{}
	Expect(k8s.List(w.ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	var out []v1alpha1.Index
	for _, index := range list.Items {
		if metav1.IsControlledBy(&index, p) {
			out = append(out, index)
		}
	}
	return out
}

// build plays the Index controller: the artifact is there.
func (w *world) build(name string) {
	index := &v1alpha1.Index{}
	Expect(w.get(name, index)).To(Succeed())
	index.Status.Artifact = &v1alpha1.ArtifactStatus{URI: "indexes/x/manifest.json", Digest: digest(name), Bytes: 1, Segments: 1}
	index.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.Now()}}
	Expect(k8s.Status().Update(w.ctx, index)).To(Succeed())
}

// start plays the Deployment controller: every replica of the stack is ready.
func (w *world) start(index string) {
	version := &v1alpha1.Index{}
	Expect(w.get(index, version)).To(Succeed())
	w.startRoles(index, desired.Roles(version)...)
}

func (w *world) startRoles(index string, roles ...desired.Part) {
	for _, role := range roles {
		d := &appsv1.Deployment{}
		Expect(w.get(desired.PartName(index, role), d)).To(Succeed())
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas,
			ReadyReplicas: *d.Spec.Replicas, AvailableReplicas: *d.Spec.Replicas,
		}
		Expect(k8s.Status().Update(w.ctx, d)).To(Succeed())
	}
}

func (w *world) runs(index string) []v1alpha1.EvalRun {
	list := &v1alpha1.EvalRunList{}
	Expect(k8s.List(w.ctx, list, client.InNamespace(w.namespace))).To(Succeed())
	var out []v1alpha1.EvalRun
	for _, run := range list.Items {
		if run.Spec.IndexRef.Name == index {
			out = append(out, run)
		}
	}
	return out
}

// judge plays the EvalRun controller.
func (w *world) judge(index string, verdict v1alpha1.Verdict) {
	for _, run := range w.runs(index) {
		if run.Status.Verdict != "" {
			continue
		}
		subject := &v1alpha1.Index{}
		Expect(w.get(index, subject)).To(Succeed())
		var baseline *v1alpha1.Index
		if run.Spec.BaselineIndexRef != nil {
			baseline = &v1alpha1.Index{}
			Expect(w.get(run.Spec.BaselineIndexRef.Name, baseline)).To(Succeed())
		}
		run.Status.Verdict = verdict
		run.Status.Subject = evalrun.Subject(&run, subject, baseline)
		run.Status.Leaks = &v1alpha1.LeakStatus{Probes: 40}
		run.Status.Results = []v1alpha1.MetricResult{{Metric: "Recall", At: 10, Value: "0.9000", Questions: 40}}
		Expect(k8s.Status().Update(w.ctx, &run)).To(Succeed())
	}
}

// promote takes the newest version of the tenant through every step.
func (w *world) promote(p *v1alpha1.RetrievalPipeline, tenant string) string {
	w.reconcile(p.Name)
	name := ""
	for _, index := range w.indexes(p) {
		if index.Spec.Tenant == tenant && index.Status.Artifact == nil {
			name = index.Name
		}
	}
	Expect(name).NotTo(BeEmpty(), "no version of tenant %s waits to be built", tenant)
	w.build(name)
	w.reconcile(p.Name)
	w.start(name)
	w.reconcile(p.Name)
	w.judge(name, v1alpha1.VerdictPassed)
	w.reconcile(p.Name)
	Expect(w.active(p.Name, tenant)).To(Equal(name))
	w.reconcile(p.Name)
	return name
}

func (w *world) active(pipelineName, tenant string) string {
	service := &corev1.Service{}
	if err := w.get(desired.TenantServiceName(pipelineName, tenant), service); err != nil {
		return ""
	}
	return service.Annotations[desired.AnnotationActiveIndex]
}

func digest(text string) string {
	const zeros = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	return zeros[:len(zeros)-2*len(text)] + fmt.Sprintf("%x", text)
}
