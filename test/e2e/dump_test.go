//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// statuses is a short text of all that Quarry knows, for failure messages. It has a context of its own: that of a spec may
// be over.
func statuses() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out strings.Builder
	corpora, pipelines, indexes, runs := &v1alpha1.CorpusList{}, &v1alpha1.RetrievalPipelineList{}, &v1alpha1.IndexList{}, &v1alpha1.EvalRunList{}
	for _, list := range []client.ObjectList{corpora, pipelines, indexes, runs} {
		if err := world.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
			fmt.Fprintf(&out, "%T: %v\n", list, err)
		}
	}
	for _, c := range corpora.Items {
		fmt.Fprintf(&out, "Corpus %s: snapshot %v, access %v\n%s", c.Name, c.Status.Snapshot, c.Status.Access, lines(c.Status.Conditions))
	}
	for _, p := range pipelines.Items {
		fmt.Fprintf(&out, "RetrievalPipeline %s:\n%s", p.Name, lines(p.Status.Conditions))
		for _, tenant := range p.Status.Tenants {
			fmt.Fprintf(&out, "  %s\n", describe(tenant))
		}
	}
	slices.SortFunc(indexes.Items, func(a, b v1alpha1.Index) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, i := range indexes.Items {
		fmt.Fprintf(&out, "Index %s of tenant %s: %s, progress %v, counts %v, failures %v\n  %s\n", i.Name, i.Spec.Tenant, i.Status.Serving,
			i.Status.Progress, i.Status.Counts, i.Status.Failures, condition(i.Status.Conditions, v1alpha1.ConditionReady))
	}
	for _, r := range runs.Items {
		fmt.Fprintf(&out, "EvalRun %s: %q %s, results %v, leaks %v\n", r.Name, r.Status.Verdict, r.Status.Message, r.Status.Results, r.Status.Leaks)
		if r.Status.Verdict == "" {
			out.WriteString(lines(r.Status.Conditions))
		}
	}
	return out.String()
}

func lines(conditions []metav1.Condition) string {
	var out strings.Builder
	for _, c := range conditions {
		fmt.Fprintf(&out, "  %s\n", condition(conditions, c.Type))
	}
	return out.String()
}

func describe(t v1alpha1.TenantStatus) string {
	text := "tenant " + t.Name
	if t.Active != nil {
		text += ": active " + t.Active.Index
	}
	if t.Candidate != nil {
		text += fmt.Sprintf(", candidate %s %s", t.Candidate.Index, t.Candidate.Stage)
	}
	if t.Previous != nil {
		text += ", previous " + t.Previous.Index
	}
	if v := t.LastVerdict; v != nil {
		text += fmt.Sprintf(", last verdict %s about %s: %s", v.Verdict, v.Index, v.Message)
	}
	return text
}

// dump writes statuses, pods, the logs of those in trouble, the operator's log and the last events.
func dump(ctx context.Context) {
	if world == nil || world.kube == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 40*time.Second)
	defer cancel()
	say := func(title, text string) { GinkgoWriter.Printf("--- %s\n%s\n", title, text) }
	say("statuses", statuses())
	for _, ns := range []string{namespace, strangers} {
		pods := &corev1.PodList{}
		if err := world.kube.List(ctx, pods, client.InNamespace(ns)); err != nil {
			say("pods", err.Error())
		}
		for _, pod := range pods.Items {
			say("pod "+pod.Name, podState(pod))
			if !podReady(pod) || strings.Contains(pod.Name, "-gateway-") {
				say("log of "+pod.Name, podLog(ctx, ns, pod.Name, 30))
			}
		}
	}
	jobs := &batchv1.JobList{}
	_ = world.kube.List(ctx, jobs, client.InNamespace(namespace)) // an empty list says enough
	for _, job := range jobs.Items {
		say("job "+job.Name, fmt.Sprintf("active %d, succeeded %d, failed %d, conditions %v", job.Status.Active, job.Status.Succeeded, job.Status.Failed, job.Status.Conditions))
	}
	say("events", events(ctx))
	pods, err := operatorPods(ctx)
	if err != nil {
		say("operator", err.Error())
	}
	for _, pod := range pods {
		say("operator "+pod.Name, podState(pod)+"\n"+withoutStart(podLog(ctx, operators, pod.Name, 150)))
	}
}

func podState(pod corev1.Pod) string {
	text := fmt.Sprintf("%s, ready %t, age %.0f s", pod.Status.Phase, podReady(pod), time.Since(pod.CreationTimestamp.Time).Seconds())
	for _, c := range pod.Status.ContainerStatuses {
		text += fmt.Sprintf(", %s restarted %d times", c.Name, c.RestartCount)
		for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if state.Waiting != nil {
				text += fmt.Sprintf("; waiting: %s %s", state.Waiting.Reason, state.Waiting.Message)
			}
			if state.Terminated != nil {
				text += fmt.Sprintf("; ended with %d: %s %s", state.Terminated.ExitCode, state.Terminated.Reason, state.Terminated.Message)
			}
		}
	}
	return text
}

func podLog(ctx context.Context, ns, name string, tail int64) string {
	stream, err := world.pods.CoreV1().Pods(ns).GetLogs(name, &corev1.PodLogOptions{TailLines: &tail}).Stream(ctx)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = stream.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(stream, 256<<10))
	if err != nil {
		return string(text) + "\n" + err.Error()
	}
	return string(text)
}

// withoutStart leaves out what every operator says when it starts.
func withoutStart(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"msg":"Starting `) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// events are the last forty of the namespace.
func events(ctx context.Context) string {
	list := &corev1.EventList{}
	if err := world.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	when := func(e corev1.Event) time.Time {
		return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return when(a).Compare(when(b)) })
	var out strings.Builder
	for _, e := range list.Items[max(0, len(list.Items)-40):] {
		fmt.Fprintf(&out, "%s %s %s %s/%s: %s\n", when(e).Format("15:04:05"), e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
	return out.String()
}
