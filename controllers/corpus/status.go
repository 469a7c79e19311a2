package corpus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/source"
)

const (
	// maxFailures is how many documents status names; the ledger object has them all.
	maxFailures = 10
	maxText     = 1024
)

// artifactsError marks an error of the artifacts bucket, whose reasons differ from the source's.
type artifactsError struct{ error }

func (e *artifactsError) Unwrap() error { return e.error }

// writeStatus turns facts into status and patches what has changed, which is nothing while the source is unchanged.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	setStatus(s)
	if equality.Semantic.DeepEqual(s.before.Status, s.corpus.Status) {
		return nil
	}
	r.announce(s)
	err := r.Status().Patch(ctx, s.corpus, client.MergeFrom(s.before), client.FieldOwner(apply.FieldOwner))
	return client.IgnoreNotFound(err)
}

// announce records an event where the outcome of listing changes its kind.
func (r *Reconciler) announce(s *scope) {
	now := meta.FindStatusCondition(s.corpus.Status.Conditions, v1alpha1.ConditionContentFresh)
	then := meta.FindStatusCondition(s.before.Status.Conditions, v1alpha1.ConditionContentFresh)
	if now == nil || now.Reason == v1alpha1.ReasonProgressing || then != nil && then.Status == now.Status && then.Reason == now.Reason {
		return
	}
	kind := "Normal"
	if now.Status == metav1.ConditionFalse && now.Reason != v1alpha1.ReasonSuspended {
		kind = "Warning"
	}
	r.Recorder.Eventf(s.corpus, nil, kind, now.Reason, "Sync", "%s", now.Message)
}

// setStatus sets every field that this controller owns, from facts alone. Without an outcome of this generation it
// leaves what an earlier process has found, and says that something is under way.
func setStatus(s *scope) {
	last := s.memory.last
	if last != nil && last.err == nil {
		setFacts(s, last.sync)
	}
	switch {
	case s.corpus.Spec.Sync.Mode == v1alpha1.SyncSuspended:
		setSuspended(s)
	case last != nil && last.generation == s.corpus.Generation && last.err != nil:
		setFailed(s, last.err)
	case last != nil && last.generation == s.corpus.Generation:
		setSynced(s, last.sync)
	case s.corpus.Status.ObservedGeneration == s.corpus.Generation && len(s.corpus.Status.Conditions) > 0:
		return
	default:
		setListing(s)
	}
	s.corpus.Status.ObservedGeneration = s.corpus.Generation
}

// setFacts takes over what a listing found. lastSync keeps the last outcome that differed: a listing that finds nothing
// new changes no field.
func setFacts(s *scope, sync source.SyncOutput) {
	status := &s.corpus.Status
	status.Snapshot = &v1alpha1.SnapshotStatus{Digest: sync.Snapshot, Documents: sync.Documents, Bytes: sync.Bytes}
	status.Access = &v1alpha1.AccessStatus{Epoch: sync.Current.Epoch, Digest: sync.Current.Digest}
	status.Failures = failures(sync.Failures)
	at := s.corpus.Spec.Artifacts.S3.S3Location
	status.LedgerURI = apply.Truncate("s3://"+at.Bucket+"/"+strings.TrimPrefix(at.Prefix+sync.LedgerKey, "/"), maxText)

	now := v1alpha1.SyncStatus{
		Added: int64(len(sync.Changes.Added)), Modified: int64(len(sync.Changes.Modified)), Deleted: int64(len(sync.Changes.Deleted)),
		Unchanged: int64(sync.Changes.Unchanged), Failed: int64(len(sync.Failures)),
		WithheldDeletions: int64(sync.Guarded.Withheld()), ListingDigest: sync.Guarded.ListingDigest,
	}
	if !sameOutcome(status.LastSync, now) {
		now.FinishedAt = metav1.NewTime(s.now.Truncate(1e9))
		status.LastSync = &now
		if now.Deleted > 0 && status.OldestUnpurgedDeletion == nil {
			status.OldestUnpurgedDeletion = now.FinishedAt.DeepCopy()
		}
	}
}

// sameOutcome tells whether a listing says what status says already.
func sameOutcome(then *v1alpha1.SyncStatus, now v1alpha1.SyncStatus) bool {
	if then == nil {
		return false
	}
	if now.Added+now.Modified+now.Deleted > 0 && then.ListingDigest != now.ListingDigest {
		return false
	}
	return then.ListingDigest == now.ListingDigest && then.Failed == now.Failed && then.WithheldDeletions == now.WithheldDeletions
}

// setListing says that the first listing of this generation is under way. Ready keeps what it said of the last generation.
func setListing(s *scope) {
	const message = "the source is being listed"
	conditions := s.corpus.Status.Conditions
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionContentFresh, v1alpha1.ConditionAccessFresh} {
		if meta.FindStatusCondition(conditions, kind) == nil {
			s.set(kind, metav1.ConditionFalse, v1alpha1.ReasonProgressing, message)
		}
	}
	s.set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, message)
	s.set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonProgressing, message)
}

func setSuspended(s *scope) {
	const message = "spec.sync.mode is Suspended: nothing is listed, and serving refuses once access data is older than maxStaleness"
	ready := metav1.ConditionFalse
	if s.corpus.Status.Snapshot != nil {
		ready = metav1.ConditionTrue
	}
	s.set(v1alpha1.ConditionReady, ready, v1alpha1.ReasonSuspended, message)
	s.set(v1alpha1.ConditionContentFresh, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	s.set(v1alpha1.ConditionAccessFresh, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	s.set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
	s.set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonSuspended, message)
}

func setSynced(s *scope, sync source.SyncOutput) {
	message := fmt.Sprintf("%d documents", sync.Documents)
	if n := len(sync.Failures); n > 0 {
		message += fmt.Sprintf(", %d of them with unreadable access or key", n)
	}
	s.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSynced, message)
	s.set(v1alpha1.ConditionAccessFresh, metav1.ConditionTrue, v1alpha1.ReasonSynced, fmt.Sprintf("epoch %d", sync.Current.Epoch))
	s.set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSynced, message)
	s.set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonSynced, "nothing is in the way")
	if sync.Guarded.Withheld() > 0 {
		s.set(v1alpha1.ConditionContentFresh, metav1.ConditionFalse, v1alpha1.ReasonDeletionsWithheld, withheldMessage(s, sync))
		return
	}
	s.set(v1alpha1.ConditionContentFresh, metav1.ConditionTrue, v1alpha1.ReasonSynced, message)
}

// withheldMessage says why deletions are held back, and how to let them pass.
func withheldMessage(s *scope, sync source.SyncOutput) string {
	n := sync.Guarded.Withheld()
	why := fmt.Sprintf("at most %d pass without consent", sync.Guarded.Limit)
	if int64(len(sync.Guarded.WithheldDocuments)) == sync.Documents {
		why = "the source lists no document any more"
	}
	if s.corpus.Spec.Sync.ApproveDeletions != nil {
		why += ", and spec.sync.approveDeletions has expired, allows fewer, or is for another listing"
	}
	return fmt.Sprintf(
		"%d deletions are withheld, %s: look at the source, and set spec.sync.approveDeletions to max %d, listingDigest %s and a time of expiry if they are meant",
		n, why, n, sync.Guarded.ListingDigest)
}

// setFailed says why the source was not listed. What was published before still holds.
func setFailed(s *scope, err error) {
	reason, final := explain(err)
	message := err.Error()
	s.set(v1alpha1.ConditionContentFresh, metav1.ConditionFalse, reason, message)
	s.set(v1alpha1.ConditionAccessFresh, metav1.ConditionFalse, reason, message)
	s.set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	if final {
		s.set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, reason, message)
		s.set(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
		return
	}
	s.set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	s.set(v1alpha1.ConditionStalled, metav1.ConditionFalse, reason, "it is tried again")
}

// explain maps an error to a reason of the closed list, and tells whether only a person can mend it.
func explain(err error) (reason string, final bool) {
	if errors.Is(err, artifact.ErrOwned) {
		return v1alpha1.ReasonArtifactsOwned, true
	}
	if _, ok := errors.AsType[*objectstore.RefError](err); ok {
		return v1alpha1.ReasonSecretNotFound, true
	}
	switch artifact.ReasonOf(err) {
	case artifact.ReasonBucketNotFound:
		return v1alpha1.ReasonBucketNotFound, true
	case artifact.ReasonAccessDenied, artifact.ReasonExpiredToken:
		return v1alpha1.ReasonAccessDenied, true
	}
	if _, ok := errors.AsType[*artifactsError](err); ok {
		return v1alpha1.ReasonArtifactsUnavailable, false
	}
	return v1alpha1.ReasonListingFailed, false
}

func (s *scope) set(kind string, status metav1.ConditionStatus, reason, message string) {
	apply.SetCondition(&s.corpus.Status.Conditions, s.corpus.Generation, kind, status, reason, message)
}

// failures are the first documents that could not be taken as they are, cut to what the API holds.
func failures(all []source.Failure) []v1alpha1.DocumentFailure {
	var out []v1alpha1.DocumentFailure
	for _, failure := range all[:min(len(all), maxFailures)] {
		out = append(out, v1alpha1.DocumentFailure{
			Document: apply.Truncate(failure.Document, maxText), Reason: failure.Reason, Message: apply.Truncate(failure.Message, maxText),
		})
	}
	return out
}
