package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SnapshotRef names a listing by its digest.
type SnapshotRef struct {
	// digest of the listing.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="digest must be sha256: and 64 hexadecimal digits, as in status.snapshot.digest of the Corpus"
	// +required
	Digest string `json:"digest"`
}

// IndexSpec is one version of one tenant; it never changes.
// +kubebuilder:validation:XValidation:rule="!has(self.retrieval.rerank) || !has(self.retrieval.rerank.type) || self.retrieval.rerank.type != 'Builtin' || self.indexing.embedding.model != (has(self.retrieval.rerank.model) ? self.retrieval.rerank.model : 'minilm-l6-v2')",message="rerank.type Builtin has nothing to add where the index holds vectors of the same model: use None or LateInteraction, or another indexing.embedding.model"
type IndexSpec struct {
	// pipelineRef names the RetrievalPipeline that wants this version.
	// +required
	PipelineRef LocalRef `json:"pipelineRef"`

	// tenant that this version belongs to.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="tenant must be a DNS label: lower-case letters, digits and hyphens"
	// +required
	Tenant string `json:"tenant"`

	// corpusRef names the Corpus.
	// +required
	CorpusRef LocalRef `json:"corpusRef"`

	// snapshot is the listing whose documents this version holds.
	// +required
	Snapshot SnapshotRef `json:"snapshot"`

	// parent is the name of the Index that this one builds upon.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Parent string `json:"parent,omitempty"`

	// indexing says what the text becomes.
	// +kubebuilder:default={}
	// +optional
	Indexing IndexingSpec `json:"indexing,omitzero"`

	// retrieval says how the index is searched.
	// +kubebuilder:default={}
	// +optional
	Retrieval RetrievalSpec `json:"retrieval,omitzero"`

	// image that builds and serves this version.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Image string `json:"image"`

	// versionDigest binds snapshot, indexing, retrieval and image.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="versionDigest must be sha256: and 64 hexadecimal digits"
	// +required
	VersionDigest string `json:"versionDigest"`
}

// ServingState is the part that a version plays for its tenant.
// +kubebuilder:validation:Enum=None;Preview;Active;Previous
type ServingState string

const (
	// ServingNone has no stack.
	ServingNone ServingState = "None"
	// ServingPreview has a stack that no user reaches.
	ServingPreview ServingState = "Preview"
	// ServingActive answers users.
	ServingActive ServingState = "Active"
	// ServingPrevious stays warm for a rollback.
	ServingPrevious ServingState = "Previous"
)

// ProgressStatus is the stage that runs and its completed shards.
type ProgressStatus struct {
	// stage is Chunk, Contextualize, Embed, Build or Done.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Stage string `json:"stage,omitempty"`

	// completed shards.
	// +optional
	Completed int32 `json:"completed"`

	// total shards.
	// +optional
	Total int32 `json:"total"`
}

// CountsStatus is what the version holds, and what it did not have to compute.
type CountsStatus struct {
	// documents in the snapshot.
	// +optional
	Documents int64 `json:"documents"`

	// failedDocuments in quarantine.
	// +optional
	FailedDocuments int64 `json:"failedDocuments"`

	// chunks in the index.
	// +optional
	Chunks int64 `json:"chunks"`

	// tokens in all chunks.
	// +optional
	Tokens int64 `json:"tokens"`

	// reusedChunks that an earlier version had made.
	// +optional
	ReusedChunks int64 `json:"reusedChunks"`

	// reusedVectors that an earlier version had made.
	// +optional
	ReusedVectors int64 `json:"reusedVectors"`
}

// ArtifactStatus is the manifest, which names every file by sha256.
type ArtifactStatus struct {
	// uri of the manifest.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	URI string `json:"uri"`

	// digest of the manifest.
	// +kubebuilder:validation:MaxLength=71
	// +required
	Digest string `json:"digest"`

	// bytes of all files.
	// +optional
	Bytes int64 `json:"bytes"`

	// segments of the index.
	// +optional
	Segments int32 `json:"segments"`
}

// AttestationStatus is what the build says that it used.
type AttestationStatus struct {
	// embeddingModelDigest is the digest of the model's file.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	EmbeddingModelDigest string `json:"embeddingModelDigest,omitempty"`

	// embeddingKernels lists the sets of CPU instructions whose roundings the
	// vectors carry, separated by commas; "exact" where none matters.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	EmbeddingKernels string `json:"embeddingKernels,omitempty"`

	// dimensions of the vectors.
	// +optional
	Dimensions int32 `json:"dimensions,omitempty"`

	// analyzer of the lexical index.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Analyzer string `json:"analyzer,omitempty"`

	// formatVersion of the files.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	FormatVersion string `json:"formatVersion,omitempty"`
}

// IndexStatus is how far a version is and what it holds.
type IndexStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Chunked, Contextualized, Embedded, Built, Ready, Reconciling,
	// Stalled.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// serving is None, Preview, Active or Previous.
	// +optional
	Serving ServingState `json:"serving,omitempty"`

	// recall that the newest EvalRun of this version measured.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Recall string `json:"recall,omitempty"`

	// progress of the build.
	// +optional
	Progress *ProgressStatus `json:"progress,omitempty"`

	// counts of documents, chunks and reuse.
	// +optional
	Counts *CountsStatus `json:"counts,omitempty"`

	// artifact is the manifest.
	// +optional
	Artifact *ArtifactStatus `json:"artifact,omitempty"`

	// attestation of the build.
	// +optional
	Attestation *AttestationStatus `json:"attestation,omitempty"`

	// failures: at most 10 documents in quarantine.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Failures []DocumentFailure `json:"failures,omitempty"`
}

// Index is one immutable version of one tenant's index.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=indexes,shortName=ridx,categories=quarry
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenant`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.progress.stage`
// +kubebuilder:printcolumn:name="Progress",type=integer,JSONPath=`.status.progress.completed`
// +kubebuilder:printcolumn:name="Of",type=integer,JSONPath=`.status.progress.total`
// +kubebuilder:printcolumn:name="Chunks",type=integer,JSONPath=`.status.counts.chunks`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.counts.failedDocuments`
// +kubebuilder:printcolumn:name="Recall",type=string,JSONPath=`.status.recall`
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.serving`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Model",type=string,priority=1,JSONPath=`.spec.indexing.embedding.model`
// +kubebuilder:printcolumn:name="Rerank",type=string,priority=1,JSONPath=`.spec.retrieval.rerank.type`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, because labels carry it: choose a shorter name"
type Index struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec never changes: another recipe is another Index.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec of an Index is immutable: change the RetrievalPipeline, which makes a new Index"
	// +required
	Spec IndexSpec `json:"spec"`

	// status is how far the version is.
	// +optional
	Status IndexStatus `json:"status,omitzero"`
}

// IndexList is a list of Index objects.
// +kubebuilder:object:root=true
type IndexList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Index `json:"items"`
}
