package index

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/desired"
)

// stageConditions says which condition tells that a stage has passed.
var stageConditions = map[desired.Part]string{
	desired.ChunkPart:         v1alpha1.ConditionChunked,
	desired.ContextualizePart: v1alpha1.ConditionContextualized,
	desired.EmbedPart:         v1alpha1.ConditionEmbedded,
	desired.BuildPart:         v1alpha1.ConditionBuilt,
}

// stageNames are the words of status.progress.stage.
var stageNames = map[desired.Part]string{
	desired.ChunkPart:         "Chunk",
	desired.ContextualizePart: "Contextualize",
	desired.EmbedPart:         "Embed",
	desired.BuildPart:         "Build",
}

const stageDone = "Done"

// writeStatus sets every condition from the facts and patches what has changed. The patch never names
// status.serving and status.recall, which the pipeline's controller writes.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	setConditions(s)
	s.index.Status.ObservedGeneration = s.index.Generation
	if equality.Semantic.DeepEqual(s.before.Status, s.index.Status) {
		return nil
	}
	announce(r, s)
	err := r.Status().Patch(ctx, s.index, client.MergeFrom(s.before), client.FieldOwner(apply.FieldOwner))
	return client.IgnoreNotFound(err)
}

// announce records an event where Ready changes.
func announce(r *Reconciler, s *scope) {
	now := meta.FindStatusCondition(s.index.Status.Conditions, v1alpha1.ConditionReady)
	then := meta.FindStatusCondition(s.before.Status.Conditions, v1alpha1.ConditionReady)
	if then != nil && then.Status == now.Status && then.Reason == now.Reason {
		return
	}
	kind := "Normal"
	if now.Status != metav1.ConditionTrue && s.trouble != nil {
		kind = "Warning"
	}
	r.Recorder.Eventf(s.index, nil, kind, now.Reason, "Build", "%s", now.Message)
}

// setConditions sets every condition that this controller owns, from facts alone.
func setConditions(s *scope) {
	if isTrue(s.index, v1alpha1.ConditionReady) && s.trouble != nil && !s.trouble.proof {
		// A storage that does not answer, or a Secret that is gone, proves nothing about what was built and seen.
		return
	}
	setStages(s)
	ready := s.verified && s.trouble == nil
	if ready && s.index.Status.Counts != nil && s.index.Status.Counts.Chunks == 0 {
		s.trouble = &trouble{reason: v1alpha1.ReasonNoChunks, message: noChunksMessage, final: true}
		ready = false
	}
	if ready {
		s.index.Status.Progress = &v1alpha1.ProgressStatus{Stage: stageDone, Completed: 1, Total: 1}
		s.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, readyMessage(s))
		s.set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonReady, "nothing is left to do")
		s.set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonReady, "nothing is in the way")
		return
	}
	reason, message := v1alpha1.ReasonBuilding, progressMessage(s)
	if s.trouble != nil {
		reason, message = s.trouble.reason, s.trouble.message
	}
	s.set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	if s.trouble != nil && s.trouble.final {
		s.set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, reason, message)
		s.set(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
		return
	}
	s.set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	s.set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonBuilding, "the build advances")
}

// setStages says of each stage whether it has passed. One that passed stays so, whatever becomes of its Job.
func setStages(s *scope) {
	for stage, condition := range stageConditions {
		switch {
		case stage == desired.ContextualizePart && !desired.NeedsContext(s.index):
			s.set(condition, metav1.ConditionTrue, v1alpha1.ReasonSkipped, "the recipe writes no contexts")
		case s.passed[stage] && s.adopted:
			s.set(condition, metav1.ConditionTrue, v1alpha1.ReasonSkipped, "an earlier version has made the same")
		case s.passed[stage] && isTrue(s.index, condition):
			// Keeps the reason that it passed with.
		case s.passed[stage] && stage == desired.BuildPart:
			s.set(condition, metav1.ConditionTrue, v1alpha1.ReasonBuilt, "the manifest is written")
		case s.passed[stage]:
			s.set(condition, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "every shard is done")
		case stage == s.current && s.trouble != nil:
			s.set(condition, metav1.ConditionFalse, s.trouble.reason, s.trouble.message)
		case stage == s.current:
			s.set(condition, metav1.ConditionFalse, v1alpha1.ReasonBuilding, "the Job runs")
		default:
			s.set(condition, metav1.ConditionFalse, v1alpha1.ReasonNotStarted, "an earlier stage comes first")
		}
	}
}

func (s *scope) set(kind string, status metav1.ConditionStatus, reason, message string) {
	apply.SetCondition(&s.index.Status.Conditions, s.index.Generation, kind, status, reason, message)
}

func readyMessage(s *scope) string {
	counts := s.index.Status.Counts
	if counts == nil {
		return "the artifact was seen"
	}
	return fmt.Sprintf("%d documents in %d chunks, %d documents in quarantine", counts.Documents, counts.Chunks, counts.FailedDocuments)
}

func progressMessage(s *scope) string {
	if s.current == "" {
		return "the build begins"
	}
	return fmt.Sprintf("stage %s runs", stageNames[s.current])
}

func isTrue(index *v1alpha1.Index, condition string) bool {
	found := meta.FindStatusCondition(index.Status.Conditions, condition)
	return found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == index.Generation
}
