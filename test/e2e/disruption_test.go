//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
)

// jobsOf maps the Index's Jobs to their UIDs.
func jobsOf(ctx context.Context, index string) (map[string]string, error) {
	list := &batchv1.JobList{}
	err := world.kube.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{desired.LabelIndex: desired.LabelValue(index)})
	out := map[string]string{}
	for _, job := range list.Items {
		if job.Labels[desired.LabelComponent] != string(desired.EvalPart) {
			out[job.Name] = string(job.UID)
		}
	}
	return out, err
}

func operatorRestart(ctx SpecContext) {
	awaitSettled(ctx)
	const tenant = "a"
	before, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	putDocument(ctx, tenant, topics[2].key, topics[2].text(tenant, "restarted"))
	candidate := awaitBuilding(ctx, tenant)
	ledger := &jobLedger{index: candidate, uids: map[string]map[string]bool{}}
	Expect(ledger.look(ctx)).To(Succeed())
	built, err := getIndex(ctx, candidate)
	Expect(err).NotTo(HaveOccurred())

	By("deleting the operator's pod while " + fmt.Sprint(slices.Sorted(maps.Keys(ledger.uids))) + " exist")
	Expect(restartOperator(ctx)).To(Succeed())
	await(ctx, rolloutLimit, "the version of before the restart is promoted", func() error {
		if err := ledger.look(ctx); err != nil {
			return err
		}
		now, err := activeIndex(ctx, pipeline, tenant)
		if err == nil && now != candidate {
			err = fmt.Errorf("%s serves; %s", now, candidateNow(ctx, tenant))
		}
		return err
	})
	awaitSettled(ctx)
	Expect(before).NotTo(Equal(candidate))

	By("nothing was made twice")
	Expect(ledger.look(ctx)).To(Succeed())
	Expect(len(ledger.uids)).To(BeNumerically("<=", 4), "Jobs of %s: %v", candidate, ledger.uids)
	for job, uids := range ledger.uids {
		Expect(uids).To(HaveLen(1), "Job %s was made anew", job)
	}
	again, err := getIndex(ctx, candidate)
	Expect(err).NotTo(HaveOccurred())
	Expect(again.UID).To(Equal(built.UID), "the Index was made anew")
	expectOneIndexPerVersion(ctx)
}

// jobLedger notes every Job of an Index that was ever seen.
type jobLedger struct {
	index string
	uids  map[string]map[string]bool
}

func (l *jobLedger) look(ctx context.Context) error {
	jobs, err := jobsOf(ctx, l.index)
	for name, uid := range jobs {
		if l.uids[name] == nil {
			l.uids[name] = map[string]bool{}
		}
		l.uids[name][uid] = true
	}
	return err
}

func expectOneIndexPerVersion(ctx context.Context) {
	GinkgoHelper()
	for _, tenant := range tenants {
		indexes, err := indexesOf(ctx, pipeline, tenant)
		Expect(err).NotTo(HaveOccurred())
		byVersion := map[string]string{}
		for _, index := range indexes {
			Expect(byVersion).NotTo(HaveKey(index.Spec.VersionDigest), "Index %s is the same version as %s", index.Name, byVersion[index.Spec.VersionDigest])
			byVersion[index.Spec.VersionDigest] = index.Name
		}
	}
}

func storageOutage(ctx SpecContext) {
	awaitSettled(ctx)
	before := worldState(ctx)
	service := at(ctx, "a")
	DeferCleanup(func(ctx SpecContext) { storage(ctx, "up") }, NodeTimeout(time.Minute))
	By("taking the S3 server down")
	storage(ctx, "down")
	began := time.Now()
	for _, tenant := range tenants {
		await(ctx, 40*time.Second, "Corpus "+tenant+" says that storage does not answer", func() error { return outageNoticed(ctx, tenant) })
	}

	By("search answers as long as access data is fresh enough")
	for time.Since(began) < maxStaleness-syncInterval-10*time.Second {
		for _, t := range topics {
			got := service.mustAsk(ctx, ann("a"), t.question, 3)
			Expect(got.documents()).To(ContainElement(t.key), "%q", t.question)
		}
		pause(ctx, time.Second)
	}
	By("older access data gets no answer rather than a wrong one")
	await(ctx, maxStaleness, "searches are refused with 503 AccessStale", func() error {
		got, err := service.ask(ctx, ann("a").token(), topics[0].question, 3)
		if err == nil && (got.Status != http.StatusServiceUnavailable || got.Title != "AccessStale" || len(got.Hits) > 0) {
			err = errors.New(got.String())
		}
		return err
	})
	By("nothing was deleted, and nothing new was made of the silence")
	Expect(worldState(ctx)).To(Equal(before))

	By("bringing the S3 server back")
	storage(ctx, "up")
	service.expectVisible(ctx, ann("a"), topics[0], time.Minute)
	for _, tenant := range tenants {
		await(ctx, 90*time.Second, "Corpus "+tenant+" is fresh again", func() error {
			corpus, err := getCorpus(ctx, tenant)
			if err == nil && !meta.IsStatusConditionTrue(corpus.Status.Conditions, v1alpha1.ConditionContentFresh) {
				err = errors.New(condition(corpus.Status.Conditions, v1alpha1.ConditionContentFresh))
			}
			return err
		})
	}
	awaitSettled(ctx)
	Expect(worldState(ctx)).To(Equal(before))
}

func storage(ctx context.Context, command string) {
	GinkgoHelper()
	_, err := world.run(ctx, "hack/s3/s3", command)
	Expect(err).NotTo(HaveOccurred())
}

func outageNoticed(ctx context.Context, tenant string) error {
	corpus, err := getCorpus(ctx, tenant)
	if err != nil {
		return err
	}
	for _, kind := range []string{v1alpha1.ConditionContentFresh, v1alpha1.ConditionAccessFresh} {
		found := meta.FindStatusCondition(corpus.Status.Conditions, kind)
		if found == nil || found.Status != "False" || !slices.Contains([]string{v1alpha1.ReasonListingFailed, v1alpha1.ReasonArtifactsUnavailable}, found.Reason) {
			return errors.New(condition(corpus.Status.Conditions, kind))
		}
	}
	GinkgoWriter.Printf("  %s\n", condition(corpus.Status.Conditions, v1alpha1.ConditionContentFresh))
	return nil
}

// worldState is what an outage must not change: snapshots, access, Index objects, and who serves.
func worldState(ctx context.Context) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	for _, tenant := range tenants {
		corpus, err := getCorpus(ctx, tenant)
		Expect(err).NotTo(HaveOccurred())
		out["corpus "+tenant] = fmt.Sprintf("%+v %+v", *corpus.Status.Snapshot, *corpus.Status.Access)
		active, err := activeIndex(ctx, pipeline, tenant)
		Expect(err).NotTo(HaveOccurred())
		out["active "+tenant] = active
		indexes, err := indexesOf(ctx, pipeline, tenant)
		Expect(err).NotTo(HaveOccurred())
		for _, index := range indexes {
			out["index "+index.Name] = string(index.UID)
		}
	}
	return out
}
