package corpus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/source"
)

const generation = 3

func testScope(last *outcome) *scope {
	c := &v1alpha1.Corpus{ObjectMeta: metav1.ObjectMeta{Name: "acme", Generation: generation}}
	return &scope{corpus: c, before: c.DeepCopy(), memory: &memory{last: last}, now: time.Unix(1_800_000_000, 0)}
}

func TestConditions(t *testing.T) {
	good := &outcome{generation: generation, sync: source.SyncOutput{Snapshot: "sha256:1", Documents: 2, Current: source.Current{Epoch: 4}}}
	failed := func(err error) *outcome { return &outcome{generation: generation, err: err} }
	missing := &objectstore.RefError{Kind: "Secret", Name: "a", Missing: true}
	for name, test := range map[string]struct {
		last *outcome
		want string
	}{
		"nothing yet":               {nil, "Ready=False/Progressing ContentFresh=False/Progressing AccessFresh=False/Progressing Reconciling=True/Progressing Stalled=False/Progressing"},
		"of another generation":     {&outcome{generation: 2, err: missing}, "Ready=False/Progressing ContentFresh=False/Progressing AccessFresh=False/Progressing Reconciling=True/Progressing Stalled=False/Progressing"},
		"listed":                    {good, "Ready=True/Synced ContentFresh=True/Synced AccessFresh=True/Synced Reconciling=False/Synced Stalled=False/Synced"},
		"unreachable":               {failed(errors.New("timeout")), "Ready=False/ListingFailed ContentFresh=False/ListingFailed AccessFresh=False/ListingFailed Reconciling=True/ListingFailed Stalled=False/ListingFailed"},
		"secret missing":            {failed(missing), "Ready=False/SecretNotFound ContentFresh=False/SecretNotFound AccessFresh=False/SecretNotFound Reconciling=False/SecretNotFound Stalled=True/SecretNotFound"},
		"artifacts' secret missing": {failed(&artifactsError{missing}), "Ready=False/SecretNotFound ContentFresh=False/SecretNotFound AccessFresh=False/SecretNotFound Reconciling=False/SecretNotFound Stalled=True/SecretNotFound"},
		"owned by another":          {failed(&artifact.OwnedError{}), "Ready=False/ArtifactsOwned ContentFresh=False/ArtifactsOwned AccessFresh=False/ArtifactsOwned Reconciling=False/ArtifactsOwned Stalled=True/ArtifactsOwned"},
		"no such bucket":            {failed(&artifact.S3Error{Reason: artifact.ReasonBucketNotFound}), "Ready=False/BucketNotFound ContentFresh=False/BucketNotFound AccessFresh=False/BucketNotFound Reconciling=False/BucketNotFound Stalled=True/BucketNotFound"},
		"expired token":             {failed(&artifact.S3Error{Reason: artifact.ReasonExpiredToken}), "Ready=False/AccessDenied ContentFresh=False/AccessDenied AccessFresh=False/AccessDenied Reconciling=False/AccessDenied Stalled=True/AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testScope(test.last)
			setStatus(s)
			got := ""
			for _, kind := range []string{"Ready", "ContentFresh", "AccessFresh", "Reconciling", "Stalled"} {
				c := meta.FindStatusCondition(s.corpus.Status.Conditions, kind)
				if c == nil || c.ObservedGeneration != generation {
					t.Fatalf("%s: %+v", kind, c)
				}
				got += fmt.Sprintf("%s=%s/%s ", kind, c.Status, c.Reason)
			}
			if got != test.want+" " {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestWithheldDeletionsSayWhy(t *testing.T) {
	guarded := source.Guarded{WithheldDocuments: []string{"a", "b"}, Tripped: true, Limit: 10, ListingDigest: "sha256:2"}
	for name, test := range map[string]struct {
		documents int64
		approval  *v1alpha1.ApproveDeletions
		want      string
	}{
		"some of many":         {20, nil, "2 deletions are withheld, at most 10 pass without consent: look"},
		"all":                  {2, nil, "2 deletions are withheld, the source lists no document any more: look"},
		"consent to something": {2, &v1alpha1.ApproveDeletions{Max: 1}, "and spec.sync.approveDeletions has expired, allows fewer, or is for another listing: look"},
	} {
		s := testScope(&outcome{generation: generation, sync: source.SyncOutput{Documents: test.documents, Guarded: guarded}})
		s.corpus.Spec.Sync.ApproveDeletions = test.approval
		setStatus(s)
		got := meta.FindStatusCondition(s.corpus.Status.Conditions, v1alpha1.ConditionContentFresh)
		if got.Reason != v1alpha1.ReasonDeletionsWithheld || !strings.Contains(got.Message, test.want) {
			t.Errorf("%s: %s", name, got.Message)
		}
	}
}

func TestAnUnchangedListingChangesNoField(t *testing.T) {
	s := testScope(&outcome{generation: generation, sync: source.SyncOutput{
		Snapshot: "sha256:1", Documents: 2, Changes: source.Changes{Added: []string{"a", "b"}}, Guarded: source.Guarded{ListingDigest: "sha256:2"},
	}})
	setStatus(s)
	first := s.corpus.Status.DeepCopy()
	s.now = s.now.Add(time.Hour)
	s.memory.last.sync.Changes = source.Changes{Unchanged: 2}
	setStatus(s)
	if !equality.Semantic.DeepEqual(*first, s.corpus.Status) {
		t.Errorf("status changed:\n%+v\n%+v", *first, s.corpus.Status)
	}
	s.memory.last.sync.Changes = source.Changes{Unchanged: 1, Deleted: []string{"b"}}
	s.memory.last.sync.Guarded.ListingDigest = "sha256:3"
	setStatus(s)
	if s.corpus.Status.LastSync.Deleted != 1 || s.corpus.Status.OldestUnpurgedDeletion == nil {
		t.Errorf("a deletion is not told: %+v", s.corpus.Status)
	}
}

func TestANewProcessLeavesWhatTheLastOneFound(t *testing.T) {
	s := testScope(&outcome{generation: generation, err: errors.New("timeout")})
	setStatus(s)
	before := s.corpus.Status.DeepCopy()
	s.memory = &memory{}
	setStatus(s)
	if !equality.Semantic.DeepEqual(*before, s.corpus.Status) {
		t.Errorf("a restart alone changes status:\n%+v\n%+v", *before, s.corpus.Status)
	}
}

func TestFailuresAreBounded(t *testing.T) {
	var all []source.Failure
	for i := range 50 {
		all = append(all, source.Failure{Document: fmt.Sprint(i), Message: string(make([]byte, 5000))})
	}
	got := failures(all)
	if len(got) != 10 || len(got[0].Message) > 1024 {
		t.Fatalf("%d failures, message of %d bytes", len(got), len(got[0].Message))
	}
}

func TestPauseGrowsWithFailuresUpToTheInterval(t *testing.T) {
	s := testScope(nil)
	s.corpus.Spec.Sync.Interval.Duration = 30 * time.Second
	for failures, want := range []time.Duration{30 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		if s.memory.failures = failures; s.pause() != want {
			t.Errorf("after %d failures: %s, want %s", failures, s.pause(), want)
		}
	}
}
