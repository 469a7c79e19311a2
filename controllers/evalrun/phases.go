package evalrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/gate"
)

// imagePullPatience is how long a pod may fail to pull its image before the run ends as Error.
const imagePullPatience = 2 * time.Minute

// scope holds the facts of one pass.
type scope struct {
	run              *v1alpha1.EvalRun
	pipeline         *v1alpha1.RetrievalPipeline
	corpus           *v1alpha1.Corpus
	index, baseline  *v1alpha1.Index
	evalSet          []byte
	job              *batchv1.Job
	report           *eval.Report
	reportKey        string
	verdict          v1alpha1.Verdict
	message, waiting string
	judgement        *gate.Judgement
	requeue          time.Duration
}

func (s *scope) done() bool { return s.verdict != "" || s.waiting != "" }

func (s *scope) end(verdict v1alpha1.Verdict, format string, args ...any) {
	s.verdict, s.message = verdict, fmt.Sprintf(format, args...)
}

// findSubjects reads all that the run names. What is gone can never be measured, so the run ends as Cancelled.
func (r *Reconciler) findSubjects(ctx context.Context, s *scope) error {
	spec := s.run.Spec
	s.pipeline, s.index, s.corpus = &v1alpha1.RetrievalPipeline{}, &v1alpha1.Index{}, &v1alpha1.Corpus{}
	wanted := []struct {
		kind, name string
		obj        client.Object
	}{
		{"RetrievalPipeline", spec.PipelineRef.Name, s.pipeline},
		{"Index", spec.IndexRef.Name, s.index},
	}
	if spec.BaselineIndexRef != nil {
		s.baseline = &v1alpha1.Index{}
		wanted = append(wanted, struct {
			kind, name string
			obj        client.Object
		}{"Index", spec.BaselineIndexRef.Name, s.baseline})
	}
	for _, want := range wanted {
		if err := r.get(ctx, s, want.kind, want.name, want.obj); err != nil || s.done() {
			return err
		}
	}
	return r.get(ctx, s, "Corpus", s.index.Spec.CorpusRef.Name, s.corpus)
}

func (r *Reconciler) get(ctx context.Context, s *scope, kind, name string, obj client.Object) error {
	err := r.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		s.end(v1alpha1.VerdictCancelled, "%s %q does not exist in namespace %s, so there is nothing to measure", kind, name, s.run.Namespace)
		return nil
	}
	return err
}

// bindEvalSet reads the questions and refuses them where they are not those that the run's spec names by digest.
func (r *Reconciler) bindEvalSet(ctx context.Context, s *scope) error {
	ref := s.run.Spec.EvalSet.Ref
	if ref.ConfigMap != nil {
		configMap := &corev1.ConfigMap{}
		if err := r.get(ctx, s, "ConfigMap", ref.ConfigMap.Name, configMap); err != nil || s.done() {
			return err
		}
		s.evalSet = []byte(configMap.Data[ref.ConfigMap.Key])
	} else {
		bucket, err := r.Buckets.Artifacts(ctx, s.corpus)
		if err != nil {
			return err
		}
		data, _, err := bucket.Get(ctx, ref.Object)
		if errors.Is(err, artifact.ErrNotFound) {
			s.end(v1alpha1.VerdictError, "evalSet.ref.object %q does not exist in the artifacts bucket: upload it", ref.Object)
			return nil
		}
		if err != nil {
			return err
		}
		s.evalSet = data
	}
	if len(s.evalSet) == 0 {
		s.end(v1alpha1.VerdictError, "the eval set %s is empty: write one question a line", describeRef(ref))
		return nil
	}
	if want, got := s.run.Spec.EvalSet.Digest, artifact.Digest(s.evalSet); want != "" && want != got {
		s.end(v1alpha1.VerdictCancelled, "the eval set %s is now %s, not %s as in evalSet.digest: create a new run", describeRef(ref), got, want)
		return nil
	}
	if _, err := eval.ParseSet(s.evalSet); err != nil {
		s.end(v1alpha1.VerdictError, "the eval set %s cannot be read: %v", describeRef(ref), err)
	}
	return nil
}

func describeRef(ref v1alpha1.EvalSetRef) string {
	if ref.ConfigMap != nil {
		return fmt.Sprintf("ConfigMap %s, key %s", ref.ConfigMap.Name, ref.ConfigMap.Key)
	}
	return "object " + ref.Object
}

// startJob creates what the measurement needs; all of it is create-only or unchanged, so a second pass writes nothing.
func (r *Reconciler) startJob(ctx context.Context, s *scope) error {
	serving := &corev1.ConfigMap{}
	err := r.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: desired.PartName(s.index.Name, desired.ServePart)}, serving)
	if apierrors.IsNotFound(err) {
		s.waiting, s.requeue = fmt.Sprintf("Index %q has no serving stack yet", s.index.Name), 10*time.Second
		return nil
	}
	if err != nil {
		return err
	}
	plan, err := json.Marshal(r.plan(s))
	if err != nil {
		return err
	}
	in := desired.EvalInput{
		Run: s.run, Pipeline: s.pipeline, Corpus: s.corpus, Index: s.index, Baseline: s.baseline,
		Config: []byte(serving.Data["config.json"]), Plan: plan,
	}
	if s.run.Spec.EvalSet.Ref.ConfigMap != nil {
		in.EvalSet = s.evalSet
	}
	for _, obj := range desired.Eval(in) {
		if job, ok := obj.(*batchv1.Job); ok {
			_, err = apply.Create(ctx, r.Client, job, s.run)
		} else {
			err = apply.Apply(ctx, r.Client, obj, s.run)
		}
		if err != nil {
			return err
		}
	}
	s.job = &batchv1.Job{}
	return client.IgnoreNotFound(r.Get(ctx, client.ObjectKeyFromObject(s.run), s.job))
}

func (r *Reconciler) plan(s *scope) eval.Plan {
	target := func(index *v1alpha1.Index) eval.Target {
		return eval.Target{
			Index: index.Name, VersionDigest: index.Spec.VersionDigest, Reranks: desired.Reranks(index),
			URL: fmt.Sprintf("http://%s.%s.svc:%d", desired.PartName(index.Name, desired.GatewayPart), index.Namespace, desired.PortEval),
		}
	}
	plan := eval.Plan{
		Run: s.run.Name, RunUID: string(s.run.UID), Subject: target(s.index),
		EvalSetDigest: artifact.Digest(s.evalSet), EvalSetObject: s.run.Spec.EvalSet.Ref.Object,
		Metrics: s.run.Spec.Metrics, Access: s.corpus.Spec.Access, SyncInterval: s.corpus.Spec.Sync.Interval.Duration,
	}
	if s.baseline != nil {
		baseline := target(s.baseline)
		plan.Baseline = &baseline
	}
	return plan
}
