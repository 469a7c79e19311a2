package pipeline

import (
	"encoding/json"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
)

// subjectKey digests what a run is about, so that a run of the same attempt on another subject has another name.
func subjectKey(spec v1alpha1.EvalRunSpec, subject *v1alpha1.EvalSubject) string {
	spec.Attempt = 0
	text, err := json.Marshal(struct {
		Spec    v1alpha1.EvalRunSpec
		Subject *v1alpha1.EvalSubject
	}{spec, subject})
	if err != nil {
		// The API types hold nothing that JSON cannot say.
		panic(err)
	}
	return artifact.Digest(text)
}
