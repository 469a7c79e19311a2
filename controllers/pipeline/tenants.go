package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/controllers/objectstore"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/desired"
)

// reconcileTenants does each tenant on its own: what fails for one never stops another.
func (r *Reconciler) reconcileTenants(ctx context.Context, s *scope) error {
	var failures []error
	for i := range s.pipeline.Spec.Tenants {
		t := &tenantScope{spec: &s.pipeline.Spec.Tenants[i]}
		s.tenants = append(s.tenants, t)
		if err := r.reconcileTenant(ctx, s, t); err != nil {
			if conflict, ok := apply.AsNameConflict(err); ok {
				t.stall(v1alpha1.ReasonNameConflict, conflict.Error())
				// The other owner may go away, and nothing would tell.
				s.soonest(time.Minute)
				continue
			}
			if errors.Is(err, apply.ErrTerminating) {
				s.soonest(2 * time.Second)
				continue
			}
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				// The pipeline goes as well, in a moment.
				continue
			}
			failures = append(failures, fmt.Errorf("tenant %s: %w", t.spec.Name, err))
		}
	}
	return errors.Join(failures...)
}

func (r *Reconciler) reconcileTenant(ctx context.Context, s *scope, t *tenantScope) error {
	for _, phase := range []func(context.Context, *scope, *tenantScope) error{
		r.gatherObjects,
		r.gatherEvalSet,
		r.checkServiceName,
		r.checkRerankSecrets,
		r.planRollout,
		r.createIndex,
		r.ensureStacks,
		r.startRun,
		r.promote,
		r.markServing,
		r.retire,
	} {
		if err := phase(ctx, s, t); err != nil {
			return err
		}
	}
	return nil
}

// gatherObjects reads the corpus and all that this pipeline controls for the tenant.
func (r *Reconciler) gatherObjects(ctx context.Context, s *scope, t *tenantScope) error {
	corpus := &v1alpha1.Corpus{}
	err := r.Get(ctx, types.NamespacedName{Namespace: s.pipeline.Namespace, Name: t.spec.CorpusRef.Name}, corpus)
	switch {
	case apierrors.IsNotFound(err):
		t.stall(v1alpha1.ReasonCorpusNotFound, fmt.Sprintf("spec.tenants[%s].corpusRef names Corpus %q, which does not exist in namespace %s", t.spec.Name, t.spec.CorpusRef.Name, s.pipeline.Namespace))
	case err != nil:
		return err
	default:
		t.corpus = corpus
	}
	if t.indexes, err = r.indexesOf(ctx, s.pipeline, t.spec.Name); err != nil {
		return err
	}
	runs := &v1alpha1.EvalRunList{}
	if err := r.List(ctx, runs, client.InNamespace(s.pipeline.Namespace)); err != nil {
		return err
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; metav1.IsControlledBy(run, s.pipeline) && run.Spec.Tenant == t.spec.Name {
			t.runs = append(t.runs, run)
		}
	}
	return r.gatherServing(ctx, s, t)
}

func (r *Reconciler) indexesOf(ctx context.Context, pipeline *v1alpha1.RetrievalPipeline, tenant string) ([]*v1alpha1.Index, error) {
	list := &v1alpha1.IndexList{}
	if err := r.List(ctx, list, client.InNamespace(pipeline.Namespace)); err != nil {
		return nil, err
	}
	var out []*v1alpha1.Index
	for i := range list.Items {
		index := &list.Items[i]
		if metav1.IsControlledBy(index, pipeline) && (tenant == "" || index.Spec.Tenant == tenant) {
			out = append(out, index)
		}
	}
	return out, nil
}

func (r *Reconciler) gatherServing(ctx context.Context, s *scope, t *tenantScope) error {
	service := &corev1.Service{}
	name := desired.TenantServiceName(s.pipeline.Name, t.spec.Name)
	err := r.Get(ctx, types.NamespacedName{Namespace: s.pipeline.Namespace, Name: name}, service)
	if err == nil {
		t.service = service
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	list := &appsv1.DeploymentList{}
	labels := client.MatchingLabels{desired.LabelPipeline: desired.LabelValue(s.pipeline.Name), desired.LabelTenant: desired.LabelValue(t.spec.Name)}
	if err := r.List(ctx, list, client.InNamespace(s.pipeline.Namespace), labels); err != nil {
		return err
	}
	t.deployments = map[string]*appsv1.Deployment{}
	for i := range list.Items {
		t.deployments[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// gatherEvalSet reads the questions, because their digest is part of what a verdict is bound to.
func (r *Reconciler) gatherEvalSet(ctx context.Context, s *scope, t *tenantScope) error {
	ref := t.spec.EvalSetRef
	if ref == nil {
		return nil
	}
	missing := func(what string) {
		t.stall(v1alpha1.ReasonEvalSetNotFound, fmt.Sprintf("spec.tenants[%s].evalSetRef names %s, which does not exist: create it", t.spec.Name, what))
	}
	if ref.ConfigMap == nil {
		return r.gatherEvalObject(ctx, t, ref.Object, missing)
	}
	configMap := &corev1.ConfigMap{}
	err := r.Get(ctx, types.NamespacedName{Namespace: s.pipeline.Namespace, Name: ref.ConfigMap.Name}, configMap)
	if apierrors.IsNotFound(err) {
		missing(fmt.Sprintf("ConfigMap %q", ref.ConfigMap.Name))
		return nil
	}
	if err != nil {
		return err
	}
	text, ok := configMap.Data[ref.ConfigMap.Key]
	if !ok {
		missing(fmt.Sprintf("key %q of ConfigMap %q", ref.ConfigMap.Key, ref.ConfigMap.Name))
		return nil
	}
	t.evalSetDigest = artifact.Digest([]byte(text))
	return nil
}

func (r *Reconciler) gatherEvalObject(ctx context.Context, t *tenantScope, key string, missing func(string)) error {
	if t.corpus == nil {
		return nil
	}
	bucket, err := r.Buckets.Artifacts(ctx, t.corpus)
	if err != nil {
		return err
	}
	data, _, err := bucket.Get(ctx, key)
	if errors.Is(err, artifact.ErrNotFound) {
		missing(fmt.Sprintf("object %q of the artifacts bucket", key))
		return nil
	}
	if err != nil {
		return err
	}
	t.evalSetDigest = artifact.Digest(data)
	return nil
}

// checkServiceName refuses a tenant whose Service another pipeline owns, before anything is built for it.
func (r *Reconciler) checkServiceName(_ context.Context, s *scope, t *tenantScope) error {
	if t.service == nil {
		return nil
	}
	return desired.Conflict(t.service, s.pipeline.UID)
}

// secretRetry is how soon a missing Secret is looked for again: nothing tells when it is there.
const secretRetry = 15 * time.Second

// checkRerankSecrets keeps a version from being made whose reranker could never start, for want of a Secret. What serves goes
// on serving.
func (r *Reconciler) checkRerankSecrets(ctx context.Context, s *scope, t *tenantScope) error {
	endpoint := s.pipeline.Spec.Retrieval.Rerank.Endpoint
	if endpoint == nil {
		return nil
	}
	const field = "spec.retrieval.rerank.endpoint."
	var refs []error
	if ref := endpoint.CredentialsRef; ref != nil {
		key := v1alpha1.KeyRef{Name: ref.Name, Key: desired.RerankKey}
		refs = append(refs, objectstore.Require(ctx, r.Client, s.pipeline.Namespace, field+"credentialsRef", key))
	}
	if ca := endpoint.CABundleRef; ca != nil {
		refs = append(refs, objectstore.Require(ctx, r.Client, s.pipeline.Namespace, field+"caBundleRef", *ca))
	}
	for _, err := range refs {
		if missing, ok := errors.AsType[*objectstore.RefError](err); ok {
			t.stall(v1alpha1.ReasonSecretNotFound, missing.Error())
			s.soonest(secretRetry)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// removeTenants deletes what belongs to tenants that the spec no longer names.
func (r *Reconciler) removeTenants(ctx context.Context, s *scope) error {
	known := func(tenant string) bool {
		return slices.ContainsFunc(s.pipeline.Spec.Tenants, func(t v1alpha1.Tenant) bool { return t.Name == tenant })
	}
	indexes, err := r.indexesOf(ctx, s.pipeline, "")
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if known(index.Spec.Tenant) {
			continue
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.pipeline.Namespace, Name: desired.TenantServiceName(s.pipeline.Name, index.Spec.Tenant)}}
		// The Service goes first: nobody is sent to a stack that is going away.
		if err := apply.Delete(ctx, r.Client, service, s.pipeline); err != nil {
			return err
		}
		if err := apply.Delete(ctx, r.Client, index, s.pipeline); err != nil {
			return err
		}
	}
	return nil
}
