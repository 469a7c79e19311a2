package eval

import (
	"time"

	"quarry.dev/quarry/api/v1alpha1"
)

// Plan is the content of eval.json, which the operator writes for one evaluation Job.
type Plan struct {
	// Run and RunUID identify the EvalRun; the UID is part of every token the Job mints.
	Run    string `json:"run"`
	RunUID string `json:"runUID"`
	// Subject is the version that is judged; Baseline, the one that answers users now, is absent for a first version.
	Subject  Target  `json:"subject"`
	Baseline *Target `json:"baseline,omitempty"`
	// EvalSetDigest is the sha256 of the set; EvalSetObject its key in the artifacts bucket where no ConfigMap holds it.
	EvalSetDigest string `json:"evalSetDigest"`
	EvalSetObject string `json:"evalSetObject,omitempty"`
	// Metrics says at which k to measure.
	Metrics []v1alpha1.GateMetric `json:"metrics"`
	// Access are the raw rules of the Corpus, for the second evaluator of permissions.
	Access v1alpha1.AccessSpec `json:"access"`
	// SyncInterval, in nanoseconds, is how old the access data of a gateway may rightly be.
	SyncInterval time.Duration `json:"syncInterval"`
}

// Target is one version and where its evaluation port answers.
type Target struct {
	Index         string `json:"index"`
	VersionDigest string `json:"versionDigest"`
	// URL is the base of the evaluation port, such as http://name.namespace.svc:8082.
	URL string `json:"url"`
	// Reranks tells that its recipe reranks: answers that were not are no measurement of it.
	Reranks bool `json:"reranks,omitempty"`
}
