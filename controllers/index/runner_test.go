package index_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/stage"
)

// runner stands for kubelet and Job controller: it runs the real stages on the buckets in memory, and says in the
// Job's status what the Job controller would.
type runner struct {
	mu sync.Mutex
	// ran counts by Job name how often a Job was run.
	ran map[string]int
	// hold lists names of Jobs that must not be run.
	hold map[string]bool
}

func (r *runner) runs() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.ran)
}

func (r *runner) setHold(name string, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold[name] = held
}

func (r *runner) start(ctx context.Context) {
	for ctx.Err() == nil {
		list := &batchv1.JobList{}
		if api.List(ctx, list) == nil {
			for i := range list.Items {
				r.visit(ctx, &list.Items[i])
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *runner) visit(ctx context.Context, job *batchv1.Job) {
	r.mu.Lock()
	held := r.hold[job.Name]
	r.mu.Unlock()
	if held || len(job.Status.Conditions) > 0 {
		return
	}
	err := r.run(ctx, job)
	r.mu.Lock()
	r.ran[job.Name]++
	r.mu.Unlock()
	if err := end(ctx, job, err); client.IgnoreNotFound(err) != nil {
		fmt.Println("runner:", err)
	}
}

func (r *runner) run(ctx context.Context, job *batchv1.Job) error {
	name := job.Labels[desired.LabelIndex]
	config := &corev1.ConfigMap{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: desired.PartName(name, desired.ConfigPart)}, config); err != nil {
		return err
	}
	var env stage.Env
	if err := json.Unmarshal([]byte(config.Data["config.json"]), &env.Config); err != nil {
		return err
	}
	corpus := &v1alpha1.Corpus{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: env.Config.Corpus}, corpus); err != nil {
		return err
	}
	env.Source, env.Artifacts = buckets.SourceOf(corpus), buckets.ArtifactsOf(corpus)
	for shard := range int(*job.Spec.Completions) {
		if err := one(ctx, desired.Part(job.Labels[desired.LabelComponent]), env, shard); err != nil {
			return err
		}
	}
	return nil
}

func one(ctx context.Context, part desired.Part, env stage.Env, shard int) (err error) {
	switch part {
	case desired.ChunkPart:
		_, err = stage.Chunk(ctx, env, shard)
	case desired.ContextualizePart:
		_, err = stage.Contextualize(ctx, env, shard)
	case desired.EmbedPart:
		_, err = stage.Embed(ctx, env, shard)
	default:
		_, err = stage.Build(ctx, env)
	}
	return err
}

// end says in status how the Job ended; the API server checks that it is said as the Job controller would.
func end(ctx context.Context, job *batchv1.Job, failure error) error {
	now, completions := metav1.Now(), *job.Spec.Completions
	condition := func(kind batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now, LastProbeTime: now}
	}
	job.Status.StartTime = &now
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	if failure != nil {
		all := "0"
		job.Status.Failed, job.Status.FailedIndexes = 1, &all
		job.Status.Conditions = []batchv1.JobCondition{
			condition(batchv1.JobFailureTarget, "FailedIndexes", failure.Error()), condition(batchv1.JobFailed, "FailedIndexes", failure.Error()),
		}
		return api.Status().Update(ctx, job)
	}
	job.Status.CompletionTime, job.Status.Succeeded = &now, completions
	job.Status.CompletedIndexes = "0"
	if completions > 1 {
		job.Status.CompletedIndexes = fmt.Sprintf("0-%d", completions-1)
	}
	if completions == 2 {
		job.Status.CompletedIndexes = "0,1"
	}
	job.Status.Conditions = []batchv1.JobCondition{
		condition(batchv1.JobSuccessCriteriaMet, "CompletionsReached", ""), condition(batchv1.JobComplete, "CompletionsReached", ""),
	}
	return api.Status().Update(ctx, job)
}
