//go:build e2e

// Package e2e proves Quarry with real pods: the operator from its chart, two tenants, an S3 server that can be taken down,
// and a pod that tries every door. It runs on the development cluster (make e2e), in a namespace of its own.
package e2e

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	namespace = "e2e"
	operators = "quarry-system"
	pipeline  = "docs"
)

// tenants are the two tenants of the pipeline. Each Corpus has its tenant's name.
var tenants = []string{"a", "b"}

// world is what all specs share.
var world *environment

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	// A suite of many minutes that says nothing looks dead.
	reporter.Verbose = true
	RunSpecs(t, "e2e", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	world, err = connect()
	Expect(err).NotTo(HaveOccurred(), "the development cluster; `make e2e` starts it and sets KUBECONFIG, IMAGE and STATE")
	ready := false
	defer func() {
		if !ready {
			dump(ctx)
		}
	}()
	By("removing what an earlier run has left")
	removeNamespaces(ctx)
	By("installing the operator from its chart")
	Expect(installOperator(ctx)).To(Succeed())
	By("preparing namespace, keys, buckets and documents")
	prepareNamespace(ctx)
	prepareBuckets(ctx)
	ready = true
}, NodeTimeout(6*time.Minute))

// A suite that passed leaves nothing but the operator; after a failure everything stays, to be looked at.
var _ = ReportAfterSuite("removes its namespaces", func(ctx SpecContext, report Report) {
	if report.SuiteSucceeded && world != nil {
		removeNamespaces(ctx)
	}
})

var _ = Describe("Quarry", Ordered, ContinueOnFailure, func() {
	BeforeAll(applyTenants)
	AfterEach(func(ctx context.Context) {
		if CurrentSpecReport().Failed() {
			dump(ctx)
		}
	})

	It("promotes the first version of both tenants and answers each caller what they may read", happyPath, NodeTimeout(6*time.Minute))
	It("blocks a bad recipe while the old version serves on", blockedRollout, NodeTimeout(5*time.Minute))
	It("does only a changed document's work, and moves users without an error or a mixed answer", changedDocument, NodeTimeout(5*time.Minute))
	It("lets deleted and revoked documents vanish, also while a candidate is being built and after a rollback", takenAway, NodeTimeout(8*time.Minute))
	It("puts documents that cannot be read in quarantine", poisonDocuments, NodeTimeout(5*time.Minute))
	It("does nothing twice when the operator restarts in the middle of a build", operatorRestart, NodeTimeout(5*time.Minute))
	It("deletes nothing and serves on while object storage is down", storageOutage, NodeTimeout(6*time.Minute))
	It("keeps a tenant's pods from another tenant", isolation, NodeTimeout(5*time.Minute))
	It("reranks in a pod of its own that nobody else reaches and that reaches nobody, and promotes no version whose reranker fails", reranking, NodeTimeout(6*time.Minute))
	It("refuses the second of two pipelines whose names join to the same Service", nameConflict, NodeTimeout(5*time.Minute))
})
