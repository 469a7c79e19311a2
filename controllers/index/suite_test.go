package index_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.dev/quarry/controllers/index"
	"quarry.dev/quarry/controllers/testenv"
)

func TestIndex(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "index")
}

var (
	api     client.WithWatch
	buckets testenv.Buckets
	writes  testenv.Writes
	jobs    *runner
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
	Expect((&index.Reconciler{
		Client: manager.GetClient(), Buckets: &buckets, Recorder: manager.GetEventRecorder("quarry"),
		Now: time.Now, VerifyInterval: time.Second,
	}).SetupWithManager(manager)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	jobs = &runner{ran: map[string]int{}, hold: map[string]bool{}}
	go jobs.start(ctx)
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
})

// namespace makes one for a test, so that tests do not see each other.
func namespace(ctx context.Context) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "index-"}}
	Expect(api.Create(ctx, ns)).To(Succeed())
	return ns.Name
}
