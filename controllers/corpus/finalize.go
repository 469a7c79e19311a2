package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/artifact"
)

const (
	purgeTimeout = 15 * time.Minute
	purgePause   = 10 * time.Second
	// purgeEnd is how long after the deletion tries go on. It has an end even where the storage is gone for good: what
	// remains then lies below the prefix, and the event says so.
	purgeEnd = 30 * time.Minute
)

// finalize deletes the artifacts where the policy says so, and lets the Corpus go.
func (r *Reconciler) finalize(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.corpus, Finalizer) {
		r.forget(s.key)
		return ctrl.Result{}, nil
	}
	if s.corpus.Spec.DeletionPolicy != v1alpha1.DeletionDelete {
		return ctrl.Result{}, r.release(ctx, s)
	}
	m := s.memory
	if m.generation != purging {
		// A listing that still runs would write what is being deleted.
		r.pool.Forget(s.key)
		m.generation, m.started, m.last = purging, time.Time{}, nil
	}
	if found, ok := r.pool.Take(s.key); ok {
		m.last = &found
	}
	if m.last != nil && m.last.generation == purging && (m.last.err == nil || r.giveUp(s, m.last.err)) {
		return ctrl.Result{}, r.release(ctx, s)
	}
	if r.pool.Running(s.key) {
		return ctrl.Result{}, nil
	}
	if wait := m.started.Add(purgePause).Sub(s.now); !m.started.IsZero() && wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	cluster, err := r.clusterUID(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	corpus := s.corpus.DeepCopy()
	m.started = s.now
	r.pool.Run(s.key, purgeTimeout, func(ctx context.Context) outcome {
		return outcome{generation: purging, err: r.purge(ctx, corpus, cluster)}
	})
	return ctrl.Result{}, nil
}

// purging stands for a generation in the memory of a Corpus that is being deleted.
const purging = -1

// giveUp tells whether an error ends the tries, and says so in an event. A Secret that is gone comes back no more
// while its namespace is deleted, and without it nothing can be reached.
func (r *Reconciler) giveUp(s *scope, err error) bool {
	if !objectstore.IsMissing(err) && s.now.Before(s.corpus.DeletionTimestamp.Add(purgeEnd)) {
		return false
	}
	at := s.corpus.Spec.Artifacts.S3
	r.Recorder.Eventf(s.corpus, nil, corev1.EventTypeWarning, "ArtifactsKept", "Delete",
		"the artifacts in bucket %q below prefix %q were not all deleted: %v: delete them by hand", at.Bucket, at.Prefix, err)
	return true
}

func (r *Reconciler) release(ctx context.Context, s *scope) error {
	r.forget(s.key)
	return r.setFinalizer(ctx, s, false)
}

// purge deletes what Quarry writes below the prefix, if this Corpus owns it: a prefix may hold the prefix of another Corpus,
// or objects that are not Quarry's. OWNER goes last, so that a purge that breaks off can be taken up again.
func (r *Reconciler) purge(ctx context.Context, corpus *v1alpha1.Corpus, cluster string) error {
	bucket, err := r.Buckets.Artifacts(ctx, corpus)
	if err != nil {
		return err
	}
	body, _, err := artifact.ReadAll(ctx, bucket, artifact.OwnerKey, artifact.Read{MaxBytes: 4096})
	if errors.Is(err, artifact.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var found artifact.Owner
	if json.Unmarshal(body, &found) != nil || found != owner(corpus, cluster) {
		return nil
	}
	var keys []string
	err = bucket.List(ctx, "", func(info artifact.Info) error {
		if artifact.InLayout(info.Key) {
			keys = append(keys, info.Key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the artifacts: %w", err)
	}
	for _, key := range append(keys, artifact.OwnerKey) {
		if err := bucket.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete %q: %w", key, err)
		}
	}
	return nil
}
