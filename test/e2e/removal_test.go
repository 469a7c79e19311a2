//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"quarry.dev/quarry/api/v1alpha1"
)

func takenAway(ctx SpecContext) {
	awaitSettled(ctx)
	const tenant = "a"
	service := at(ctx, tenant)
	before, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	for _, t := range notices {
		service.expectVisible(ctx, ann(tenant), t, vanishLimit)
	}

	By("a candidate is being built from the listing that still holds everything")
	putDocument(ctx, tenant, topics[1].key, topics[1].text(tenant, "second"))
	building := awaitBuilding(ctx, tenant)
	DeferCleanup(func(ctx SpecContext) { restoreNotices(ctx, tenant) }, NodeTimeout(4*time.Minute))

	By("meanwhile a document is deleted, a rule revoked, and a sidecar emptied")
	deleteDocument(ctx, tenant, picnic.key)
	allowStrike(ctx, tenant, nil)
	putDocument(ctx, tenant, merger.key+sidecarSuffix, nobody)
	for _, t := range notices {
		expectVanishes(ctx, service, ann(tenant), t)
	}
	GinkgoWriter.Printf("  the candidate %s is now: %s\n", building, candidateNow(ctx, tenant))

	By("no promotion and no rollback brings anything back")
	var watches []*watch
	for _, t := range notices {
		watches = append(watches, startWatch(ctx, service, ann(tenant), t.question, 250*time.Millisecond, func(got answer) error {
			if got.holds(t.key) {
				return fmt.Errorf("%s is back: %s", t.key, got)
			}
			return nil
		}))
	}
	awaitPromotion(ctx, tenant, before)
	awaitSettled(ctx)
	rollBack(ctx, tenant, before)
	pause(ctx, 5*time.Second)
	By("forward again")
	setRollback(ctx, tenant, "")
	awaitSettled(ctx)
	for i, t := range notices {
		watches[i].finish("looking for " + t.key)
	}

	By("a permission that is given back shows the document again, without a new version")
	now, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	allowStrike(ctx, tenant, group("staff"))
	service.expectVisible(ctx, ann(tenant), strike, vanishLimit)
	Expect(activeIndex(ctx, pipeline, tenant)).To(Equal(now))
}

func allowStrike(ctx context.Context, tenant string, allow []v1alpha1.Principal) {
	GinkgoHelper()
	changeCorpus(ctx, tenant, func(spec *v1alpha1.CorpusSpec) {
		for i := range spec.Access.Rules {
			if spec.Access.Rules[i].Prefix == strike.key {
				spec.Access.Rules[i].Allow = allow
			}
		}
	})
}

func setRollback(ctx context.Context, tenant, index string) {
	GinkgoHelper()
	changePipeline(ctx, pipeline, func(spec *v1alpha1.RetrievalPipelineSpec) {
		for i := range spec.Tenants {
			if spec.Tenants[i].Name == tenant {
				spec.Tenants[i].RollbackTo = index
			}
		}
	})
}

// restoreNotices brings tenant and corpus back to where the spec found them, whatever has happened.
func restoreNotices(ctx context.Context, tenant string) {
	setRollback(ctx, tenant, "")
	allowStrike(ctx, tenant, group("staff"))
	putDocument(ctx, tenant, merger.key+sidecarSuffix, onlyStaff)
	corpus, err := getCorpus(ctx, tenant)
	Expect(err).NotTo(HaveOccurred())
	putDocument(ctx, tenant, picnic.key, picnic.text(tenant, "first"))
	if corpus.Status.Snapshot.Documents < int64(len(topics)+len(notices)) {
		awaitSnapshot(ctx, tenant, corpus.Status.Snapshot.Digest)
	}
	awaitSettled(ctx)
	By("what was restored is found again")
	for _, t := range notices {
		at(ctx, tenant).expectVisible(ctx, ann(tenant), t, vanishLimit)
	}
}

// expectVanishes: within the promised time the document is gone from answers, which stay answers all the time.
func expectVanishes(ctx context.Context, s searcher, who person, t topic) {
	GinkgoHelper()
	await(ctx, vanishLimit, fmt.Sprintf("%s has vanished for %s", t.key, who.user), func() error {
		got, err := s.ask(ctx, who.token(), t.question, 100)
		switch {
		case err != nil:
			return err
		case got.Status != http.StatusOK || len(got.Hits) == 0:
			Fail(fmt.Sprintf("a search was refused, or found nothing at all, while %s went away: %s", t.key, got))
		case got.holds(t.key):
			return errors.New("it is still found")
		}
		return nil
	})
}

func candidateNow(ctx context.Context, tenant string) string {
	status, err := tenantStatus(ctx, pipeline, tenant)
	if err != nil {
		return err.Error()
	}
	return describe(status)
}

// rollBack switches to an older version and waits until it answers.
func rollBack(ctx context.Context, tenant, index string) {
	GinkgoHelper()
	By("rolling back to " + index)
	setRollback(ctx, tenant, index)
	await(ctx, time.Minute, "the tenant is served by "+index, func() error {
		got, err := at(ctx, tenant).ask(ctx, bob(tenant).token(), topics[0].question, 3)
		if err == nil && got.Index != index {
			err = fmt.Errorf("%s; %s", got, candidateNow(ctx, tenant))
		}
		return err
	})
}

// The poison: bytes that are no text in spite of their name, and a PDF that asks for a password.
const (
	garbageKey = "public/garbage.md"
	lockedKey  = "public/locked.pdf"
	lockedPDF  = "%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\n" +
		"3 0 obj\n<< /Filter /Standard /V 4 /R 4 /Length 128 /P -3904 /O (oooooooooooooooooooooooooooooooo) /U (uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu) >>\nendobj\n" +
		"trailer\n<< /Root 1 0 R /Encrypt 3 0 R /Size 4 >>\n%%EOF\n"
)

func poisonDocuments(ctx SpecContext) {
	awaitSettled(ctx)
	const tenant = "b"
	before, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	garbage := make([]byte, 64<<10)
	noise := rand.NewChaCha8([32]byte{7})
	_, _ = noise.Read(garbage) // never fails
	DeferCleanup(func(ctx SpecContext) {
		for _, key := range []string{garbageKey, lockedKey} {
			deleteDocument(ctx, tenant, key)
		}
		await(ctx, time.Minute, "the corpus is without poison", func() error {
			corpus, err := getCorpus(ctx, tenant)
			if err == nil && corpus.Status.Snapshot.Documents != int64(len(topics)+len(notices)) {
				err = fmt.Errorf("%d documents", corpus.Status.Snapshot.Documents)
			}
			return err
		})
		awaitSettled(ctx)
	}, NodeTimeout(4*time.Minute))
	putDocument(ctx, tenant, garbageKey, string(garbage))
	putDocument(ctx, tenant, lockedKey, lockedPDF)

	// The two objects may fall into two listings, so that the first new version holds but one of them.
	await(ctx, rolloutLimit, "a version with both in quarantine serves", func() error { return quarantined(ctx, tenant) })
	Expect(activeIndex(ctx, pipeline, tenant)).NotTo(Equal(before))
	By("the others are searchable, the poison is not")
	service := at(ctx, tenant)
	for _, t := range topics {
		got := service.mustAsk(ctx, ann(tenant), t.question, 100)
		Expect(got.documents()).To(ContainElement(t.key), "%q", t.question)
		Expect(got.documents()).NotTo(ContainElement(BeElementOf(garbageKey, lockedKey)))
	}
}

func quarantined(ctx context.Context, tenant string) error {
	name, err := activeIndex(ctx, pipeline, tenant)
	if err != nil {
		return err
	}
	index, err := getIndex(ctx, name)
	if err != nil {
		return err
	}
	reasons := map[string]string{}
	for _, failure := range index.Status.Failures {
		reasons[failure.Document] = failure.Reason
		if failure.Message == "" {
			return fmt.Errorf("the failure of %s has no message", failure.Document)
		}
	}
	counts := index.Status.Counts
	if counts == nil || counts.FailedDocuments != 2 || reasons[garbageKey] == "" || reasons[lockedKey] == "" {
		return fmt.Errorf("active %s has failures %v and counts %v; %s", name, index.Status.Failures, counts, candidateNow(ctx, tenant))
	}
	GinkgoWriter.Printf("  quarantine: %v\n", reasons)
	return nil
}
