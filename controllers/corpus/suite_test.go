package corpus_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/corpus"
	"quarry.dev/quarry/controllers/testenv"
)

func TestCorpus(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(15 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "corpus")
}

var (
	api     client.WithWatch
	buckets testenv.Buckets
	writes  testenv.Writes
)

var _ = BeforeSuite(func() {
	config, stop, err := testenv.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	scheme, err := testenv.Scheme()
	Expect(err).NotTo(HaveOccurred())
	api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	log.SetLogger(GinkgoLogr)
	manager, err := testenv.NewManager(config, &writes)
	Expect(err).NotTo(HaveOccurred())
	Expect((&corpus.Reconciler{
		Client: manager.GetClient(), APIReader: manager.GetAPIReader(), Buckets: &buckets,
		Recorder: manager.GetEventRecorder("quarry"), Now: time.Now,
	}).SetupWithManager(manager)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
})

// namespace makes one for a test, so that tests do not see each other.
func namespace(ctx context.Context) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "corpus-"}}
	Expect(api.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

// docs is a Corpus whose source is listed every second.
func docs(namespace, name string) *v1alpha1.Corpus {
	at := func(bucket string) v1alpha1.S3Location {
		return v1alpha1.S3Location{Endpoint: "http://s3.test:7070", Bucket: bucket, Prefix: name + "/"}
	}
	return &v1alpha1.Corpus{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.CorpusSpec{
			Source: v1alpha1.SourceSpec{Type: v1alpha1.SourceS3, S3: &v1alpha1.S3Source{
				S3Location: at("documents"), CredentialsRef: v1alpha1.SecretRef{Name: "read"},
			}},
			Sync: v1alpha1.SyncSpec{Interval: metav1.Duration{Duration: time.Second}, DeletionGuard: v1alpha1.DeletionGuard{MaxPercent: 20, MaxDocuments: 1000}},
			Access: v1alpha1.AccessSpec{Rules: []v1alpha1.AccessRule{
				{Prefix: "hr/", Allow: []v1alpha1.Principal{{Type: v1alpha1.PrincipalGroup, Name: "hr"}}},
			}},
			Artifacts: v1alpha1.ArtifactsSpec{S3: v1alpha1.ArtifactsS3{
				S3Location: at("quarry"), WriteCredentialsRef: v1alpha1.SecretRef{Name: "write"}, ReadCredentialsRef: v1alpha1.SecretRef{Name: "read"},
			}},
		},
	}
}

// condition returns one of the live Corpus, empty where there is none.
func condition(ctx context.Context, c *v1alpha1.Corpus, kind string) metav1.Condition {
	live := get(ctx, c)
	if found := meta.FindStatusCondition(live.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func get(ctx context.Context, c *v1alpha1.Corpus) *v1alpha1.Corpus {
	live := &v1alpha1.Corpus{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(c), live); err != nil {
		return &v1alpha1.Corpus{}
	}
	return live
}
