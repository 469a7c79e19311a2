// Package api_test asks a real API server whether Quarry's schemas and rules
// accept what is right and refuse what is wrong in words that help.
package api_test

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/controllers/testenv"
)

var (
	config *rest.Config
	api    client.Client
)

func TestAPI(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal(testenv.ErrNoAssets)
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "api")
}

var _ = BeforeSuite(func() {
	started, stop, err := testenv.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	config = started
	scheme, err := testenv.Scheme()
	Expect(err).NotTo(HaveOccurred())
	api, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})
