package index

import (
	"errors"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
)

// scope holds the facts that the phases of one reconcile find. status.go alone turns them into conditions.
type scope struct {
	index *v1alpha1.Index
	// before is the Index as it was read; the status patch is the difference to it.
	before   *v1alpha1.Index
	pipeline *v1alpha1.RetrievalPipeline
	corpus   *v1alpha1.Corpus
	bucket   artifact.Bucket
	jobs     desired.JobsInput

	// passed are the stages whose result is in status, or is put there by this reconcile.
	passed map[desired.Part]bool
	// adopted tells that the artifact was there before any Job ran.
	adopted bool
	// current is the stage that runs, waits or failed, and job its Job.
	current desired.Part
	job     *batchv1.Job
	// manifestDigest is what the build's report says.
	manifestDigest string
	// verified tells that manifest and files were seen by this reconcile, or lately.
	verified bool

	// trouble is why the Index does not advance, or nil.
	trouble *trouble
	requeue time.Duration
}

// trouble is one sentence for the user. Final means that waiting does not help; proof, that the artifact itself is
// known to be broken, which alone takes Ready away from an Index that was Ready.
type trouble struct {
	reason, message string
	final, proof    bool
}

func newScope(index *v1alpha1.Index) *scope {
	s := &scope{index: index, before: index.DeepCopy(), passed: map[desired.Part]bool{}}
	for stage, condition := range stageConditions {
		s.passed[stage] = isTrue(index, condition)
	}
	return s
}

// fail ends the phases with a reason that stays until something changes.
func (s *scope) fail(reason, message string) error {
	s.trouble = &trouble{reason: reason, message: message, final: true}
	return errEnd
}

// explain finds words for an error that will be tried again.
func (s *scope) explain(err error) {
	if s.trouble != nil {
		return
	}
	t := trouble{reason: v1alpha1.ReasonBuilding, message: err.Error()}
	if conflict, ok := apply.AsNameConflict(err); ok {
		t = trouble{reason: v1alpha1.ReasonNameConflict, message: conflict.Error(), final: true}
	} else if ref, ok := errors.AsType[*objectstore.RefError](err); ok {
		t = trouble{reason: v1alpha1.ReasonSecretNotFound, message: ref.Error(), final: true}
	} else if artifact.ReasonOf(err) != "" {
		t.reason = v1alpha1.ReasonArtifactsUnavailable
	}
	s.trouble = &t
}
