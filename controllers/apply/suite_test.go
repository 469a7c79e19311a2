package apply_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/controllers/testenv"
)

func TestApply(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "apply")
}

var api client.WithWatch

var _ = BeforeSuite(func() {
	config, stop, err := testenv.StartBare()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	scheme, err := testenv.Scheme()
	Expect(err).NotTo(HaveOccurred())
	api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})
