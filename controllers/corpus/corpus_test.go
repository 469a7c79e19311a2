package corpus_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/corpus"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/source"
)

func put(ctx context.Context, bucket artifact.Bucket, key, text string) {
	_, err := bucket.Put(ctx, key, []byte(text), artifact.Condition{})
	Expect(err).NotTo(HaveOccurred())
}

func change(ctx context.Context, c *v1alpha1.Corpus, edit func(*v1alpha1.Corpus)) {
	Eventually(func() error {
		live := get(ctx, c)
		edit(live)
		return api.Update(ctx, live)
	}).Should(Succeed())
}

func snapshotOf(ctx context.Context, c *v1alpha1.Corpus) func() int64 {
	return func() int64 {
		if s := get(ctx, c).Status.Snapshot; s != nil {
			return s.Documents
		}
		return -1
	}
}

func index(c *v1alpha1.Corpus, name, snapshot string) *v1alpha1.Index {
	return &v1alpha1.Index{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Spec: v1alpha1.IndexSpec{
		PipelineRef: v1alpha1.LocalRef{Name: "support"}, Tenant: "acme", CorpusRef: v1alpha1.LocalRef{Name: c.Name},
		Snapshot: v1alpha1.SnapshotRef{Digest: snapshot}, Image: "quarry:test", VersionDigest: snapshot,
	}}
}

func is(status metav1.ConditionStatus, reason string) OmegaMatcher {
	return MatchFields(IgnoreExtras, Fields{"Status": Equal(status), "Reason": Equal(reason)})
}

var _ = Describe("a Corpus", func() {
	It("lists its source, follows changes, and writes nothing while there are none", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		put(ctx, buckets.SourceOf(c), "a.md", "one")
		put(ctx, buckets.SourceOf(c), "hr/pay.md", "two")
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(2)))
		live := get(ctx, c)
		Expect(live.Status.ObservedGeneration).To(Equal(live.Generation))
		for kind, want := range map[string]metav1.ConditionStatus{"Ready": "True", "ContentFresh": "True", "AccessFresh": "True", "Reconciling": "False", "Stalled": "False"} {
			got := condition(ctx, c, kind)
			Expect(got.Status).To(Equal(want), kind)
			Expect(got.ObservedGeneration).To(Equal(live.Generation), kind)
		}
		Expect(live.Finalizers).To(BeEmpty(), "a finalizer without anything to clean up")

		before, version := writes.Count(), live.ResourceVersion
		listings := buckets.SourceOf(c).Ops("list")
		Eventually(func() int { return buckets.SourceOf(c).Ops("list") }).Should(BeNumerically(">", listings+2))
		Expect(writes.Count()).To(Equal(before), "listing an unchanged source writes to the API server")
		Expect(get(ctx, c).ResourceVersion).To(Equal(version))

		put(ctx, buckets.SourceOf(c), "b.md", "three")
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(3)))
		Expect(get(ctx, c).Status.LastSync.Added).To(Equal(int64(1)))
	})

	It("keeps what it knows while the source does not answer, says why, and recovers by itself", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		put(ctx, buckets.SourceOf(c), "a.md", "one")
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(1)))
		buckets.FailSource(c, errors.New("connection refused"))
		Eventually(func() metav1.Condition { return condition(ctx, c, "ContentFresh") }).Should(is("False", v1alpha1.ReasonListingFailed))
		Expect(condition(ctx, c, "AccessFresh").Status).To(Equal(metav1.ConditionFalse))
		Expect(condition(ctx, c, "Stalled").Status).To(Equal(metav1.ConditionFalse))
		Expect(snapshotOf(ctx, c)()).To(Equal(int64(1)))

		buckets.FailSource(c, &objectstore.RefError{Field: "spec.source.s3.credentialsRef", Kind: "Secret", Name: "read", Missing: true})
		Eventually(func() metav1.Condition { return condition(ctx, c, "Stalled") }).Should(is("True", v1alpha1.ReasonSecretNotFound))
		Expect(condition(ctx, c, "Ready").Message).To(ContainSubstring(`Secret "read" does not exist`))

		buckets.FailSource(c, nil)
		Eventually(func() metav1.Condition { return condition(ctx, c, "Ready") }).Should(is("True", v1alpha1.ReasonSynced))
	})

	It("withholds a mass deletion until exactly that listing is approved", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		for i := range 20 {
			put(ctx, buckets.SourceOf(c), fmt.Sprintf("%02d.md", i), "text")
		}
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(20)))
		for i := range 15 {
			Expect(buckets.SourceOf(c).Delete(ctx, fmt.Sprintf("%02d.md", i))).To(Succeed())
		}
		Eventually(func() metav1.Condition { return condition(ctx, c, "ContentFresh") }).Should(is("False", v1alpha1.ReasonDeletionsWithheld))
		// The deletions above are seen one listing after another: wait for the last one.
		Eventually(func() int64 { return get(ctx, c).Status.LastSync.WithheldDeletions + 20 - snapshotOf(ctx, c)() }).Should(Equal(int64(15)))
		before := snapshotOf(ctx, c)()
		Consistently(snapshotOf(ctx, c), "1500ms").Should(Equal(before))
		change(ctx, c, func(live *v1alpha1.Corpus) {
			live.Spec.Sync.ApproveDeletions = &v1alpha1.ApproveDeletions{
				Max: 15, ListingDigest: live.Status.LastSync.ListingDigest, Expires: metav1.NewTime(time.Now().Add(time.Hour)),
			}
		})
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(5)))
		Eventually(func() metav1.Condition { return condition(ctx, c, "ContentFresh") }).Should(is("True", v1alpha1.ReasonSynced))
		Expect(get(ctx, c).Status.OldestUnpurgedDeletion).NotTo(BeNil())
	})

	It("covers the snapshot of a new Index in the overlay without waiting for the interval", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		c.Spec.Sync.Interval.Duration = time.Hour
		put(ctx, buckets.SourceOf(c), "a.md", "one")
		put(ctx, buckets.SourceOf(c), "b.md", "two")
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(2)))
		built := index(c, "one", get(ctx, c).Status.Snapshot.Digest)
		Expect(buckets.SourceOf(c).Delete(ctx, "a.md")).To(Succeed())
		listings := buckets.SourceOf(c).Ops("list")
		Expect(api.Create(ctx, built)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(1)))
		Expect(buckets.SourceOf(c).Ops("list")).To(BeNumerically(">", listings))
		overlay, _, err := source.ReadOverlay(ctx, buckets.ArtifactsOf(c))
		Expect(err).NotTo(HaveOccurred())
		Expect(overlay.Entries).To(HaveKey("a.md"))
		Expect(overlay.Entries["a.md"].Gone).To(BeTrue())
		Expect(get(ctx, c).Status.Access.Epoch).To(Equal(overlay.Epoch))

		listings = buckets.SourceOf(c).Ops("list")
		Expect(api.Delete(ctx, built)).To(Succeed())
		Eventually(func() int { return buckets.SourceOf(c).Ops("list") }).Should(BeNumerically(">", listings))
	})

	It("lists nothing while it is suspended", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		c.Spec.Sync.Mode = v1alpha1.SyncSuspended
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(func() metav1.Condition { return condition(ctx, c, "ContentFresh") }).Should(is("False", v1alpha1.ReasonSuspended))
		Expect(buckets.SourceOf(c).Ops("list")).To(Equal(0))
		change(ctx, c, func(live *v1alpha1.Corpus) { live.Spec.Sync.Mode = v1alpha1.SyncActive })
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(0)))
	})

	It("does not touch a prefix that another Corpus owns", func(ctx context.Context) {
		first := docs(namespace(ctx), "acme")
		Expect(api.Create(ctx, first)).To(Succeed())
		Eventually(snapshotOf(ctx, first)).Should(Equal(int64(0)))
		second := docs(first.Namespace, "thief")
		second.Spec.Artifacts.S3.Prefix = first.Spec.Artifacts.S3.Prefix
		second.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		Expect(api.Create(ctx, second)).To(Succeed())
		Eventually(func() metav1.Condition { return condition(ctx, second, "Stalled") }).Should(is("True", v1alpha1.ReasonArtifactsOwned))
		Expect(condition(ctx, second, "Stalled").Message).To(ContainSubstring("acme"))

		keys := len(buckets.ArtifactsOf(first).Keys())
		Expect(api.Delete(ctx, second)).To(Succeed())
		Eventually(func() string { return get(ctx, second).Name }).Should(BeEmpty())
		Expect(buckets.ArtifactsOf(first).Keys()).To(HaveLen(keys), "a Corpus deleted another's artifacts")
	})

	It("deletes its artifacts with itself where the policy says so", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		c.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		put(ctx, buckets.SourceOf(c), "a.md", "one")
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(1)))
		Expect(get(ctx, c).Finalizers).To(ContainElement(corpus.Finalizer))
		Expect(buckets.ArtifactsOf(c).Keys()).NotTo(BeEmpty())
		Expect(api.Delete(ctx, c)).To(Succeed())
		Eventually(func() string { return get(ctx, c).Name }).Should(BeEmpty())
		Expect(buckets.ArtifactsOf(c).Keys()).To(BeEmpty())
		Expect(buckets.SourceOf(c).Keys()).To(Equal([]string{"a.md"}), "the source is never written")
	})

	It("deletes nothing but its own artifacts, whatever else lies below the prefix", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		c.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(0)))
		others := []string{"eu/OWNER", "eu/overlay/CURRENT", "eu/snapshots/1.jsonl.zst", "handbook.md"}
		for _, key := range others {
			put(ctx, buckets.ArtifactsOf(c), key, "of another Corpus whose prefix goes on after this one, or of nobody here")
		}
		Expect(api.Delete(ctx, c)).To(Succeed())
		Eventually(func() string { return get(ctx, c).Name }).Should(BeEmpty())
		Expect(buckets.ArtifactsOf(c).Keys()).To(Equal(others))
	})

	It("lets go when the Secret is gone before it, as in a deleted namespace", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		c.Spec.DeletionPolicy = v1alpha1.DeletionDelete
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(0)))
		buckets.FailArtifacts(c, &objectstore.RefError{Field: "spec.artifacts.s3.credentialsRef", Kind: "Secret", Name: "write", Missing: true})
		Expect(api.Delete(ctx, c)).To(Succeed())
		Eventually(func() string { return get(ctx, c).Name }).Should(BeEmpty())
	})

	It("keeps its artifacts where the policy is Retain", func(ctx context.Context) {
		c := docs(namespace(ctx), "acme")
		Expect(api.Create(ctx, c)).To(Succeed())
		Eventually(snapshotOf(ctx, c)).Should(Equal(int64(0)))
		Expect(api.Delete(ctx, c)).To(Succeed())
		Eventually(func() string { return get(ctx, c).Name }).Should(BeEmpty())
		Expect(buckets.ArtifactsOf(c).Keys()).NotTo(BeEmpty())
	})
})
