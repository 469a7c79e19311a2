package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MetricName is what a gate may ask for.
// +kubebuilder:validation:Enum=Recall;HitRate;MRR;NDCG
type MetricName string

const (
	// MetricRecall is the share of a question's evidence among the first k.
	MetricRecall MetricName = "Recall"
	// MetricHitRate is the share of questions with any evidence among the first k.
	MetricHitRate MetricName = "HitRate"
	// MetricMRR is the mean reciprocal rank of the first evidence.
	MetricMRR MetricName = "MRR"
	// MetricNDCG is the normalised discounted cumulative gain.
	MetricNDCG MetricName = "NDCG"
)

// GateMetric is one number that a version must reach.
// +kubebuilder:validation:XValidation:rule="!has(self.contextTokens) || self.contextTokens == 0",message="contextTokens is not yet supported: use k"
// +kubebuilder:validation:XValidation:rule="(has(self.k) && self.k > 0) != (has(self.contextTokens) && self.contextTokens > 0)",message="k is required: set k to the number of passages that count, for instance 10"
// +kubebuilder:validation:XValidation:rule="has(self.minimum) || has(self.maxRegression)",message="a metric needs minimum, maxRegression or both: without either it decides nothing"
type GateMetric struct {
	// name is Recall, HitRate, MRR or NDCG.
	// +required
	Name MetricName `json:"name"`

	// k is the number of passages that count, at most retrieval.topK.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	K int32 `json:"k,omitempty"`

	// contextTokens counts passages up to a budget of tokens, instead of k.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	ContextTokens int32 `json:"contextTokens,omitempty"`

	// minimum is the least value, a decimal from 0 to 1.
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]{1,4})?|1([.]0{1,4})?)$')",message="minimum must be a decimal string from 0 to 1 such as \"0.85\""
	// +optional
	Minimum string `json:"minimum,omitempty"`

	// maxRegression is the largest loss against the serving version, a decimal
	// from 0 to 1.
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]{1,4})?|1([.]0{1,4})?)$')",message="maxRegression must be a decimal string from 0 to 1 such as \"0.02\""
	// +optional
	MaxRegression string `json:"maxRegression,omitempty"`
}

// DecideOn says which number is compared with the minimum.
// +kubebuilder:validation:Enum=Estimate;LowerBound
type DecideOn string

const (
	// DecideOnEstimate compares the measured mean.
	DecideOnEstimate DecideOn = "Estimate"
	// DecideOnLowerBound compares the lower bound of the 95 % interval.
	DecideOnLowerBound DecideOn = "LowerBound"
)

// LeakPolicy says what a forbidden hit means.
// +kubebuilder:validation:Enum=Forbid
type LeakPolicy string

// LeaksForbid fails the run at the first forbidden hit, whatever the recall.
const LeaksForbid LeakPolicy = "Forbid"

// GateSpec is what a version must show before it serves.
type GateSpec struct {
	// metrics that all must hold.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Metrics []GateMetric `json:"metrics,omitempty"`

	// decideOn is Estimate or LowerBound. Defaults to Estimate.
	// +kubebuilder:default=Estimate
	// +optional
	DecideOn DecideOn `json:"decideOn,omitempty"`

	// minQuestions that must count, or the verdict is Inconclusive. Defaults to
	// 30.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +kubebuilder:default=30
	// +optional
	MinQuestions int32 `json:"minQuestions,omitempty"`

	// leaks is Forbid. Defaults to Forbid.
	// +kubebuilder:default=Forbid
	// +optional
	Leaks LeakPolicy `json:"leaks,omitempty"`
}

// PromotionSpec says when a version replaces the serving one.
type PromotionSpec struct {
	// gate is what a version must show.
	// +kubebuilder:default={}
	// +optional
	Gate GateSpec `json:"gate,omitzero"`

	// soak: so long the previous version stays warm. Up to 168h; 0s keeps it not
	// at all. Defaults to 10m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) <= duration('168h')",message="soak must be a duration from 0s to 168h, for instance 10m"
	// +kubebuilder:default="10m"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`

	// minInterval: at most one promotion per interval. Defaults to 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) <= duration('168h')",message="minInterval must be a duration from 0s to 168h, for instance 1h"
	// +kubebuilder:default="0s"
	// +optional
	MinInterval metav1.Duration `json:"minInterval,omitzero"`
}
