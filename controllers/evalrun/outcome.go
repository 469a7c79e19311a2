package evalrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/gate"
)

// readOutcome judges the report of a Job that has completed, and ends the run as Error where the Job failed.
func (r *Reconciler) readOutcome(ctx context.Context, s *scope) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(s.run.Namespace), client.MatchingLabels{batchv1.JobNameLabel: s.run.Name}); err != nil {
		return err
	}
	switch {
	case jobHas(s.job, batchv1.JobFailed):
		s.end(v1alpha1.VerdictError, "the evaluation Job failed: %s", failure(s.job, pods.Items))
		return nil
	case !jobHas(s.job, batchv1.JobComplete):
		s.waiting = "the evaluation Job is running"
		if reason := imagePullFailure(pods.Items); reason != "" {
			s.waiting = reason
			s.requeue = imagePullPatience
			if r.Now().Sub(s.job.CreationTimestamp.Time) > imagePullPatience {
				s.waiting = ""
				s.end(v1alpha1.VerdictError, "%s", reason)
			}
		}
		return nil
	}
	return r.judge(ctx, s, pods.Items)
}

// judge trusts a report only if its digest is the one that the pod's termination message names.
func (r *Reconciler) judge(ctx context.Context, s *scope, pods []corev1.Pod) error {
	named, ok := termination(pods)
	if !ok {
		s.end(v1alpha1.VerdictError, "the evaluation Job completed but no pod of it names a report, so there is no evidence: create a new run")
		return nil
	}
	bucket, err := r.Buckets.Artifacts(ctx, s.corpus)
	if err != nil {
		return err
	}
	data, _, err := bucket.Get(ctx, named.Report)
	if errors.Is(err, artifact.ErrNotFound) {
		s.end(v1alpha1.VerdictError, "the report %s does not exist in the artifacts bucket", named.Report)
		return nil
	}
	if err != nil {
		return err
	}
	if got := artifact.Digest(data); got != named.Digest {
		s.end(v1alpha1.VerdictError, "the report %s has digest %s, not %s as the Job said", named.Report, got, named.Digest)
		return nil
	}
	report := &eval.Report{}
	if err := json.Unmarshal(data, report); err != nil {
		s.end(v1alpha1.VerdictError, "the report %s cannot be read: %v", named.Report, err)
		return nil
	}
	judgement := gate.Judge(s.run.Spec, *report)
	s.report, s.reportKey, s.judgement = report, named.Report, &judgement
	s.end(judgement.Verdict, "%s", judgement.Message)
	return nil
}

// terminationMessage is what an evaluation pod leaves behind.
type terminationMessage struct {
	Report string `json:"report"`
	Digest string `json:"digest"`
}

func termination(pods []corev1.Pod) (terminationMessage, bool) {
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if t := status.State.Terminated; t != nil && t.ExitCode == 0 {
				var m terminationMessage
				if json.Unmarshal([]byte(t.Message), &m) == nil && m.Report != "" && m.Digest != "" {
					return m, true
				}
			}
		}
	}
	return terminationMessage{}, false
}

func jobHas(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func failure(job *batchv1.Job, pods []corev1.Pod) string {
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if t := status.State.Terminated; t != nil && t.ExitCode != 0 && t.Message != "" {
				return t.Message
			}
		}
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed {
			return c.Message
		}
	}
	return "no reason given"
}

func imagePullFailure(pods []corev1.Pod) string {
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if w := status.State.Waiting; w != nil {
				switch w.Reason {
				case "ErrImagePull", "ImagePullBackOff", "InvalidImageName":
					return fmt.Sprintf("the evaluation pod cannot start: %s: image %s", w.Reason, status.Image)
				}
			}
		}
	}
	return ""
}
