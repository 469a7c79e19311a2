package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EvalSetBinding names the questions and binds them to their bytes.
type EvalSetBinding struct {
	// ref names the questions.
	// +required
	Ref EvalSetRef `json:"ref"`

	// digest that the questions must have; empty accepts them as they are.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^sha256:[0-9a-f]{64}$')",message="evalSet.digest must be sha256: and 64 hexadecimal digits, or absent"
	// +optional
	Digest string `json:"digest,omitempty"`
}

// EvalRunSpec is one measurement of one version; it never changes.
type EvalRunSpec struct {
	// indexRef names the Index that is measured.
	// +required
	IndexRef LocalRef `json:"indexRef"`

	// pipelineRef names the RetrievalPipeline of that Index.
	// +required
	PipelineRef LocalRef `json:"pipelineRef"`

	// tenant of that Index.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="tenant must be a DNS label: lower-case letters, digits and hyphens"
	// +required
	Tenant string `json:"tenant"`

	// baselineIndexRef names the serving Index, asked the same questions.
	// +optional
	BaselineIndexRef *LocalRef `json:"baselineIndexRef,omitempty"`

	// evalSet names the questions.
	// +required
	EvalSet EvalSetBinding `json:"evalSet"`

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

	// attempt counts repetitions of a run that ended in an error.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
}

// Verdict is the outcome of a run. Only Passed promotes; absence of evidence
// never does.
// +kubebuilder:validation:Enum=Passed;Failed;Inconclusive;Error;Cancelled
type Verdict string

const (
	// VerdictPassed: every metric holds and nothing leaked.
	VerdictPassed Verdict = "Passed"
	// VerdictFailed: measured, and not good enough, or something leaked.
	VerdictFailed Verdict = "Failed"
	// VerdictInconclusive: too few questions counted.
	VerdictInconclusive Verdict = "Inconclusive"
	// VerdictError: the measurement did not come about.
	VerdictError Verdict = "Error"
	// VerdictCancelled: the version is no longer wanted.
	VerdictCancelled Verdict = "Cancelled"
)

// EvalSubject is what the verdict is bound to.
type EvalSubject struct {
	// indexDigest is the digest of the manifest.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	IndexDigest string `json:"indexDigest,omitempty"`

	// retrievalDigest is the digest of the Index' retrieval.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	RetrievalDigest string `json:"retrievalDigest,omitempty"`

	// image that served.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// gateDigest is the digest of metrics, decideOn, minQuestions and leaks.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	GateDigest string `json:"gateDigest,omitempty"`

	// evalSetDigest is the digest of the questions.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	EvalSetDigest string `json:"evalSetDigest,omitempty"`

	// baselineIndexDigest is the digest of the serving version's manifest.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	BaselineIndexDigest string `json:"baselineIndexDigest,omitempty"`

	// accessEpoch of the overlay while the questions were asked.
	// +optional
	AccessEpoch int64 `json:"accessEpoch,omitempty"`
}

// MetricResult is one measured number with its interval and its comparison.
type MetricResult struct {
	// metric is the gate's name of it.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Metric string `json:"metric"`

	// at is the number of passages that counted.
	// +optional
	At int32 `json:"at,omitempty"`

	// value is the mean, a decimal.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Value string `json:"value,omitempty"`

	// lower bound of the 95 % interval.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Lower string `json:"lower,omitempty"`

	// upper bound of the 95 % interval.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Upper string `json:"upper,omitempty"`

	// baseline is the serving version's mean.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Baseline string `json:"baseline,omitempty"`

	// delta is value minus baseline.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Delta string `json:"delta,omitempty"`

	// gained is the number of questions that became better.
	// +optional
	Gained int32 `json:"gained"`

	// lost is the number of questions that became worse.
	// +optional
	Lost int32 `json:"lost"`

	// minimum that the gate asks for.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Minimum string `json:"minimum,omitempty"`

	// questions that counted.
	// +optional
	Questions int32 `json:"questions"`
}

// LeakStatus counts attempts to see what is forbidden, and successes.
type LeakStatus struct {
	// probes that were made.
	// +optional
	Probes int32 `json:"probes"`

	// hits that must not have been.
	// +optional
	Hits int32 `json:"hits"`
}

// LatencyStatus is how long answers took, as durations such as 12ms.
type LatencyStatus struct {
	// p50 is the median.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	P50 string `json:"p50,omitempty"`

	// p95 is the 95th percentile.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	P95 string `json:"p95,omitempty"`

	// p99 is the 99th percentile.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	P99 string `json:"p99,omitempty"`
}

// EvalRunStatus is the record of a measurement.
type EvalRunStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready (the record is complete, whatever the verdict), Valid,
	// Passed, Reconciling, Stalled.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// verdict, once the run is over.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`

	// message says why, for a person.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// subject is what the verdict is bound to.
	// +optional
	Subject *EvalSubject `json:"subject,omitempty"`

	// results, one per metric.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Results []MetricResult `json:"results,omitempty"`

	// leaks of forbidden documents.
	// +optional
	Leaks *LeakStatus `json:"leaks,omitempty"`

	// latency of the answers.
	// +optional
	Latency *LatencyStatus `json:"latency,omitempty"`

	// reportURI: ids, offsets and ranks per question, never text.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ReportURI string `json:"reportURI,omitempty"`
}

// EvalRun is one measurement of one Index. Who may create it may ask as any
// principal, which is as much as reading the whole corpus.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=er,categories=quarry
// +kubebuilder:printcolumn:name="Index",type=string,JSONPath=`.spec.indexRef.name`
// +kubebuilder:printcolumn:name="Metric",type=string,JSONPath=`.status.results[0].metric`
// +kubebuilder:printcolumn:name="Value",type=string,JSONPath=`.status.results[0].value`
// +kubebuilder:printcolumn:name="Minimum",type=string,JSONPath=`.status.results[0].minimum`
// +kubebuilder:printcolumn:name="Delta",type=string,JSONPath=`.status.results[0].delta`
// +kubebuilder:printcolumn:name="Leaks",type=integer,JSONPath=`.status.leaks.hits`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, because labels carry it: choose a shorter name"
type EvalRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec never changes: a run is a record.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec of an EvalRun is immutable, because a run is a record: create another EvalRun"
	// +required
	Spec EvalRunSpec `json:"spec"`

	// status is the record.
	// +optional
	Status EvalRunStatus `json:"status,omitzero"`
}

// EvalRunList is a list of EvalRun objects.
// +kubebuilder:object:root=true
type EvalRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EvalRun `json:"items"`
}
