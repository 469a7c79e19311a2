// Package v1alpha1 holds the four kinds of Quarry (Corpus, RetrievalPipeline,
// Index and EvalRun) with their conditions and reasons, and nothing else. The
// data plane uses the same types, so it imports no Kubernetes client.
//
// Rules of this API: fractions are decimal strings, never floats; enums are
// CamelCase words, never booleans; references stay in the namespace; every list
// and every string is bounded.
//
// +kubebuilder:object:generate=true
// +groupName=quarry.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "quarry.dev", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add these kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Corpus{}, &CorpusList{},
		&RetrievalPipeline{}, &RetrievalPipelineList{},
		&Index{}, &IndexList{},
		&EvalRun{}, &EvalRunList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
