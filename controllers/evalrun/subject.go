package evalrun

import (
	"encoding/json"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
)

// Subject is what a verdict on this Index is bound to. The pipeline computes it anew from what runs now: a verdict
// whose subject differs promotes nothing. EvalSetDigest is the one the spec asks for; AccessEpoch is left to the report.
func Subject(run *v1alpha1.EvalRun, index, baseline *v1alpha1.Index) *v1alpha1.EvalSubject {
	subject := &v1alpha1.EvalSubject{
		RetrievalDigest: digest(index.Spec.Retrieval),
		Image:           index.Spec.Image,
		GateDigest:      GateDigest(run.Spec),
		EvalSetDigest:   run.Spec.EvalSet.Digest,
	}
	if index.Status.Artifact != nil {
		subject.IndexDigest = index.Status.Artifact.Digest
	}
	if baseline != nil && baseline.Status.Artifact != nil {
		subject.BaselineIndexDigest = baseline.Status.Artifact.Digest
	}
	return subject
}

// GateDigest covers all of a run's spec that decides between Passed and Failed.
func GateDigest(spec v1alpha1.EvalRunSpec) string {
	return digest(struct {
		Metrics      []v1alpha1.GateMetric
		DecideOn     any
		MinQuestions int32
		Leaks        any
	}{spec.Metrics, spec.DecideOn, spec.MinQuestions, spec.Leaks})
}

func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// The API types hold nothing that JSON cannot say.
		panic(err)
	}
	return artifact.Digest(text)
}
