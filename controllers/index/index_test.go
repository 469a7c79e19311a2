package index_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/source"
)

// world is a namespace with a Corpus, a pipeline and a listed source.
type world struct {
	corpus   *v1alpha1.Corpus
	pipeline *v1alpha1.RetrievalPipeline
	snapshot string
}

func newWorld(ctx context.Context, documents map[string]string) *world {
	ns := namespace(ctx)
	at := func(bucket string) v1alpha1.S3Location {
		return v1alpha1.S3Location{Endpoint: "http://s3.test:7070", Bucket: bucket, Prefix: "acme/"}
	}
	w := &world{
		corpus: &v1alpha1.Corpus{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "acme"},
			Spec: v1alpha1.CorpusSpec{
				Source: v1alpha1.SourceSpec{Type: v1alpha1.SourceS3, S3: &v1alpha1.S3Source{
					S3Location: at("documents"), CredentialsRef: v1alpha1.SecretRef{Name: "read"},
				}},
				Sync: v1alpha1.SyncSpec{Interval: metav1.Duration{Duration: time.Minute}},
				Artifacts: v1alpha1.ArtifactsSpec{S3: v1alpha1.ArtifactsS3{
					S3Location: at("quarry"), WriteCredentialsRef: v1alpha1.SecretRef{Name: "write"}, ReadCredentialsRef: v1alpha1.SecretRef{Name: "read"},
				}},
			},
		},
		pipeline: pipeline(ns),
	}
	Expect(api.Create(ctx, w.corpus)).To(Succeed())
	Expect(api.Create(ctx, w.pipeline)).To(Succeed())
	for key, text := range documents {
		_, err := buckets.SourceOf(w.corpus).Put(ctx, key, []byte(text), artifact.Condition{})
		Expect(err).NotTo(HaveOccurred())
	}
	w.sync(ctx)
	return w
}

func pipeline(ns string) *v1alpha1.RetrievalPipeline {
	return &v1alpha1.RetrievalPipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "support"},
		Spec: v1alpha1.RetrievalPipelineSpec{
			Tenants: []v1alpha1.Tenant{{Name: "acme", CorpusRef: v1alpha1.LocalRef{Name: "acme"}}},
			Build:   v1alpha1.BuildSpec{Shards: 2, Parallelism: 1},
			Access: v1alpha1.PipelineAccessSpec{
				MaxStaleness: metav1.Duration{Duration: 15 * time.Minute},
				Identity: v1alpha1.IdentitySpec{Type: "JWT", JWT: &v1alpha1.JWTSpec{
					Issuer: "https://login.test", Audiences: []string{"support"}, UserClaim: "sub", GroupsClaim: "groups",
					JWKSRef: &v1alpha1.JWKSRef{ConfigMap: &v1alpha1.KeyRef{Name: "jwks", Key: "jwks.json"}},
				}},
			},
			Promotion: v1alpha1.PromotionSpec{
				Soak: &metav1.Duration{Duration: time.Minute}, MinInterval: metav1.Duration{Duration: time.Second},
			},
		},
	}
}

func (w *world) sync(ctx context.Context) {
	in := source.InputFromSpec(w.corpus.Spec)
	in.Source, in.Artifacts = buckets.SourceOf(w.corpus), buckets.ArtifactsOf(w.corpus)
	in.Owner = artifact.Owner{ClusterUID: "test", Namespace: w.corpus.Namespace, Name: w.corpus.Name}
	out, err := source.Sync(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	w.snapshot = out.Snapshot
}

// index is a version of the present snapshot; the retrieval settings make it another version of equal content.
func (w *world) index(candidates int32, kind v1alpha1.ContextType) *v1alpha1.Index {
	return w.version(v1alpha1.RetrievalSpec{Candidates: candidates, TopK: 10}, kind)
}

func (w *world) version(retrieval v1alpha1.RetrievalSpec, kind v1alpha1.ContextType) *v1alpha1.Index {
	spec := v1alpha1.IndexSpec{
		PipelineRef: v1alpha1.LocalRef{Name: "support"}, Tenant: "acme", CorpusRef: v1alpha1.LocalRef{Name: "acme"},
		Snapshot: v1alpha1.SnapshotRef{Digest: w.snapshot}, Image: "quarry:test",
		Indexing: v1alpha1.IndexingSpec{
			Chunking:  v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkStructure, Unit: v1alpha1.ChunkTokens, Size: 64, Overlap: 8},
			Context:   v1alpha1.ContextSpec{Type: kind},
			Embedding: v1alpha1.EmbeddingSpec{Type: v1alpha1.EmbeddingBuiltin, Model: embed.Static256},
		},
		Retrieval: retrieval,
	}
	spec.VersionDigest = desired.VersionDigest(w.snapshot, desired.RecipeDigest(spec.Indexing, spec.Retrieval, spec.Image))
	name := desired.IndexName(w.corpus.Namespace, "support", "acme", spec.VersionDigest)
	return &v1alpha1.Index{ObjectMeta: metav1.ObjectMeta{Namespace: w.corpus.Namespace, Name: name}, Spec: spec}
}

func get(ctx context.Context, index *v1alpha1.Index) *v1alpha1.Index {
	live := &v1alpha1.Index{}
	Expect(api.Get(ctx, client.ObjectKeyFromObject(index), live)).To(Succeed())
	return live
}

func condition(ctx context.Context, index *v1alpha1.Index, kind string) func() metav1.Condition {
	return func() metav1.Condition {
		if found := meta.FindStatusCondition(get(ctx, index).Status.Conditions, kind); found != nil {
			return *found
		}
		return metav1.Condition{}
	}
}

func is(status metav1.ConditionStatus, reason string) OmegaMatcher {
	return MatchFields(IgnoreExtras, Fields{"Status": Equal(status), "Reason": Equal(reason)})
}

func part(index *v1alpha1.Index, part desired.Part) string { return desired.PartName(index.Name, part) }

func handbook(n int) map[string]string {
	documents := map[string]string{}
	for i := range n {
		documents[fmt.Sprintf("%02d.md", i)] = fmt.Sprintf("# Leave %d\n\nParental leave number %d takes %d weeks.\n", i, i, i+1)
	}
	return documents
}

var _ = Describe("an Index", func() {
	It("runs the four Jobs once each, verifies the artifact, and is quiet afterwards", func(ctx context.Context) {
		w := newWorld(ctx, handbook(6))
		index := w.index(100, v1alpha1.ContextHeading)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		live := get(ctx, index)
		for _, kind := range []string{"Chunked", "Contextualized", "Embedded", "Built"} {
			Expect(condition(ctx, index, kind)().Status).To(Equal(metav1.ConditionTrue), kind)
			Expect(condition(ctx, index, kind)().ObservedGeneration).To(Equal(live.Generation), kind)
		}
		Expect(live.Status.Counts.Documents).To(Equal(int64(6)))
		Expect(live.Status.Counts.Chunks).To(BeNumerically(">=", 6))
		Expect(live.Status.Artifact.URI).To(HavePrefix("s3://quarry/acme/indexes/"))
		Expect(live.Status.Artifact.Digest).To(HavePrefix("sha256:"))
		Expect(live.Status.Attestation.Dimensions).To(Equal(int32(256)))
		Expect(live.Status.Attestation.EmbeddingKernels).To(Equal("exact"))
		for _, stage := range desired.Stages(index) {
			Expect(jobs.runs()[part(index, stage)]).To(Equal(1), string(stage))
		}

		// Removing a Job, as a TTL would, runs nothing again, and looking at the artifact writes nothing.
		before := writes.Count()
		for _, stage := range desired.Stages(index) {
			Expect(api.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: index.Namespace, Name: part(index, stage)}},
				client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		}
		Consistently(func() int64 { return writes.Count() }, "2500ms").Should(Equal(before))
	})

	It("builds nothing for a version that differs in retrieval alone", func(ctx context.Context) {
		w := newWorld(ctx, handbook(4))
		first, second := w.index(100, v1alpha1.ContextNone), w.index(50, v1alpha1.ContextNone)
		Expect(api.Create(ctx, first)).To(Succeed())
		Eventually(condition(ctx, first, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(condition(ctx, first, v1alpha1.ConditionContextualized)()).To(is("True", v1alpha1.ReasonSkipped))
		Expect(jobs.runs()).NotTo(HaveKey(part(first, desired.ContextualizePart)))
		Expect(api.Create(ctx, second)).To(Succeed())
		Eventually(condition(ctx, second, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(get(ctx, second).Status.Artifact.Digest).To(Equal(get(ctx, first).Status.Artifact.Digest))
		reranking := w.version(v1alpha1.RetrievalSpec{Candidates: 100, TopK: 10, Rerank: v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}}, v1alpha1.ContextNone)
		Expect(reranking.Name).NotTo(BeElementOf(first.Name, second.Name))
		Expect(api.Create(ctx, reranking)).To(Succeed())
		Eventually(condition(ctx, reranking, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(get(ctx, reranking).Status.Artifact.Digest).To(Equal(get(ctx, first).Status.Artifact.Digest))
		for _, stage := range desired.Stages(second) {
			Expect(jobs.runs()).NotTo(Or(HaveKey(part(second, stage)), HaveKey(part(reranking, stage))))
		}
	})

	It("keeps the segments of its parent, and says how many there are", func(ctx context.Context) {
		w := newWorld(ctx, handbook(8))
		first := w.index(100, v1alpha1.ContextHeading)
		Expect(api.Create(ctx, first)).To(Succeed())
		Eventually(condition(ctx, first, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(get(ctx, first).Status.Artifact.Segments).To(Equal(int32(1)))

		_, err := buckets.SourceOf(w.corpus).Put(ctx, "03.md", []byte("# Leave 3\n\nThere is none.\n"), artifact.Condition{})
		Expect(err).NotTo(HaveOccurred())
		w.sync(ctx)
		second := w.index(100, v1alpha1.ContextHeading)
		second.Spec.Parent = first.Name
		Expect(api.Create(ctx, second)).To(Succeed())
		Eventually(condition(ctx, second, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		live := get(ctx, second)
		Expect(live.Status.Artifact.Segments).To(Equal(int32(2)))
		Expect(live.Status.Counts.Documents).To(Equal(int64(8)))

		// A recipe of its own has nothing of the parent.
		other := w.index(100, v1alpha1.ContextNone)
		other.Spec.Parent = second.Name
		Expect(api.Create(ctx, other)).To(Succeed())
		Eventually(condition(ctx, other, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(get(ctx, other).Status.Artifact.Segments).To(Equal(int32(1)))
	})

	It("does not adopt an artifact of another release", func(ctx context.Context) {
		w := newWorld(ctx, handbook(4))
		index := w.index(100, v1alpha1.ContextHeading)
		key := "indexes/" + strings.TrimPrefix(desired.ContentDigest(index), "sha256:") + "/manifest.json"
		_, err := buckets.ArtifactsOf(w.corpus).Put(ctx, key, []byte(`{"formatVersion":"0"}`), artifact.Condition{})
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(get(ctx, index).Status.Counts.Documents).To(Equal(int64(4)))
	})

	It("takes Ready away when the tombstones of a kept segment are gone", func(ctx context.Context) {
		w := newWorld(ctx, handbook(8))
		first := w.index(100, v1alpha1.ContextHeading)
		Expect(api.Create(ctx, first)).To(Succeed())
		Eventually(condition(ctx, first, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(buckets.SourceOf(w.corpus).Delete(ctx, "03.md")).To(Succeed())
		w.sync(ctx)
		second := w.index(100, v1alpha1.ContextHeading)
		second.Spec.Parent = first.Name
		Expect(api.Create(ctx, second)).To(Succeed())
		Eventually(condition(ctx, second, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		bucket := buckets.ArtifactsOf(w.corpus)
		Expect(bucket.List(ctx, "segments/", func(i artifact.Info) error {
			if strings.Contains(i.Key, "tombstones") {
				return bucket.Delete(ctx, i.Key)
			}
			return nil
		})).To(Succeed())
		Eventually(condition(ctx, second, v1alpha1.ConditionReady)).Should(is("False", v1alpha1.ReasonArtifactsUnavailable))
		Expect(condition(ctx, first, v1alpha1.ConditionReady)().Status).To(Equal(metav1.ConditionTrue))
	})

	It("counts a document that cannot be read, and goes on without it", func(ctx context.Context) {
		documents := handbook(3)
		documents["poison.md"] = ""
		w := newWorld(ctx, documents)
		index := w.index(100, v1alpha1.ContextHeading)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		live := get(ctx, index)
		Expect(live.Status.Counts.FailedDocuments).To(Equal(int64(1)))
		Expect(live.Status.Failures).To(HaveLen(1))
		Expect(live.Status.Failures[0].Document).To(Equal("poison.md"))
	})

	It("is never Ready without a chunk", func(ctx context.Context) {
		w := newWorld(ctx, map[string]string{"empty.md": ""})
		index := w.index(100, v1alpha1.ContextHeading)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("True", v1alpha1.ReasonNoChunks))
		Expect(condition(ctx, index, v1alpha1.ConditionReady)()).To(is("False", v1alpha1.ReasonNoChunks))
		Expect(jobs.runs()).NotTo(HaveKey(part(index, desired.EmbedPart)))
	})

	It("stalls with the cause when a Job fails, and goes on when the Job is deleted", func(ctx context.Context) {
		w := newWorld(ctx, handbook(3))
		index := w.index(100, v1alpha1.ContextHeading)
		artifacts := buckets.ArtifactsOf(w.corpus)
		var full atomic.Bool
		full.Store(true)
		artifacts.Fail = func(op, key string) error {
			if full.Load() && op == "put" && strings.HasPrefix(key, "cache/embed/") {
				return fmt.Errorf("the disk is full")
			}
			return nil
		}
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("True", v1alpha1.ReasonBuildFailed))
		Expect(condition(ctx, index, v1alpha1.ConditionStalled)().Message).To(ContainSubstring("the disk is full"))
		Expect(condition(ctx, index, v1alpha1.ConditionChunked)().Status).To(Equal(metav1.ConditionTrue))
		Expect(condition(ctx, index, v1alpha1.ConditionEmbedded)()).To(is("False", v1alpha1.ReasonBuildFailed))
		full.Store(false)
		Expect(api.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: index.Namespace, Name: part(index, desired.EmbedPart)}},
			client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(condition(ctx, index, v1alpha1.ConditionStalled)().Status).To(Equal(metav1.ConditionFalse))
		Expect(jobs.runs()[part(index, desired.ChunkPart)]).To(Equal(1))
	})

	It("names an image that cannot be pulled", func(ctx context.Context) {
		w := newWorld(ctx, handbook(1))
		index := w.index(100, v1alpha1.ContextHeading)
		jobs.setHold(part(index, desired.ChunkPart), true)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReconciling)).Should(is("True", v1alpha1.ReasonBuilding))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: index.Namespace, Name: "stuck", Labels: desired.ComponentLabels(index, desired.ChunkPart)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "chunk", Image: "nowhere/none:0"}}},
		}
		Expect(api.Create(ctx, pod)).To(Succeed())
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "chunk", Image: "nowhere/none:0", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"},
		}}}
		Expect(api.Status().Update(ctx, pod)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("True", v1alpha1.ReasonImagePull))
		Expect(condition(ctx, index, v1alpha1.ConditionStalled)().Message).To(ContainSubstring("nowhere/none:0"))
		Expect(api.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		jobs.setHold(part(index, desired.ChunkPart), false)
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
	})

	It("goes on by itself when a pipeline appears that was not there", func(ctx context.Context) {
		w := newWorld(ctx, handbook(1))
		index := w.index(100, v1alpha1.ContextHeading)
		index.Spec.PipelineRef.Name = "late"
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("True", v1alpha1.ReasonPipelineNotFound))
		late := w.pipeline.DeepCopy()
		late.ObjectMeta = metav1.ObjectMeta{Namespace: index.Namespace, Name: "late"}
		Expect(api.Create(ctx, late)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("False", v1alpha1.ReasonReady))
	})

	It("refuses a report that is not the one that the pod named", func(ctx context.Context) {
		w := newWorld(ctx, handbook(1))
		index := w.index(100, v1alpha1.ContextHeading)
		jobs.setHold(part(index, desired.ChunkPart), true)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReconciling)).Should(is("True", v1alpha1.ReasonBuilding))
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: index.Namespace, Name: "done", Labels: desired.ComponentLabels(index, desired.ChunkPart)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "chunk", Image: "quarry:test"}}},
		}
		Expect(api.Create(ctx, pod)).To(Succeed())
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "chunk", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Message: fmt.Sprintf(`{"report":%q,"digest":"sha256:other"}`, artifact.ReportKey(index.Name, "chunk", 0)),
		}}}}
		Expect(api.Status().Update(ctx, pod)).To(Succeed())
		jobs.setHold(part(index, desired.ChunkPart), false)
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("True", v1alpha1.ReasonReportInvalid))
	})

	It("keeps the number of shards that it was started with, and mends drift", func(ctx context.Context) {
		w := newWorld(ctx, handbook(5))
		index := w.index(100, v1alpha1.ContextHeading)
		jobs.setHold(part(index, desired.EmbedPart), true)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionContextualized)).Should(is("True", v1alpha1.ReasonCompleted))
		w.pipeline.Spec.Build.Shards = 5
		Expect(api.Update(ctx, w.pipeline)).To(Succeed())
		policy := &networkingv1.NetworkPolicy{}
		key := client.ObjectKey{Namespace: index.Namespace, Name: part(index, desired.JobsPart)}
		Expect(api.Get(ctx, key, policy)).To(Succeed())
		policy.Spec.Egress = nil
		Expect(api.Update(ctx, policy)).To(Succeed())
		Eventually(func() int {
			Expect(api.Get(ctx, key, policy)).To(Succeed())
			return len(policy.Spec.Egress)
		}).Should(Equal(2))
		jobs.setHold(part(index, desired.EmbedPart), false)
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		Expect(get(ctx, index).Status.Counts.Documents).To(Equal(int64(5)))
	})

	It("takes Ready away when a file of the artifact is gone, and never writes serving", func(ctx context.Context) {
		w := newWorld(ctx, handbook(2))
		index := w.index(100, v1alpha1.ContextHeading)
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("True", v1alpha1.ReasonReady))
		live := get(ctx, index)
		live.Status.Serving = v1alpha1.ServingPreview
		Expect(api.Status().Update(ctx, live)).To(Succeed())
		artifacts := buckets.ArtifactsOf(w.corpus)
		for _, key := range artifacts.Keys() {
			if strings.HasPrefix(key, "segments/") {
				Expect(artifacts.Delete(ctx, key)).To(Succeed())
				break
			}
		}
		Eventually(condition(ctx, index, v1alpha1.ConditionReady)).Should(is("False", v1alpha1.ReasonArtifactsUnavailable))
		Expect(get(ctx, index).Status.Serving).To(Equal(v1alpha1.ServingPreview))
	})

	It("does not touch a ConfigMap of its name that is somebody else's", func(ctx context.Context) {
		w := newWorld(ctx, handbook(1))
		index := w.index(100, v1alpha1.ContextHeading)
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: index.Namespace, Name: part(index, desired.ConfigPart)}, Data: map[string]string{"a": "b"}}
		Expect(api.Create(ctx, foreign)).To(Succeed())
		Expect(api.Create(ctx, index)).To(Succeed())
		Eventually(condition(ctx, index, v1alpha1.ConditionStalled)).Should(is("True", v1alpha1.ReasonNameConflict))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.Data).To(Equal(map[string]string{"a": "b"}))
		Expect(foreign.OwnerReferences).To(BeEmpty())
	})
})
