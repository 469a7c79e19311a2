package index

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/desired"
)

// words are status and reason of a condition.
type words struct {
	status metav1.ConditionStatus
	reason string
}

func TestConditions(t *testing.T) {
	missing := &objectstore.RefError{Field: "spec.artifacts.s3.credentialsRef", Kind: "Secret", Name: "write", Missing: true}
	ready := func(s *scope) {
		apply.SetCondition(&s.index.Status.Conditions, 1, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	}
	chunks := func(n int64) func(*scope) {
		return func(s *scope) { s.verified, s.index.Status.Counts = true, &v1alpha1.CountsStatus{Chunks: n} }
	}
	for name, test := range map[string]struct {
		facts []func(*scope)
		want  map[string]words
	}{
		"nothing is known yet": {nil, map[string]words{
			"Ready": {"False", v1alpha1.ReasonBuilding}, "Reconciling": {"True", v1alpha1.ReasonBuilding}, "Stalled": {"False", v1alpha1.ReasonBuilding},
			"Chunked": {"False", v1alpha1.ReasonNotStarted}, "Built": {"False", v1alpha1.ReasonNotStarted},
		}},
		"a stage runs": {[]func(*scope){func(s *scope) { s.passed[desired.ChunkPart], s.current = true, desired.ContextualizePart }}, map[string]words{
			"Chunked": {"True", v1alpha1.ReasonCompleted}, "Contextualized": {"False", v1alpha1.ReasonBuilding}, "Embedded": {"False", v1alpha1.ReasonNotStarted},
			"Reconciling": {"True", v1alpha1.ReasonBuilding},
		}},
		"a stage failed": {[]func(*scope){func(s *scope) { s.current = desired.ChunkPart; _ = s.fail(v1alpha1.ReasonBuildFailed, "x") }}, map[string]words{
			"Chunked": {"False", v1alpha1.ReasonBuildFailed}, "Ready": {"False", v1alpha1.ReasonBuildFailed},
			"Stalled": {"True", v1alpha1.ReasonBuildFailed}, "Reconciling": {"False", v1alpha1.ReasonBuildFailed},
		}},
		"the artifact was seen": {[]func(*scope){chunks(3)}, map[string]words{
			"Ready": {"True", v1alpha1.ReasonReady}, "Reconciling": {"False", v1alpha1.ReasonReady}, "Stalled": {"False", v1alpha1.ReasonReady},
		}},
		"the artifact holds nothing": {[]func(*scope){chunks(0)}, map[string]words{
			"Ready": {"False", v1alpha1.ReasonNoChunks}, "Stalled": {"True", v1alpha1.ReasonNoChunks},
		}},
		"a Secret is missing while it builds": {[]func(*scope){func(s *scope) { s.explain(missing) }}, map[string]words{
			"Ready": {"False", v1alpha1.ReasonSecretNotFound}, "Stalled": {"True", v1alpha1.ReasonSecretNotFound},
		}},
		"a Secret is missing once it is Ready": {[]func(*scope){ready, func(s *scope) { s.explain(missing) }}, map[string]words{
			"Ready": {"True", v1alpha1.ReasonReady},
		}},
		"the storage does not answer once it is Ready": {[]func(*scope){ready, func(s *scope) { s.explain(errors.New("timeout")) }}, map[string]words{
			"Ready": {"True", v1alpha1.ReasonReady},
		}},
		"a file is gone": {[]func(*scope){ready, func(s *scope) {
			s.trouble = &trouble{reason: v1alpha1.ReasonArtifactsUnavailable, final: true, proof: true}
		}}, map[string]words{
			"Ready": {"False", v1alpha1.ReasonArtifactsUnavailable}, "Stalled": {"True", v1alpha1.ReasonArtifactsUnavailable},
		}},
		"a name is taken": {[]func(*scope){func(s *scope) { s.explain(&apply.NameConflict{Kind: "Job", Name: "a", Owner: "nobody"}) }}, map[string]words{
			"Stalled": {"True", v1alpha1.ReasonNameConflict},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			index := &v1alpha1.Index{ObjectMeta: metav1.ObjectMeta{Name: "one", Generation: 1}}
			index.Spec.Indexing.Context.Type = v1alpha1.ContextHeading
			s := newScope(index)
			for _, fact := range test.facts {
				fact(s)
			}
			setConditions(s)
			for kind, want := range test.want {
				got := meta.FindStatusCondition(index.Status.Conditions, kind)
				if got == nil || got.Status != want.status || got.Reason != want.reason || got.ObservedGeneration != 1 {
					t.Errorf("%s: %+v, want %v", kind, got, want)
				}
			}
		})
	}
}

func TestConditionsOfAnOlderGenerationCountForNothing(t *testing.T) {
	index := &v1alpha1.Index{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	apply.SetCondition(&index.Status.Conditions, 1, v1alpha1.ConditionChunked, metav1.ConditionTrue, v1alpha1.ReasonCompleted, "")
	if newScope(index).passed[desired.ChunkPart] {
		t.Fatal("a stage of another generation counts as passed")
	}
}
