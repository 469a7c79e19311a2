//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

func happyPath(ctx SpecContext) {
	awaitSettled(ctx)
	for _, tenant := range tenants {
		// The node learns of a new Service a moment after the Service itself says who serves.
		at(ctx, tenant).impatient().expectVisible(ctx, ann(tenant), topics[0], 20*time.Second)
		expectPromotedByVerdict(ctx, tenant)
		expectSelector(ctx, tenant)
		expectAnswers(ctx, tenant)
	}
	expectStrangersRefused(ctx)
}

// expectPromotedByVerdict: what serves has an EvalRun that passed.
func expectPromotedByVerdict(ctx context.Context, tenant string) {
	GinkgoHelper()
	By("tenant " + tenant + ": a passed EvalRun stands behind the promotion")
	active, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	runs := &v1alpha1.EvalRunList{}
	Expect(world.kube.List(ctx, runs, client.InNamespace(namespace))).To(Succeed())
	for _, run := range runs.Items {
		if run.Spec.IndexRef.Name != active || run.Status.Verdict != v1alpha1.VerdictPassed {
			continue
		}
		Expect(run.Status.Results).NotTo(BeEmpty(), "EvalRun %s passed without a result", run.Name)
		Expect(run.Status.Results[0].Questions).To(BeEquivalentTo(len(topics)), "EvalRun %s", run.Name)
		Expect(run.Status.Leaks).NotTo(BeNil(), "EvalRun %s looked for no leak", run.Name)
		Expect(run.Status.Leaks.Probes).To(BeNumerically(">", 0), "EvalRun %s", run.Name)
		Expect(run.Status.Leaks.Hits).To(BeZero(), "EvalRun %s", run.Name)
		return
	}
	Fail(fmt.Sprintf("no EvalRun of Index %s has the verdict Passed\n%s", active, statuses()))
}

// expectSelector: the Service sends users to the gateways of the active Index, and to nothing else.
func expectSelector(ctx context.Context, tenant string) {
	GinkgoHelper()
	By("tenant " + tenant + ": the Service selects the gateways of the active Index")
	service, err := tenantService(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	active := service.Annotations[desired.AnnotationActiveIndex]
	Expect(service.Spec.Selector).To(HaveKeyWithValue(desired.LabelIndex, desired.LabelValue(active)))
	Expect(service.Spec.Selector).To(HaveKeyWithValue(desired.LabelComponent, string(desired.GatewayPart)))
	pods := &corev1.PodList{}
	Expect(world.kube.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(service.Spec.Selector))).To(Succeed())
	Expect(pods.Items).NotTo(BeEmpty(), "no pod matches the selector %v", service.Spec.Selector)
	index, err := getIndex(ctx, active)
	Expect(err).NotTo(HaveOccurred())
	Expect(index.Status.Serving).To(Equal(v1alpha1.ServingActive), "Index %s", active)
}

// expectAnswers: every question finds its document, for those who may read it.
func expectAnswers(ctx context.Context, tenant string) {
	GinkgoHelper()
	By("tenant " + tenant + ": each question finds its document, for those who may read it")
	service := at(ctx, tenant)
	for _, t := range topics {
		got := service.mustAsk(ctx, ann(tenant), t.question, 3)
		Expect(got.Tenant).To(Equal(tenant))
		Expect(got.documents()).To(ContainElement(t.key), "%q", t.question)
		Expect(got.first().Text).NotTo(BeEmpty())
		hidden := service.mustAsk(ctx, bob(tenant), t.question, 100)
		if !t.restricted() {
			Expect(hidden.documents()).To(ContainElement(t.key), "%q, asked by bob", t.question)
		}
		for _, h := range hidden.Hits {
			Expect(h.Document).NotTo(HavePrefix("hr/"), "bob is not in hr; %q", t.question)
			Expect(h.Document).NotTo(BeElementOf(strike.key, merger.key), "bob is not in staff; %q", t.question)
		}
	}
}

// expectStrangersRefused: a token that proves nothing here gets 401 and no word more.
func expectStrangersRefused(ctx context.Context) {
	GinkgoHelper()
	By("tokens of another tenant, of no tenant, expired, forged and absent ones get 401")
	forger, err := newIssuer()
	Expect(err).NotTo(HaveOccurred())
	for name, token := range map[string]string{
		"another tenant":  ann("b").token(),
		"no tenant":       ann("").token(),
		"unknown tenant":  ann("c").token(),
		"expired":         world.issuer.sign(ann("a"), -time.Minute),
		"forged":          forger.sign(ann("a"), time.Hour),
		"absent":          "",
		"not a token":     "e30.e30.e30",
		"without its end": ann("a").token()[:80],
	} {
		got, err := at(ctx, "a").ask(ctx, token, topics[0].question, 3)
		Expect(err).NotTo(HaveOccurred(), name)
		Expect(got.Status).To(Equal(http.StatusUnauthorized), "%s: %s", name, got)
		Expect(got.Hits).To(BeEmpty(), name)
	}
}

func blockedRollout(ctx SpecContext) {
	awaitSettled(ctx)
	before, err := activeIndex(ctx, pipeline, "a")
	Expect(err).NotTo(HaveOccurred())
	watching := startWatch(ctx, at(ctx, "a"), bob("a"), topics[0].question, 250*time.Millisecond, func(got answer) error {
		if got.Index != before || !got.holds(topics[0].key) {
			return errors.New(got.String())
		}
		return nil
	})
	By("cutting the documents into pieces of 16 tokens")
	setRecipe := func(ctx context.Context, strategy v1alpha1.ChunkStrategy, size int32) {
		changePipeline(ctx, pipeline, func(spec *v1alpha1.RetrievalPipelineSpec) {
			spec.Indexing.Chunking.Strategy, spec.Indexing.Chunking.Size = strategy, size
		})
	}
	DeferCleanup(func(ctx SpecContext) {
		setRecipe(ctx, v1alpha1.ChunkStructure, goodSize)
		awaitSettled(ctx)
	}, NodeTimeout(4*time.Minute))
	setRecipe(ctx, v1alpha1.ChunkFixed, badSize)

	for _, tenant := range tenants {
		await(ctx, rolloutLimit, "the bad version of tenant "+tenant+" has the verdict Failed", func() error { return refused(ctx, tenant) })
	}
	By("the old version answers as before, and stays")
	pause(ctx, 3*time.Second)
	watching.finish("searching while a bad version is judged")
	Expect(activeIndex(ctx, pipeline, "a")).To(Equal(before))
	By("with the good recipe back, nothing is left to do")
	setRecipe(ctx, v1alpha1.ChunkStructure, goodSize)
	awaitSettled(ctx)
	Expect(activeIndex(ctx, pipeline, "a")).To(Equal(before))
}

// refused tells whether a version of the bad recipe was judged, and that its verdict is Failed for its recall, not for a leak.
func refused(ctx context.Context, tenant string) error {
	status, err := tenantStatus(ctx, pipeline, tenant)
	if err != nil {
		return err
	}
	if status.LastVerdict == nil || status.Active == nil {
		return errors.New(describe(status))
	}
	index, err := getIndex(ctx, status.LastVerdict.Index)
	if err != nil {
		return err
	}
	if index.Spec.Indexing.Chunking.Size != badSize {
		return errors.New(describe(status))
	}
	if status.LastVerdict.Verdict != v1alpha1.VerdictFailed || status.LastVerdict.Message == "" {
		return errors.New(describe(status))
	}
	runs := &v1alpha1.EvalRunList{}
	if err := world.kube.List(ctx, runs, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, run := range runs.Items {
		if run.Spec.IndexRef.Name == index.Name && run.Status.Leaks != nil && run.Status.Leaks.Hits > 0 {
			return fmt.Errorf("EvalRun %s saw %d leaks", run.Name, run.Status.Leaks.Hits)
		}
	}
	return nil
}

func changedDocument(ctx SpecContext) {
	awaitSettled(ctx)
	const tenant = "a"
	changed := topics[4]
	before, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	service := at(ctx, tenant)
	keepAlive := startWatch(ctx, service, bob(tenant), changed.question, 50*time.Millisecond, oneEditionAtATime(before, changed.key))
	anew := startWatch(ctx, service.freshConnections(), bob(tenant), changed.question, 50*time.Millisecond, oneEditionAtATime(before, changed.key))

	begun := time.Now()
	putDocument(ctx, tenant, changed.key, changed.text(tenant, "second"))
	now := awaitPromotion(ctx, tenant, before)
	GinkgoWriter.Printf("  from the changed object to the promoted version: %.1f s\n", time.Since(begun).Seconds())
	pause(ctx, 8*time.Second) // connections live for at most 3 s, pods are drained meanwhile
	keepAlive.finish("searching over a kept connection during the promotion")
	anew.finish("searching over new connections during the promotion")
	awaitSettled(ctx)

	By("only the changed document's work was done")
	mine := chunksOf(ctx, service, tenant, changed.key)
	index, err := getIndex(ctx, now)
	Expect(err).NotTo(HaveOccurred())
	counts := index.Status.Counts
	Expect(counts).NotTo(BeNil())
	Expect(counts.FailedDocuments).To(BeZero())
	Expect(counts.Documents).To(BeEquivalentTo(len(topics) + len(notices)))
	Expect(counts.Chunks-counts.ReusedChunks).To(BeEquivalentTo(mine), "chunks that were made; %+v", *counts)
	Expect(counts.Chunks-counts.ReusedVectors).To(And(BeNumerically(">", 0), BeNumerically("<=", mine)), "vectors that were made; %+v", *counts)
}

// oneEditionAtATime judges answers during a promotion: the old version gives the first edition, any other the second, and who
// has seen the new version never sees the old one again.
func oneEditionAtATime(old, document string) func(answer) error {
	moved := false
	return func(got answer) error {
		edition, unwanted := "the first edition", "the second edition"
		if got.Index != old {
			moved, edition, unwanted = true, unwanted, edition
		} else if moved {
			return fmt.Errorf("back at the old version: %s", got)
		}
		seen := false
		for _, h := range got.Hits {
			if h.Document == document {
				seen = seen || strings.Contains(h.Text, edition)
				if strings.Contains(h.Text, unwanted) {
					return fmt.Errorf("index %s answers with %s", got.Index, unwanted)
				}
			}
		}
		if !seen {
			return fmt.Errorf("no hit holds %s of %s: %s", edition, document, got)
		}
		return nil
	}
}

// chunksOf counts the passages of a document: ann sees all documents, and asks for more passages than there are.
func chunksOf(ctx context.Context, s searcher, tenant, document string) int {
	GinkgoHelper()
	got := s.mustAsk(ctx, ann(tenant), "handbook rule edition", 100)
	Expect(len(got.Hits)).To(BeNumerically("<", 100), "there are more passages than one answer holds: use a smaller corpus")
	seen := map[int]bool{}
	for _, h := range got.Hits {
		if h.Document == document {
			seen[h.Chunk] = true
		}
	}
	Expect(seen).NotTo(BeEmpty(), "no passage of %s: %s", document, got)
	return len(seen)
}
