package v1alpha1

// Condition types. Ready, Reconciling and Stalled follow kstatus: Reconciling
// and Stalled are True only while they apply.
const (
	// ConditionReady: Corpus - the documents are known and fresh; Index - built
	// and verified; RetrievalPipeline - users are served; EvalRun - the record is
	// complete, whatever the verdict.
	ConditionReady = "Ready"
	// ConditionReconciling: something is under way.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: nothing moves until a person changes something.
	ConditionStalled = "Stalled"

	// ConditionContentFresh: the last listing succeeded within its interval and no
	// deletion is withheld.
	ConditionContentFresh = "ContentFresh"
	// ConditionAccessFresh: the overlay holds the access of the last listing.
	ConditionAccessFresh = "AccessFresh"

	// ConditionChunked: every document is parsed and cut, or in quarantine.
	ConditionChunked = "Chunked"
	// ConditionContextualized: every chunk has its context.
	ConditionContextualized = "Contextualized"
	// ConditionEmbedded: every chunk has its vector.
	ConditionEmbedded = "Embedded"
	// ConditionBuilt: the manifest is written.
	ConditionBuilt = "Built"

	// ConditionValid: the measurement is meaningful.
	ConditionValid = "Valid"
	// ConditionPassed: every metric holds and nothing leaked.
	ConditionPassed = "Passed"
)

// Reasons are a closed list; a message says the particulars.
const (
	// ReasonReady: all is well.
	ReasonReady = "Ready"
	// ReasonProgressing: something is under way.
	ReasonProgressing = "Progressing"
	// ReasonSynced: the last listing succeeded.
	ReasonSynced = "Synced"
	// ReasonSuspended: spec.sync.mode is Suspended.
	ReasonSuspended = "Suspended"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonNotStarted: an earlier step is not done yet.
	ReasonNotStarted = "NotStarted"

	// ReasonNameConflict: an object of the needed name belongs to somebody else.
	ReasonNameConflict = "NameConflict"
	// ReasonArtifactsOwned: another Corpus owns the artifacts prefix.
	ReasonArtifactsOwned = "ArtifactsOwned"
	// ReasonArtifactsUnavailable: the artifacts bucket cannot be read or written.
	ReasonArtifactsUnavailable = "ArtifactsUnavailable"

	// ReasonListingFailed: the source could not be listed; nothing was deleted.
	ReasonListingFailed = "ListingFailed"
	// ReasonBucketNotFound: the bucket does not exist.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonAccessDenied: the object store refuses the key.
	ReasonAccessDenied = "AccessDenied"
	// ReasonSecretNotFound: a Secret, or a key of it, does not exist.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonDeletionsWithheld: the guard holds deletions back until they are
	// approved.
	ReasonDeletionsWithheld = "DeletionsWithheld"

	// ReasonCorpusNotFound: corpusRef names no Corpus.
	ReasonCorpusNotFound = "CorpusNotFound"
	// ReasonPipelineNotFound: pipelineRef names no RetrievalPipeline.
	ReasonPipelineNotFound = "PipelineNotFound"

	// ReasonBuilding: Jobs are running.
	ReasonBuilding = "Building"
	// ReasonBuilt: the manifest is written.
	ReasonBuilt = "Built"
	// ReasonCompleted: the stage is done.
	ReasonCompleted = "Completed"
	// ReasonSkipped: the recipe does not need the stage, or it was done before.
	ReasonSkipped = "Skipped"
	// ReasonBuildFailed: a Job failed.
	ReasonBuildFailed = "BuildFailed"
	// ReasonReportInvalid: a Job's report is missing, or its digest differs.
	ReasonReportInvalid = "ReportInvalid"
	// ReasonNoChunks: the documents hold no text.
	ReasonNoChunks = "NoChunks"
	// ReasonImagePull: a pod cannot pull its image.
	ReasonImagePull = "ImagePull"

	// ReasonServing: users are served.
	ReasonServing = "Serving"
	// ReasonNoActiveIndex: no version was promoted yet.
	ReasonNoActiveIndex = "NoActiveIndex"
	// ReasonUnavailable: the active stack has too few ready pods.
	ReasonUnavailable = "Unavailable"
	// ReasonHeld: a hold, a rollback or an interval keeps a version waiting.
	ReasonHeld = "Held"
	// ReasonGateFailed: a version is not good enough, or leaks.
	ReasonGateFailed = "GateFailed"

	// ReasonEvalSetNotFound: evalSetRef names nothing.
	ReasonEvalSetNotFound = "EvalSetNotFound"
	// ReasonPassed, ReasonFailed, ReasonInconclusive, ReasonError and
	// ReasonCancelled repeat the verdict of a run.
	ReasonPassed       = "Passed"
	ReasonFailed       = "Failed"
	ReasonInconclusive = "Inconclusive"
	ReasonError        = "Error"
	ReasonCancelled    = "Cancelled"
)
