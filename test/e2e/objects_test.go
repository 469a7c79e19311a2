//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

const (
	syncInterval = 2 * time.Second
	soak         = time.Minute
	// maxStaleness is short, so that an outage can outlast it.
	maxStaleness = 45 * time.Second
	goodSize     = 64
	badSize      = 16
)

func applyTenants(ctx SpecContext) {
	for _, tenant := range tenants {
		Expect(world.kube.Create(ctx, newCorpus(tenant))).To(Succeed())
	}
	Expect(world.kube.Create(ctx, newPipeline(pipeline, tenants...))).To(Succeed())
}

func newCorpus(tenant string) *v1alpha1.Corpus {
	at := func(bucket string) v1alpha1.S3Location {
		return v1alpha1.S3Location{Endpoint: s3InCluster, Bucket: bucket, Prefix: tenant + "/"}
	}
	keys := v1alpha1.SecretRef{Name: "s3"}
	everyone := []v1alpha1.Principal{{Type: v1alpha1.PrincipalEveryone}}
	return &v1alpha1.Corpus{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenant},
		Spec: v1alpha1.CorpusSpec{
			Source: v1alpha1.SourceSpec{Type: v1alpha1.SourceS3, S3: &v1alpha1.S3Source{S3Location: at(documentBucket), CredentialsRef: keys}},
			Sync: v1alpha1.SyncSpec{
				Interval:      metav1.Duration{Duration: syncInterval},
				DeletionGuard: v1alpha1.DeletionGuard{MaxPercent: 20, MaxDocuments: 1000},
			},
			Access: v1alpha1.AccessSpec{Default: v1alpha1.AccessNobody, Rules: []v1alpha1.AccessRule{
				{Prefix: "public/", Allow: everyone},
				{Prefix: picnic.key, Allow: everyone},
				{Prefix: strike.key, Allow: group("staff")},
				{Prefix: "hr/", Allow: group("hr")},
			}},
			Artifacts: v1alpha1.ArtifactsSpec{S3: v1alpha1.ArtifactsS3{
				S3Location: at(artifactBucket), WriteCredentialsRef: keys, ReadCredentialsRef: keys,
			}},
		},
	}
}

func group(name string) []v1alpha1.Principal {
	return []v1alpha1.Principal{{Type: v1alpha1.PrincipalGroup, Name: name}}
}

// newPipeline serves each tenant from the Corpus of its name.
func newPipeline(name string, tenants ...string) *v1alpha1.RetrievalPipeline {
	p := &v1alpha1.RetrievalPipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.RetrievalPipelineSpec{
			Indexing: v1alpha1.IndexingSpec{Chunking: v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkStructure, Size: goodSize, Overlap: 0}},
			Build:    v1alpha1.BuildSpec{Shards: 2, Parallelism: 2, Resources: small()},
			Access: v1alpha1.PipelineAccessSpec{
				MaxStaleness: metav1.Duration{Duration: maxStaleness},
				Identity: v1alpha1.IdentitySpec{Type: v1alpha1.IdentityJWT, JWT: &v1alpha1.JWTSpec{
					Issuer: issuerURL, Audiences: []string{audience}, TenantClaim: "tenant",
					JWKSRef: &v1alpha1.JWKSRef{ConfigMap: &v1alpha1.KeyRef{Name: "sso", Key: "jwks.json"}},
				}},
			},
			Serving: v1alpha1.ServingSpec{Gateway: role(), BM25: role(), HNSW: role()},
			Promotion: v1alpha1.PromotionSpec{
				Soak: &metav1.Duration{Duration: soak},
				Gate: v1alpha1.GateSpec{
					Metrics:      []v1alpha1.GateMetric{{Name: v1alpha1.MetricRecall, K: 3, Minimum: "0.80", MaxRegression: "0.10"}},
					MinQuestions: 10,
				},
			},
		},
	}
	for _, tenant := range tenants {
		p.Spec.Tenants = append(p.Spec.Tenants, v1alpha1.Tenant{
			Name: tenant, CorpusRef: v1alpha1.LocalRef{Name: tenant},
			EvalSetRef: &v1alpha1.EvalSetRef{ConfigMap: &v1alpha1.KeyRef{Name: tenant + "-questions", Key: "eval.jsonl"}},
		})
	}
	return p
}

func role() v1alpha1.RoleSpec { return v1alpha1.RoleSpec{Replicas: 1, Resources: small()} }

// small requests let two tenants with three stacks each fit on two cores.
func small() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}}
}

func getCorpus(ctx context.Context, tenant string) (*v1alpha1.Corpus, error) {
	corpus := &v1alpha1.Corpus{}
	return corpus, world.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: tenant}, corpus)
}

func getPipeline(ctx context.Context, name string) (*v1alpha1.RetrievalPipeline, error) {
	p := &v1alpha1.RetrievalPipeline{}
	return p, world.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
}

func getIndex(ctx context.Context, name string) (*v1alpha1.Index, error) {
	index := &v1alpha1.Index{}
	return index, world.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, index)
}

// indexesOf lists a tenant's Index objects of a pipeline.
func indexesOf(ctx context.Context, pipeline, tenant string) ([]v1alpha1.Index, error) {
	list := &v1alpha1.IndexList{}
	if err := world.kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var out []v1alpha1.Index
	for _, index := range list.Items {
		if index.Spec.PipelineRef.Name == pipeline && index.Spec.Tenant == tenant {
			out = append(out, index)
		}
	}
	return out, nil
}

// changePipeline and changeCorpus edit a spec as a user would, again when somebody else was faster.
func changePipeline(ctx context.Context, name string, change func(*v1alpha1.RetrievalPipelineSpec)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		p, err := getPipeline(ctx, name)
		if err != nil {
			return err
		}
		change(&p.Spec)
		return world.kube.Update(ctx, p)
	})).To(Succeed())
}

func changeCorpus(ctx context.Context, tenant string, change func(*v1alpha1.CorpusSpec)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		corpus, err := getCorpus(ctx, tenant)
		if err != nil {
			return err
		}
		change(&corpus.Spec)
		return world.kube.Update(ctx, corpus)
	})).To(Succeed())
}

func tenantStatus(ctx context.Context, pipeline, tenant string) (v1alpha1.TenantStatus, error) {
	p, err := getPipeline(ctx, pipeline)
	if err != nil {
		return v1alpha1.TenantStatus{}, err
	}
	for _, status := range p.Status.Tenants {
		if status.Name == tenant {
			return status, nil
		}
	}
	return v1alpha1.TenantStatus{Name: tenant}, nil
}
