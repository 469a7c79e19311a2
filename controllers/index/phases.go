package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
)

const (
	defaultVerifyInterval = 10 * time.Minute
	// maxManifest bounds the manifest that the operator reads, in bytes.
	maxManifest = 8 << 20
	parentRetry = 5 * time.Second
)

// findParents reads the pipeline and the Corpus. Without them nothing can be built; what is built already stays.
func (r *Reconciler) findParents(ctx context.Context, s *scope) error {
	s.pipeline, s.corpus = &v1alpha1.RetrievalPipeline{}, &v1alpha1.Corpus{}
	// A parent may be missing only from the cache, which nothing tells of later: look again soon.
	s.requeue = parentRetry
	key := client.ObjectKey{Namespace: s.index.Namespace, Name: s.index.Spec.CorpusRef.Name}
	if err := r.Get(ctx, key, s.corpus); apierrors.IsNotFound(err) {
		return s.fail(v1alpha1.ReasonCorpusNotFound, fmt.Sprintf("spec.corpusRef: Corpus %q does not exist in this namespace: create it", key.Name))
	} else if err != nil {
		return err
	}
	if !s.corpus.DeletionTimestamp.IsZero() {
		return s.fail(v1alpha1.ReasonDeleting, fmt.Sprintf("spec.corpusRef: Corpus %q is being deleted, perhaps with its artifacts: nothing is built for it any more", key.Name))
	}
	key.Name = s.index.Spec.PipelineRef.Name
	if err := r.Get(ctx, key, s.pipeline); apierrors.IsNotFound(err) {
		return s.fail(v1alpha1.ReasonPipelineNotFound, fmt.Sprintf("spec.pipelineRef: RetrievalPipeline %q does not exist in this namespace: create it, or delete this Index", key.Name))
	} else if err != nil {
		return err
	}
	s.requeue = 0
	s.jobs = desired.JobsInput{Pipeline: s.pipeline, Corpus: s.corpus, Index: s.index}
	return nil
}

func (r *Reconciler) openArtifacts(ctx context.Context, s *scope) (err error) {
	s.bucket, err = r.Buckets.Artifacts(ctx, s.corpus)
	return err
}

// verify looks again for the files of an Index that is built, and ends the phases for it. A storage that cannot be
// reached proves nothing, so Ready stays as it is; a file that is missing or differs takes it away.
func (r *Reconciler) verify(ctx context.Context, s *scope) error {
	if !s.passed[desired.BuildPart] || s.index.Status.Artifact == nil {
		return nil
	}
	s.requeue = r.verifyInterval()
	err := r.checkArtifact(ctx, s, s.index.Status.Artifact.Digest)
	if broken(err) {
		message := fmt.Sprintf("%v: restore the artifacts bucket, or delete this Index so that it is built again", err)
		s.trouble = &trouble{reason: v1alpha1.ReasonArtifactsUnavailable, message: message, final: true, proof: true}
		return errEnd
	}
	if err != nil {
		return err
	}
	s.verified = true
	return errEnd
}

// adopt uses an artifact that another version of equal content has made.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
	if s.passed[desired.ChunkPart] {
		return nil
	}
	key, err := manifestKey(desired.ContentDigest(s.index))
	if err != nil {
		return err
	}
	body, _, err := artifact.ReadAll(ctx, s.bucket, key, artifact.Read{MaxBytes: maxManifest})
	if errors.Is(err, artifact.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	digest := artifact.Digest(body)
	if err := r.checkArtifact(ctx, s, digest); broken(err) || errors.Is(err, artifact.ErrFormat) {
		// Half an artifact is none, and neither is one of another release: the Jobs make it whole.
		return nil
	} else if err != nil {
		return err
	}
	s.adopted, s.manifestDigest = true, digest
	s.index.Status.Progress = nil
	return nil
}

// prepareJobs applies what the Jobs stand on. The number of shards and the parent are those of the first time.
func (r *Reconciler) prepareJobs(ctx context.Context, s *scope) error {
	if s.adopted {
		return nil
	}
	live := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: s.index.Namespace, Name: desired.PartName(s.index.Name, desired.ConfigPart)}
	if err := r.Get(ctx, key, live); apierrors.IsNotFound(err) {
		live = nil
	} else if err != nil {
		return err
	} else if err := desired.Conflict(live, s.index.UID); err != nil {
		return err
	}
	parent, err := r.parent(ctx, s)
	if err != nil {
		return err
	}
	s.jobs.Shards, s.jobs.Parent = desired.Shards(s.pipeline, live), desired.Parent(s.index, parent, live)
	config, err := desired.JobsConfig(s.jobs)
	if err != nil {
		return err
	}
	for _, obj := range []client.Object{config, desired.JobsNetworkPolicy(s.jobs)} {
		if err := apply.Apply(ctx, r.Client, obj, s.index); err != nil {
			return err
		}
	}
	return nil
}

// parent is the Index that this one builds upon, or nil: without it everything is written anew.
func (r *Reconciler) parent(ctx context.Context, s *scope) (*v1alpha1.Index, error) {
	if s.index.Spec.Parent == "" {
		return nil, nil
	}
	parent := &v1alpha1.Index{}
	err := r.Get(ctx, client.ObjectKey{Namespace: s.index.Namespace, Name: s.index.Spec.Parent}, parent)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return parent, err
}

// finish checks the artifact that the build reported, or that was found, and records it.
func (r *Reconciler) finish(ctx context.Context, s *scope) error {
	err := r.checkArtifact(ctx, s, s.manifestDigest)
	if broken(err) {
		return s.fail(v1alpha1.ReasonBuildFailed, fmt.Sprintf("the build reported success, but %v: delete Job %s to run it again", err, desired.PartName(s.index.Name, desired.BuildPart)))
	}
	if err != nil {
		return err
	}
	s.verified = true
	s.requeue = r.verifyInterval()
	for _, stage := range desired.Stages(s.index) {
		s.passed[stage] = true
	}
	return nil
}

// checkArtifact reads the manifest, whose bytes must have the digest, looks for each of its files, and records what it says.
func (r *Reconciler) checkArtifact(ctx context.Context, s *scope, digest string) error {
	content := desired.ContentDigest(s.index)
	manifest, err := artifact.ReadManifest(ctx, s.bucket, content, digest)
	if err != nil {
		return err
	}
	for _, segment := range manifest.Segments {
		objects, err := segment.Objects()
		if err != nil {
			return err
		}
		for key, file := range objects {
			info, err := s.bucket.Head(ctx, key)
			if err != nil {
				return err
			}
			if info.Size != file.Bytes {
				return fmt.Errorf("%s has %d bytes instead of %d: %w", key, info.Size, file.Bytes, artifact.ErrDigest)
			}
		}
	}
	key, err := manifestKey(content)
	if err != nil {
		return err
	}
	recordManifest(s, manifest, digest, key)
	return nil
}

// broken tells whether the error proves that an artifact is not whole, in contrast to a storage that does not answer.
func broken(err error) bool {
	return errors.Is(err, artifact.ErrNotFound) || errors.Is(err, artifact.ErrDigest)
}

func manifestKey(content string) (string, error) {
	hex, err := artifact.DigestHex(content)
	if err != nil {
		return "", fmt.Errorf("content: %w", err)
	}
	return strings.Join([]string{"indexes", hex, "manifest.json"}, "/"), nil
}

func (r *Reconciler) verifyInterval() time.Duration {
	if r.VerifyInterval > 0 {
		return r.VerifyInterval
	}
	return defaultVerifyInterval
}
