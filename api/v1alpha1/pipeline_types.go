package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EvalSetRef is a union: the questions stand in a ConfigMap or in an object of
// the corpus' artifacts bucket.
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != (has(self.object) && self.object.size() > 0)",message="evalSetRef must set exactly one of configMap and object: remove one of them"
type EvalSetRef struct {
	// configMap names a key that holds JSON lines, a question per line.
	// +optional
	ConfigMap *KeyRef `json:"configMap,omitempty"`

	// object is a key below the artifacts' prefix.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Object string `json:"object,omitempty"`
}

// Override lifts a Failed or Inconclusive metric of one Index; never a leak, an
// error or a digest that differs.
// +kubebuilder:validation:XValidation:rule="(has(self.index) && self.index.size() > 0) == (has(self.reason) && self.reason.size() > 0)",message="override needs index and reason together: say why this one Index may be promoted, or empty both"
type Override struct {
	// index is the name of the one Index.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Index string `json:"index,omitempty"`

	// reason is kept in the status and in an Event.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Tenant gets its own Index, Deployments, Service, NetworkPolicy and verdict.
type Tenant struct {
	// name is a DNS label of at most 63 characters; tokens carry it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name of a tenant must be a DNS label: lower-case letters, digits and hyphens, beginning and ending with a letter or digit"
	// +required
	Name string `json:"name"`

	// corpusRef names the Corpus whose documents this tenant searches.
	// +required
	CorpusRef LocalRef `json:"corpusRef"`

	// evalSetRef names the questions that every version must answer.
	// +optional
	EvalSetRef *EvalSetRef `json:"evalSetRef,omitempty"`

	// hold: a reason text freezes promotion for this tenant.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Hold string `json:"hold,omitempty"`

	// rollbackTo is an Index name; while it is set, candidates are built and
	// judged but none is promoted.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RollbackTo string `json:"rollbackTo,omitempty"`

	// override lifts the verdict of one Index.
	// +optional
	Override *Override `json:"override,omitempty"`
}

// BuildSpec says how an index is made; it is never part of a digest.
type BuildSpec struct {
	// shards is the number of completions per Job, 1 to 256. Defaults to 4.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +kubebuilder:default=4
	// +optional
	Shards int32 `json:"shards,omitempty"`

	// parallelism is the number of pods at a time, 1 to 256. Defaults to 2.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +kubebuilder:default=2
	// +optional
	Parallelism int32 `json:"parallelism,omitempty"`

	// resources of each pod of the Jobs.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// tokenBudget bounds what a paid model may cost, in tokens per version; 0
	// means no bound.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == 0",message="build.tokenBudget is not yet supported: set it to 0"
	// +optional
	TokenBudget int64 `json:"tokenBudget,omitempty"`
}

// ServingImagePolicy says what a new release of the operator does to running
// stacks.
// +kubebuilder:validation:Enum=NextVersion;Now
type ServingImagePolicy string

const (
	// ServingImageNextVersion keeps the image of a version for its whole life;
	// the next version takes the new one.
	ServingImageNextVersion ServingImagePolicy = "NextVersion"
	// ServingImageNow makes a new version for the new image, judged as any other.
	ServingImageNow ServingImagePolicy = "Now"
)

// TLSSecretRef names a Secret; an empty name means none.
type TLSSecretRef struct {
	// name of a Secret of type kubernetes.io/tls.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
}

// TLSSpec is the gateway's certificate.
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !has(self.secretRef.name) || self.secretRef.name.size() == 0",message="serving.tls.secretRef is not yet supported: remove it and end TLS in front of the gateway"
type TLSSpec struct {
	// secretRef names the Secret with the certificate and its key.
	// +optional
	SecretRef TLSSecretRef `json:"secretRef,omitzero"`
}

// RoleSpec sizes one Deployment of a stack.
type RoleSpec struct {
	// replicas, 1 to 64. Defaults to 2, for the reranker to 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// resources of each pod.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// ServingSpec says how versions are served.
type ServingSpec struct {
	// image is NextVersion or Now. Defaults to NextVersion.
	// +kubebuilder:default=NextVersion
	// +optional
	Image ServingImagePolicy `json:"image,omitempty"`

	// tls of the gateway.
	// +optional
	TLS TLSSpec `json:"tls,omitzero"`

	// gateway verifies tokens, fuses and answers.
	// +kubebuilder:default={replicas: 2}
	// +optional
	Gateway RoleSpec `json:"gateway,omitzero"`

	// bm25 is the lexical retriever.
	// +kubebuilder:default={replicas: 2}
	// +optional
	BM25 RoleSpec `json:"bm25,omitzero"`

	// hnsw is the vector retriever.
	// +kubebuilder:default={replicas: 2}
	// +optional
	HNSW RoleSpec `json:"hnsw,omitzero"`

	// reranker runs only where the recipe reranks.
	// +kubebuilder:default={replicas: 1}
	// +optional
	Reranker RoleSpec `json:"reranker,omitzero"`
}

// RetrievalPipelineSpec says how to index, search, serve and judge.
// +kubebuilder:validation:XValidation:rule="self.tenants.size() < 2 || self.tenants.all(t, has(t.evalSetRef))",message="tenants: with more than one tenant each needs an evalSetRef: add evalSetRef to every tenant"
// +kubebuilder:validation:XValidation:rule="self.tenants.size() < 2 || !has(self.access.identity.jwt) || (has(self.access.identity.jwt.tenantClaim) && self.access.identity.jwt.tenantClaim.size() > 0)",message="access.identity.jwt.tenantClaim is required with more than one tenant: name the token's claim that holds the tenant"
// +kubebuilder:validation:XValidation:rule="!has(self.promotion.gate.metrics) || self.promotion.gate.metrics.size() == 0 || self.tenants.all(t, has(t.evalSetRef))",message="promotion.gate.metrics need questions: add evalSetRef to every tenant, or remove the metrics"
// +kubebuilder:validation:XValidation:rule="self.tenants.all(t, !has(t.evalSetRef)) || (has(self.promotion.gate.metrics) && self.promotion.gate.metrics.size() > 0)",message="promotion.gate.metrics is empty although a tenant has an evalSetRef: name what to measure, for instance {name: Recall, k: 10, minimum: \"0.80\"}"
// +kubebuilder:validation:XValidation:rule="!has(self.retrieval.rerank) || !has(self.retrieval.rerank.type) || self.retrieval.rerank.type != 'Builtin' || self.indexing.embedding.model != (has(self.retrieval.rerank.model) ? self.retrieval.rerank.model : 'minilm-l6-v2')",message="rerank.type Builtin has nothing to add where the index holds vectors of the same model: use None or LateInteraction, or another indexing.embedding.model"
// +kubebuilder:validation:XValidation:rule="!has(self.promotion.gate.metrics) || self.promotion.gate.metrics.all(m, !has(m.k) || m.k <= self.retrieval.topK)",message="promotion.gate.metrics: k must not exceed retrieval.topK: raise topK or lower k"
type RetrievalPipelineSpec struct {
	// tenants, 1 to 64.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +required
	Tenants []Tenant `json:"tenants"`

	// indexing says what the text becomes: a change makes a new Index version.
	// +kubebuilder:default={}
	// +optional
	Indexing IndexingSpec `json:"indexing,omitzero"`

	// retrieval says how the index is searched: part of the version as well.
	// +kubebuilder:default={}
	// +optional
	Retrieval RetrievalSpec `json:"retrieval,omitzero"`

	// build says how the index is made: never part of a digest.
	// +kubebuilder:default={}
	// +optional
	Build BuildSpec `json:"build,omitzero"`

	// access says who may ask.
	// +required
	Access PipelineAccessSpec `json:"access"`

	// serving says how versions are served.
	// +kubebuilder:default={}
	// +optional
	Serving ServingSpec `json:"serving,omitzero"`

	// promotion says when a version replaces the serving one.
	// +kubebuilder:default={}
	// +optional
	Promotion PromotionSpec `json:"promotion,omitzero"`

	// historyLimit is the number of past versions that are kept per tenant, 1 to
	// 50. Defaults to 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +kubebuilder:default=5
	// +optional
	HistoryLimit int32 `json:"historyLimit,omitempty"`
}

// ActiveStatus is the version that answers a tenant's users.
type ActiveStatus struct {
	// index is the name of the Index.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Index string `json:"index"`

	// recall that the version's EvalRun measured.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Recall string `json:"recall,omitempty"`

	// promotedAt is the time of the promotion.
	// +optional
	PromotedAt *metav1.Time `json:"promotedAt,omitempty"`
}

// CandidateStage says how far a candidate is.
// +kubebuilder:validation:Enum=Building;Starting;Evaluating;Held
type CandidateStage string

const (
	// CandidateBuilding runs the Jobs.
	CandidateBuilding CandidateStage = "Building"
	// CandidateStarting starts the preview stack.
	CandidateStarting CandidateStage = "Starting"
	// CandidateEvaluating asks the questions.
	CandidateEvaluating CandidateStage = "Evaluating"
	// CandidateHeld waits for a hold, a rollback or an interval to end.
	CandidateHeld CandidateStage = "Held"
)

// CandidateStatus is the version on its way.
type CandidateStatus struct {
	// index is the name of the Index.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Index string `json:"index"`

	// stage is Building, Starting, Evaluating or Held.
	// +optional
	Stage CandidateStage `json:"stage,omitempty"`
}

// PreviousStatus is the version that a rollback switches to.
type PreviousStatus struct {
	// index is the name of the Index.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Index string `json:"index"`
}

// VerdictStatus is the newest verdict about a tenant's versions.
type VerdictStatus struct {
	// index that was judged.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Index string `json:"index"`

	// verdict of its EvalRun.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`

	// recall that was measured.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Recall string `json:"recall,omitempty"`

	// minimum that the gate asks for.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Minimum string `json:"minimum,omitempty"`

	// questions that counted.
	// +optional
	Questions int32 `json:"questions,omitempty"`

	// message for a person.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// TenantStatus is what users of one tenant get.
type TenantStatus struct {
	// name of the tenant.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// endpoint is the URL of the tenant's Service.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// active version.
	// +optional
	Active *ActiveStatus `json:"active,omitempty"`

	// candidate on its way.
	// +optional
	Candidate *CandidateStatus `json:"candidate,omitempty"`

	// previous version.
	// +optional
	Previous *PreviousStatus `json:"previous,omitempty"`

	// lastVerdict about this tenant's versions.
	// +optional
	LastVerdict *VerdictStatus `json:"lastVerdict,omitempty"`
}

// PipelineSummary counts, for the columns of kubectl get.
type PipelineSummary struct {
	// tenants in the spec.
	// +optional
	Tenants int32 `json:"tenants"`

	// promoted is the number of tenants that are served.
	// +optional
	Promoted int32 `json:"promoted"`

	// candidates is the number of versions on their way.
	// +optional
	Candidates int32 `json:"candidates"`
}

// RetrievalPipelineStatus is what users get, tenant by tenant.
type RetrievalPipelineStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready (users are served), Reconciling, Stalled.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// summary counts tenants, promoted ones and candidates.
	// +optional
	Summary *PipelineSummary `json:"summary,omitempty"`

	// tenants in the order of the spec.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Tenants []TenantStatus `json:"tenants,omitempty"`
}

// RetrievalPipeline says how documents are indexed, searched, served and judged,
// for one or more tenants.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rp,categories=quarry
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Tenants",type=integer,JSONPath=`.status.summary.tenants`
// +kubebuilder:printcolumn:name="Promoted",type=integer,JSONPath=`.status.summary.promoted`
// +kubebuilder:printcolumn:name="Candidates",type=integer,JSONPath=`.status.summary.candidates`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, because Service names and labels carry it: choose a shorter name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label that begins with a letter, because Services are named after it: use lower-case letters, digits and hyphens, no dots"
type RetrievalPipeline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +required
	Spec RetrievalPipelineSpec `json:"spec"`

	// status is what users get.
	// +optional
	Status RetrievalPipelineStatus `json:"status,omitzero"`
}

// RetrievalPipelineList is a list of RetrievalPipeline objects.
// +kubebuilder:object:root=true
type RetrievalPipelineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RetrievalPipeline `json:"items"`
}
