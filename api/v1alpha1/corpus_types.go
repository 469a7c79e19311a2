package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SourceType is the discriminator of SourceSpec.
// +kubebuilder:validation:Enum=S3
type SourceType string

// SourceS3 reads documents from an S3-compatible object store.
const SourceS3 SourceType = "S3"

// SourceSpec is a union: type says which member is set.
// +kubebuilder:validation:XValidation:rule="(self.type == 'S3') == has(self.s3)",message="s3 must be set when type is S3, and only then"
type SourceSpec struct {
	// type of the source; S3 is the only one.
	// +required
	Type SourceType `json:"type"`

	// s3 is the source for type S3.
	// +optional
	S3 *S3Source `json:"s3,omitempty"`
}

// S3Source is the place of the documents, and which of them count.
// +kubebuilder:validation:XValidation:rule="self.prefix == oldSelf.prefix",message="prefix of the source is immutable, because keys, access rules and sidecars are relative to it: create a new Corpus"
type S3Source struct {
	S3Location `json:",inline"`

	// credentialsRef names a Secret with accessKeyID, secretAccessKey and, if
	// needed, sessionToken. The key must be able to list and read.
	// +required
	CredentialsRef SecretRef `json:"credentialsRef"`

	// caBundleRef names a key of a Secret with PEM certificates to trust beside
	// the system's own.
	// +optional
	CABundleRef *KeyRef `json:"caBundleRef,omitempty"`

	// include lists globs, relative to the prefix; ** matches any number of
	// folders. Empty means every object.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	// +optional
	Include []string `json:"include,omitempty"`

	// exclude lists globs, relative to the prefix, that win over include.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	// +optional
	Exclude []string `json:"exclude,omitempty"`
}

// SyncMode says whether the source is listed.
// +kubebuilder:validation:Enum=Active;Suspended
type SyncMode string

const (
	// SyncActive lists the source every interval.
	SyncActive SyncMode = "Active"
	// SyncSuspended lists nothing; what is served stays as it is.
	SyncSuspended SyncMode = "Suspended"
)

// SyncSpec says how the source is followed.
type SyncSpec struct {
	// interval between two full listings, 1s to 24h. Defaults to 1m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="interval must be a duration from 1s to 24h, for instance 1m"
	// +kubebuilder:default="1m"
	// +optional
	Interval metav1.Duration `json:"interval,omitzero"`

	// mode is Active or Suspended. Defaults to Active.
	// +kubebuilder:default=Active
	// +optional
	Mode SyncMode `json:"mode,omitempty"`

	// deletionGuard withholds suspiciously many deletions.
	// +kubebuilder:default={}
	// +optional
	DeletionGuard DeletionGuard `json:"deletionGuard,omitzero"`

	// approveDeletions is consent to the deletions of one listing.
	// +optional
	ApproveDeletions *ApproveDeletions `json:"approveDeletions,omitempty"`

	// retryFailed: any new word re-tries the documents in quarantine; not yet
	// supported.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() == 0",message="retryFailed is not yet supported: remove it; a document in quarantine is tried again with the next Index"
	// +optional
	RetryFailed string `json:"retryFailed,omitempty"`
}

// DeletionGuard trips when one listing lost more documents than
// max(10, min(maxPercent of N, maxDocuments)), and whenever N falls to 0.
type DeletionGuard struct {
	// maxPercent of the last snapshot's documents, 0 to 100. Defaults to 20.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=20
	// +optional
	MaxPercent int32 `json:"maxPercent"`

	// maxDocuments is an absolute bound. Defaults to 1000.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=1000
	// +optional
	MaxDocuments int32 `json:"maxDocuments"`
}

// ApproveDeletions is bounded consent to the deletions of exactly one listing.
type ApproveDeletions struct {
	// max number of deletions that are approved.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	// +required
	Max int32 `json:"max"`

	// listingDigest is status.lastSync.listingDigest of the listing in question.
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="listingDigest must be sha256: and 64 hexadecimal digits: copy it from status.lastSync.listingDigest"
	// +required
	ListingDigest string `json:"listingDigest"`

	// expires is the time after which the consent counts no more.
	// +required
	Expires metav1.Time `json:"expires"`
}

// AccessDefault says who reads a document that nothing else names.
// +kubebuilder:validation:Enum=Nobody;Everyone
type AccessDefault string

const (
	// AccessNobody hides documents that no rule and no sidecar names.
	AccessNobody AccessDefault = "Nobody"
	// AccessEveryone shows them to every verified principal of the tenant.
	AccessEveryone AccessDefault = "Everyone"
)

// AccessSpec says who may read which document: a sidecar beats the object's
// metadata, that beats the longest matching rule, that beats the default.
type AccessSpec struct {
	// default is Nobody or Everyone. Defaults to Nobody.
	// +kubebuilder:default=Nobody
	// +optional
	Default AccessDefault `json:"default,omitempty"`

	// rules by prefix; the longest matching prefix wins.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=prefix
	// +optional
	Rules []AccessRule `json:"rules,omitempty"`

	// sidecarSuffix: the object <key><suffix> holds the access of <key>.
	// Defaults to .acl.json.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[.][A-Za-z0-9._-]+$')",message="sidecarSuffix must begin with a dot followed by letters, digits, dots or hyphens, for instance .acl.json"
	// +kubebuilder:default=".acl.json"
	// +optional
	SidecarSuffix string `json:"sidecarSuffix,omitempty"`
}

// AccessRule names the readers of every document below a prefix.
type AccessRule struct {
	// prefix of the documents' keys, relative to the source's prefix.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/')",message="prefix must not begin with '/': it is relative to the source's prefix; remove the slash"
	// +required
	Prefix string `json:"prefix"`

	// allow lists the readers; an empty list means nobody.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Allow []Principal `json:"allow,omitempty"`
}

// ArtifactsSpec says where caches, indexes, overlays and reports live.
type ArtifactsSpec struct {
	// s3 is the place; one Corpus owns it.
	// +required
	S3 ArtifactsS3 `json:"s3"`

	// retention of content that was deleted at the source.
	// +kubebuilder:default={}
	// +optional
	Retention RetentionSpec `json:"retention,omitzero"`
}

// ArtifactsS3 is the artifacts' place with one key to write and one to read.
// +kubebuilder:validation:XValidation:rule="self.prefix.size() == 0 || self.prefix.endsWith('/')",message="prefix of artifacts must end with '/' or be empty: append the slash, so that acme/ and acme-eu/ stay apart"
// +kubebuilder:validation:XValidation:rule="self.endpoint == oldSelf.endpoint && self.bucket == oldSelf.bucket && self.prefix == oldSelf.prefix",message="endpoint, bucket and prefix of artifacts are immutable, because every Index of this Corpus lies there: create a new Corpus"
type ArtifactsS3 struct {
	S3Location `json:",inline"`

	// writeCredentialsRef names a Secret whose key may read, write and delete.
	// +required
	WriteCredentialsRef SecretRef `json:"writeCredentialsRef"`

	// readCredentialsRef names a Secret whose key may only list and read; it is
	// the one that serving pods mount.
	// +required
	ReadCredentialsRef SecretRef `json:"readCredentialsRef"`

	// caBundleRef names a key of a Secret with PEM certificates to trust beside
	// the system's own.
	// +optional
	CABundleRef *KeyRef `json:"caBundleRef,omitempty"`
}

// RetentionSpec bounds how long deleted content may stay in artifacts.
type RetentionSpec struct {
	// deletedContent: after this time no object below the artifacts' prefix holds
	// a deleted document's text or vectors. A number and s, m, h or d. Not yet
	// supported: nothing is purged while the Corpus exists.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self == ''",message="artifacts.retention.deletedContent is not yet supported: remove it; deleted documents leave the results at once, and their artifacts with the Corpus"
	// +optional
	DeletedContent string `json:"deletedContent,omitempty"`
}

// DeletionPolicy says what happens to the artifacts when the Corpus goes.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

const (
	// DeletionRetain keeps the artifacts.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete deletes every object below the artifacts' prefix.
	DeletionDelete DeletionPolicy = "Delete"
)

// CorpusSpec is a set of documents, who may read them, and where Quarry keeps
// what it makes of them.
// +kubebuilder:validation:XValidation:rule="!has(self.source.s3) || self.source.s3.endpoint != self.artifacts.s3.endpoint || self.source.s3.bucket != self.artifacts.s3.bucket || !(self.source.s3.prefix.startsWith(self.artifacts.s3.prefix) || self.artifacts.s3.prefix.startsWith(self.source.s3.prefix))",message="artifacts.s3 must not overlap source.s3: choose another bucket, or prefixes of which neither begins with the other"
type CorpusSpec struct {
	// source of the documents.
	// +required
	Source SourceSpec `json:"source"`

	// sync says how the source is followed.
	// +kubebuilder:default={}
	// +optional
	Sync SyncSpec `json:"sync,omitzero"`

	// access says who may read which document.
	// +kubebuilder:default={}
	// +optional
	Access AccessSpec `json:"access,omitzero"`

	// artifacts says where caches, indexes, overlays and reports live.
	// +required
	Artifacts ArtifactsSpec `json:"artifacts"`

	// deletionPolicy for the artifacts: Retain or Delete. Defaults to Retain.
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// SnapshotStatus is the listing that the newest index should hold.
type SnapshotStatus struct {
	// digest of the listing (keys, ETags and sizes; access is not part of it).
	// +kubebuilder:validation:MaxLength=71
	// +required
	Digest string `json:"digest"`

	// documents in the listing.
	// +optional
	Documents int64 `json:"documents"`

	// bytes of all documents together.
	// +optional
	Bytes int64 `json:"bytes"`
}

// AccessStatus is the newest access overlay.
type AccessStatus struct {
	// epoch counts the changes of access; it only grows.
	// +optional
	Epoch int64 `json:"epoch"`

	// digest of the overlay.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	Digest string `json:"digest,omitempty"`
}

// SyncStatus is the outcome of a listing. It is written only when the outcome
// changes; the heartbeat is a metric.
type SyncStatus struct {
	// added documents since the last snapshot.
	// +optional
	Added int64 `json:"added"`

	// modified documents.
	// +optional
	Modified int64 `json:"modified"`

	// deleted documents that were applied.
	// +optional
	Deleted int64 `json:"deleted"`

	// unchanged documents.
	// +optional
	Unchanged int64 `json:"unchanged"`

	// failed documents, that is those in quarantine and unreadable sidecars.
	// +optional
	Failed int64 `json:"failed"`

	// withheldDeletions that the guard holds back.
	// +optional
	WithheldDeletions int64 `json:"withheldDeletions"`

	// listingDigest is what approveDeletions must name.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ListingDigest string `json:"listingDigest,omitempty"`

	// finishedAt is the time at which this outcome was first seen.
	// +optional
	FinishedAt metav1.Time `json:"finishedAt,omitzero"`
}

// CorpusStatus is what Quarry knows about the documents.
type CorpusStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Reconciling, Stalled, ContentFresh, AccessFresh.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// snapshot is the listing that the newest index should hold.
	// +optional
	Snapshot *SnapshotStatus `json:"snapshot,omitempty"`

	// access changes without any re-index.
	// +optional
	Access *AccessStatus `json:"access,omitempty"`

	// lastSync is the outcome of the last listing that differed.
	// +optional
	LastSync *SyncStatus `json:"lastSync,omitempty"`

	// failures: at most 10; the rest stands in the ledger.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Failures []DocumentFailure `json:"failures,omitempty"`

	// oldestUnpurgedDeletion is the time of the oldest deletion whose text or
	// vectors may still lie in artifacts.
	// +optional
	OldestUnpurgedDeletion *metav1.Time `json:"oldestUnpurgedDeletion,omitempty"`

	// ledgerURI is the object with every failure.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LedgerURI string `json:"ledgerURI,omitempty"`
}

// Corpus is a set of documents in object storage, and who may read them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=corp,categories=quarry
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Fresh",type=string,JSONPath=`.status.conditions[?(@.type=="ContentFresh")].status`
// +kubebuilder:printcolumn:name="Docs",type=integer,JSONPath=`.status.snapshot.documents`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.lastSync.failed`
// +kubebuilder:printcolumn:name="Changed",type=date,JSONPath=`.status.lastSync.finishedAt`
// +kubebuilder:printcolumn:name="Withheld",type=integer,priority=1,JSONPath=`.status.lastSync.withheldDeletions`
// +kubebuilder:printcolumn:name="Epoch",type=integer,priority=1,JSONPath=`.status.access.epoch`
// +kubebuilder:printcolumn:name="Bucket",type=string,priority=1,JSONPath=`.spec.source.s3.bucket`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, because labels carry it: choose a shorter name"
type Corpus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +required
	Spec CorpusSpec `json:"spec"`

	// status is what Quarry sees.
	// +optional
	Status CorpusStatus `json:"status,omitzero"`
}

// CorpusList is a list of Corpus objects.
// +kubebuilder:object:root=true
type CorpusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Corpus `json:"items"`
}
