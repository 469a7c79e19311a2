package index

import (
	"strings"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/stage"
)

const (
	// maxFailures is how many documents in quarantine status names; every one of them is in the reports.
	maxFailures = 10
	maxKey      = 1024
)

const noChunksMessage = "no document of the snapshot gave a chunk: look at status.failures, and at include and exclude of the Corpus"

// record takes the reports of a complete stage into status, so that the Job is not needed any more.
func record(s *scope, part desired.Part, reports []stage.Report) error {
	counts := &v1alpha1.CountsStatus{}
	if s.index.Status.Counts != nil {
		counts = s.index.Status.Counts.DeepCopy()
	}
	var total stage.Report
	for _, report := range reports {
		total.Documents += report.Documents
		total.Failed += report.Failed
		total.Chunks += report.Chunks
		total.Tokens += report.Tokens
		total.Reused += report.Reused
		total.Failures = append(total.Failures, report.Failures...)
	}
	s.index.Status.Counts = counts
	switch part {
	case desired.ChunkPart:
		*counts = v1alpha1.CountsStatus{
			Documents: total.Documents, FailedDocuments: total.Failed, Chunks: total.Chunks, Tokens: total.Tokens, ReusedChunks: total.Reused,
		}
		s.index.Status.Failures = failures(total.Failures)
		if total.Chunks == 0 {
			return s.fail(v1alpha1.ReasonNoChunks, noChunksMessage)
		}
	case desired.EmbedPart:
		counts.ReusedVectors = total.Reused
	case desired.BuildPart:
		s.manifestDigest = reports[0].ManifestDigest
	}
	return nil
}

// recordManifest takes the manifest's facts into status. What was reused is known to the Jobs alone.
func recordManifest(s *scope, manifest artifact.Manifest, digest, key string) {
	status := &s.index.Status
	at := s.corpus.Spec.Artifacts.S3.S3Location
	status.Artifact = &v1alpha1.ArtifactStatus{
		URI:    apply.Truncate("s3://"+at.Bucket+"/"+strings.TrimPrefix(at.Prefix+key, "/"), maxKey),
		Digest: digest, Bytes: manifest.Bytes(), Segments: int32(len(manifest.Segments)),
	}
	status.Attestation = &v1alpha1.AttestationStatus{
		EmbeddingModelDigest: manifest.Attestation.EmbeddingModelDigest, EmbeddingKernels: manifest.Attestation.EmbeddingKernels,
		Dimensions: manifest.Attestation.Dimensions,
		Analyzer:   manifest.Attestation.Analyzer, FormatVersion: manifest.Attestation.FormatVersion,
	}
	counts := &v1alpha1.CountsStatus{}
	if status.Counts != nil {
		counts = status.Counts.DeepCopy()
	}
	counts.Documents, counts.FailedDocuments = manifest.Counts.Documents, manifest.Counts.FailedDocuments
	counts.Chunks, counts.Tokens = manifest.Counts.Chunks, manifest.Counts.Tokens
	if s.adopted {
		counts.ReusedChunks, counts.ReusedVectors = manifest.Counts.Chunks, manifest.Counts.Chunks
	}
	status.Counts = counts
}

// failures are the first documents in quarantine, cut to what the API holds.
func failures(all []stage.Failure) []v1alpha1.DocumentFailure {
	var out []v1alpha1.DocumentFailure
	for _, failure := range all[:min(len(all), maxFailures)] {
		out = append(out, v1alpha1.DocumentFailure{
			Document: apply.Truncate(failure.Document, maxKey), Reason: failure.Reason, Message: apply.Truncate(failure.Message, maxKey),
		})
	}
	return out
}
