package corpus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/source"
)

const (
	defaultInterval = time.Minute
	// syncTimeout bounds one listing, so that a source that hangs holds its worker for so long at most.
	syncTimeout = time.Hour
	// firstRetry doubles with each failure in a row, up to the interval or maxRetry, whichever is shorter.
	firstRetry = 2 * time.Second
	maxRetry   = time.Minute
)

// ensureFinalizer keeps the finalizer exactly while there would be something to do at the end.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	wanted := s.corpus.Spec.DeletionPolicy == v1alpha1.DeletionDelete
	if controllerutil.ContainsFinalizer(s.corpus, Finalizer) == wanted {
		return nil
	}
	return r.setFinalizer(ctx, s, wanted)
}

func (r *Reconciler) setFinalizer(ctx context.Context, s *scope, wanted bool) error {
	changed := s.corpus.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(changed, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, Finalizer)
	}
	patch := client.MergeFromWithOptions(s.corpus, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, changed, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.corpus.Finalizers, s.corpus.ResourceVersion = changed.Finalizers, changed.ResourceVersion
	s.before = s.corpus.DeepCopy()
	return nil
}

// takeOutcome remembers what the worker found since the last time.
func (r *Reconciler) takeOutcome(_ context.Context, s *scope) error {
	found, ok := r.pool.Take(s.key)
	if !ok {
		return nil
	}
	s.memory.last = &found
	s.memory.failures++
	if found.err == nil {
		s.memory.failures = 0
	}
	observe(s.key, found, s.now)
	return nil
}

// findLive lists the snapshots that the overlay must cover: of every Index, whether it serves now or may yet.
func (r *Reconciler) findLive(ctx context.Context, s *scope) error {
	list := &v1alpha1.IndexList{}
	if err := r.List(ctx, list, client.InNamespace(s.key.Namespace)); err != nil {
		return err
	}
	slices.SortStableFunc(list.Items, func(a, b v1alpha1.Index) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for i := range list.Items {
		index := &list.Items[i]
		digest := index.Spec.Snapshot.Digest
		if index.Spec.CorpusRef.Name == s.key.Name && !slices.Contains(s.live, digest) {
			s.live = append(s.live, digest)
		}
	}
	return nil
}

// scheduleSync gives the worker a task when one is due, and says when to look again.
func (r *Reconciler) scheduleSync(ctx context.Context, s *scope) error {
	if s.corpus.Spec.Sync.Mode == v1alpha1.SyncSuspended || r.pool.Running(s.key) {
		return nil
	}
	live := liveKey(s.live)
	m := s.memory
	changed := m.generation != s.corpus.Generation || m.live != live
	if wait := m.started.Add(s.pause()).Sub(s.now); !m.started.IsZero() && !changed && wait > 0 {
		s.requeue = wait
		return nil
	}
	task, err := r.syncTask(ctx, s)
	if err != nil {
		return err
	}
	if r.pool.Run(s.key, syncTimeout, task) {
		m.started, m.generation, m.live = s.now, s.corpus.Generation, live
	}
	return nil
}

// pause is the time between the starts of two listings.
func (s *scope) pause() time.Duration {
	interval := s.corpus.Spec.Sync.Interval.Duration
	if interval <= 0 {
		interval = defaultInterval
	}
	if s.memory.failures == 0 {
		return interval
	}
	return min(interval, maxRetry, firstRetry<<min(s.memory.failures-1, 10))
}

// syncTask is the work of one listing, on copies of everything: the reconcile that made it is long over when it runs.
func (r *Reconciler) syncTask(ctx context.Context, s *scope) (func(context.Context) outcome, error) {
	cluster, err := r.clusterUID(ctx)
	if err != nil {
		return nil, err
	}
	corpus, live := s.corpus.DeepCopy(), slices.Clone(s.live)
	return func(ctx context.Context) outcome {
		began := r.Now()
		found := outcome{generation: corpus.Generation}
		found.sync, found.err = r.sync(ctx, corpus, live, cluster)
		found.took = r.Now().Sub(began)
		return found
	}, nil
}

// sync opens the buckets with the Secrets as they are now and lists the source.
func (r *Reconciler) sync(ctx context.Context, corpus *v1alpha1.Corpus, live []string, cluster string) (source.SyncOutput, error) {
	in := source.InputFromSpec(corpus.Spec)
	in.Owner = owner(corpus, cluster)
	in.Live, in.Now = live, r.Now
	if corpus.Status.Access != nil {
		in.MinEpoch = corpus.Status.Access.Epoch
	}
	var err error
	if in.Artifacts, err = r.Buckets.Artifacts(ctx, corpus); err != nil {
		return source.SyncOutput{}, &artifactsError{err}
	}
	if in.Source, err = r.Buckets.Source(ctx, corpus); err != nil {
		return source.SyncOutput{}, err
	}
	return source.Sync(ctx, in)
}

func owner(corpus *v1alpha1.Corpus, cluster string) artifact.Owner {
	return artifact.Owner{ClusterUID: cluster, Namespace: corpus.Namespace, Name: corpus.Name}
}

// clusterUID is the identity of this cluster in the OWNER file.
func (r *Reconciler) clusterUID(ctx context.Context) (string, error) {
	if r.ClusterUID != "" {
		return r.ClusterUID, nil
	}
	namespace := &corev1.Namespace{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("identity of this cluster: %w", err)
	}
	return string(namespace.UID), nil
}

// liveKey is equal for equal sets of snapshots.
func liveKey(live []string) string {
	sorted := slices.Clone(live)
	slices.Sort(sorted)
	return strings.Join(sorted, " ")
}

func (r *Reconciler) forget(key client.ObjectKey) {
	r.pool.Forget(key)
	r.memories.drop(key)
	forgetMetrics(key)
}
