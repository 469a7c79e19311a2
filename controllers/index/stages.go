package index

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/stage"
)

// slowStart is how long a pod may take to start before status says so.
const slowStart = time.Minute

// maxReport bounds one report of one shard, in bytes.
const maxReport = 16 << 20

// runStages starts the first stage whose result is not in status, and takes in the results of those that are complete.
// A stage that passed is never run again, whether its Job still exists or not.
func (r *Reconciler) runStages(ctx context.Context, s *scope) error {
	if s.adopted {
		return nil
	}
	for _, part := range desired.Stages(s.index) {
		if s.passed[part] && part != desired.BuildPart {
			continue
		}
		if err := r.runStage(ctx, s, part); err != nil {
			return err
		}
		s.passed[part] = part != desired.BuildPart
	}
	return nil
}

// runStage returns nil when the stage is complete and its reports are taken in.
func (r *Reconciler) runStage(ctx context.Context, s *scope, part desired.Part) error {
	s.current, s.job = part, desired.StageJob(s.jobs, part)
	created, err := apply.Create(ctx, r.Client, s.job, s.index)
	if err != nil {
		return err
	}
	if created {
		r.Recorder.Eventf(s.index, s.job, corev1.EventTypeNormal, "StageStarted", "StartJob", "started Job %s with %d shards", s.job.Name, s.jobs.Completions(part))
	}
	s.index.Status.Progress = &v1alpha1.ProgressStatus{
		Stage: stageNames[part], Completed: s.job.Status.Succeeded, Total: s.jobs.Completions(part),
	}
	if failed := jobCondition(s.job, batchv1.JobFailed); failed != nil {
		return r.explainFailure(ctx, s, failed)
	}
	if jobCondition(s.job, batchv1.JobComplete) == nil {
		return r.watchPods(ctx, s)
	}
	reports, err := r.readReports(ctx, s, part)
	if broken(err) {
		return s.fail(v1alpha1.ReasonReportInvalid, fmt.Sprintf("Job %s is complete, but %v: delete the Job to run it again", s.job.Name, err))
	}
	if err != nil {
		return err
	}
	return record(s, part, reports)
}

// readReports reads one report per shard. Where the pod is still there, the report must be the one that its termination
// message names by digest.
func (r *Reconciler) readReports(ctx context.Context, s *scope, part desired.Part) ([]stage.Report, error) {
	pods, err := r.pods(ctx, s)
	if err != nil {
		return nil, err
	}
	named := reportDigests(pods)
	reports := make([]stage.Report, s.jobs.Completions(part))
	for shard := range reports {
		key := artifact.ReportKey(s.index.Name, string(part), shard)
		body, _, err := artifact.ReadAll(ctx, s.bucket, key, artifact.Read{MaxBytes: maxReport})
		if err != nil {
			return nil, fmt.Errorf("report %s: %w", key, err)
		}
		if want, ok := named[key]; ok && artifact.Digest(body) != want {
			return nil, fmt.Errorf("report %s: is not the one that the pod left: %w", key, artifact.ErrDigest)
		}
		if err := json.Unmarshal(body, &reports[shard]); err != nil {
			return nil, fmt.Errorf("report %s: %w: %w", key, err, artifact.ErrDigest)
		}
	}
	return reports, nil
}

// reportDigests are what the pods that succeeded say of their reports, by key.
func reportDigests(pods []corev1.Pod) map[string]string {
	named := map[string]string{}
	for i := range pods {
		for _, status := range pods[i].Status.ContainerStatuses {
			var message struct{ Report, Digest string }
			ended := status.State.Terminated
			if ended != nil && ended.ExitCode == 0 && json.Unmarshal([]byte(ended.Message), &message) == nil && message.Report != "" {
				named[message.Report] = message.Digest
			}
		}
	}
	return named
}

// watchPods says why a running Job does not advance, where its pods know.
func (r *Reconciler) watchPods(ctx context.Context, s *scope) error {
	pods, err := r.pods(ctx, s)
	if err != nil {
		return err
	}
	for i := range pods {
		if reason, message := stuck(&pods[i]); reason != "" {
			s.trouble = &trouble{reason: reason, message: message, final: reason != v1alpha1.ReasonBuilding}
			return errEnd
		}
		if pods[i].Status.Phase == corev1.PodPending {
			r.watchStart(s, &pods[i])
		}
	}
	return errEnd
}

// watchStart names a pod that takes too long to start. A volume that cannot be mounted, for a Secret that is missing, leaves
// no word in the pod, so the time is all there is to go by.
func (r *Reconciler) watchStart(s *scope, pod *corev1.Pod) {
	s.requeue = slowStart
	if r.Now().Sub(pod.CreationTimestamp.Time) < slowStart {
		return
	}
	s.trouble = &trouble{reason: v1alpha1.ReasonBuilding, message: fmt.Sprintf(
		"pod %s does not start: look at its events; the Secrets of the Corpus must exist in this namespace", podKind(pod))}
}

func (r *Reconciler) pods(ctx context.Context, s *scope) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.List(ctx, list, client.InNamespace(s.index.Namespace), client.MatchingLabels(desired.SelectorLabels(s.index, s.current)))
	return list.Items, err
}

// explainFailure turns a failed Job into one sentence, with the last words of a pod where there are any.
func (r *Reconciler) explainFailure(ctx context.Context, s *scope, failed *batchv1.JobCondition) error {
	message := fmt.Sprintf("Job %s failed (%s: %s)", s.job.Name, failed.Reason, failed.Message)
	pods, err := r.pods(ctx, s)
	if err != nil {
		return err
	}
	for i := range pods {
		if words := lastWords(&pods[i]); words != "" {
			message += "; " + words
			break
		}
	}
	return s.fail(v1alpha1.ReasonBuildFailed, message+"; finished work is kept: mend the cause and delete the Job to run it again")
}

// stuck finds what keeps a pod from starting. An image that cannot be pulled is known by name after its second try.
func stuck(pod *corev1.Pod) (reason, message string) {
	for _, status := range pod.Status.ContainerStatuses {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			return v1alpha1.ReasonImagePull, fmt.Sprintf("pod %s cannot pull image %q: %s", podKind(pod), status.Image, waiting.Message)
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return v1alpha1.ReasonBuildFailed, fmt.Sprintf("pod %s: %s: %s", podKind(pod), waiting.Reason, waiting.Message)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
			return v1alpha1.ReasonBuilding, fmt.Sprintf("pod %s waits for a node: %s", podKind(pod), condition.Message)
		}
	}
	return "", ""
}

// podKind names a pod without the random end of its name, so that a message does not change with each try.
func podKind(pod *corev1.Pod) string {
	if shard, ok := pod.Labels[batchv1.JobCompletionIndexAnnotation]; ok {
		return fmt.Sprintf("of stage %s, shard %s", pod.Labels[desired.LabelComponent], shard)
	}
	return "of stage " + pod.Labels[desired.LabelComponent]
}

// lastWords are the exit code and the termination message of a failed pod.
func lastWords(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		ended := status.State.Terminated
		if ended != nil && ended.ExitCode != 0 {
			return fmt.Sprintf("pod %s exited with %d (%s): %s", podKind(pod), ended.ExitCode, ended.Reason, apply.Truncate(ended.Message, 512))
		}
	}
	return ""
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
