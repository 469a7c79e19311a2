package desired

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// everything is every object of one Index, its evaluation included.
func everything(t *testing.T, stack StackInput, eval EvalInput) []client.Object {
	t.Helper()
	jobs := JobsInput{Pipeline: stack.Pipeline, Corpus: stack.Corpus, Index: stack.Index, Shards: 256}
	config, err := JobsConfig(jobs)
	if err != nil {
		t.Fatal(err)
	}
	objects := append(Stack(stack), Eval(eval)...)
	objects = append(objects, config, JobsNetworkPolicy(jobs),
		TenantService(stack.Pipeline, stack.Index.Spec.Tenant, stack.Index, "2026-11-01T08:00:00Z", eval.Baseline.Name))
	for _, stage := range Stages(stack.Index) {
		objects = append(objects, StageJob(jobs, stage))
	}
	return objects
}

// podTemplate is nil for an object that makes no pods.
func podTemplate(obj client.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

func templates(t *testing.T) map[string]*corev1.PodTemplateSpec {
	t.Helper()
	out := map[string]*corev1.PodTemplateSpec{}
	for _, obj := range everything(t, rerankingInput(rerankEndpoint("https://rerank.example.com")), evalInput()) {
		if template := podTemplate(obj); template != nil {
			out[obj.GetName()] = template
		}
	}
	if len(out) != 4+4+1 {
		t.Fatalf("%d pod templates: four roles, four stages and one evaluation were expected", len(out))
	}
	return out
}

func yes(value *bool) bool { return value != nil && *value }
func no(value *bool) bool  { return value != nil && !*value }

func TestEveryPodIsRestricted(t *testing.T) {
	for name, template := range templates(t) {
		pod := template.Spec
		if security := pod.SecurityContext; security == nil || !yes(security.RunAsNonRoot) || security.SeccompProfile == nil ||
			security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || len(security.Sysctls) > 0 {
			t.Errorf("%s: pod security context %+v", name, security)
		}
		if !no(pod.AutomountServiceAccountToken) || pod.ServiceAccountName != "" {
			t.Errorf("%s: holds a Kubernetes identity", name)
		}
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Errorf("%s: shares a namespace of its node", name)
		}
		if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 || len(pod.EphemeralContainers) > 0 {
			t.Errorf("%s: has more containers than one, and this test looks at one", name)
		}
		security := pod.Containers[0].SecurityContext
		if security == nil || !yes(security.RunAsNonRoot) || !yes(security.ReadOnlyRootFilesystem) || !no(security.AllowPrivilegeEscalation) ||
			yes(security.Privileged) || security.Capabilities == nil || len(security.Capabilities.Add) > 0 ||
			!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			security.SeccompProfile == nil || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: container security context %+v", name, security)
		}
		if len(pod.Containers[0].Env)+len(pod.Containers[0].EnvFrom) > 0 {
			t.Errorf("%s: has an environment, where credentials leak", name)
		}
		for _, volume := range pod.Volumes {
			if volume.Secret == nil && volume.ConfigMap == nil && volume.EmptyDir == nil {
				t.Errorf("%s: volume %s is neither a Secret, a ConfigMap nor an emptyDir", name, volume.Name)
			}
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if !mount.ReadOnly && mount.Name != "data" {
				t.Errorf("%s: may write to %s", name, mount.MountPath)
			}
		}
	}
}

// Who holds which key is what keeps tenants and versions apart, whatever a NetworkPolicy does.
func TestWhoHoldsWhichSecret(t *testing.T) {
	index, baseline, run := stackInput().Index.Name, evalInput().Baseline.Name, evalInput().Run.Name
	want := map[string][]string{
		PartName(index, BM25Part):          {"acme-read"},
		PartName(index, HNSWPart):          {"acme-read"},
		PartName(index, RerankerPart):      {"rerank-ca", "rerank-key"},
		PartName(index, GatewayPart):       {"acme-read", "sso", PartName(index, KeysPart)},
		PartName(index, ChunkPart):         {"acme-s3", "acme-write", "s3-ca"},
		PartName(index, ContextualizePart): {"acme-write"},
		PartName(index, EmbedPart):         {"acme-write"},
		PartName(index, BuildPart):         {"acme-write"},
		run:                                {"acme-write", PartName(baseline, EvalPart), PartName(index, EvalPart)},
	}
	for name, template := range templates(t) {
		var got []string
		for _, volume := range template.Spec.Volumes {
			if volume.Secret != nil {
				got = append(got, volume.Secret.SecretName)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s mounts the Secrets %v, not %v", name, got, want[name])
		}
	}
}

// Where a ConfigMap holds the issuer's keys, the gateway alone mounts that too.
func TestOnlyTheGatewayKnowsTheIssuer(t *testing.T) {
	in := stackInput()
	in.Pipeline.Spec.Access.Identity.JWT.JWKSRef = &v1alpha1.JWKSRef{ConfigMap: &v1alpha1.KeyRef{Name: "sso", Key: "keys.json"}}
	in.Index.Spec.Retrieval.Rerank.Type = v1alpha1.RerankBuiltin
	for _, role := range Roles(in.Index) {
		mounts := slices.ContainsFunc(rolePod(in, role).Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == "sso"
		})
		if mounts != (role == GatewayPart) {
			t.Errorf("%s mounts the issuer's keys: %v", role, mounts)
		}
	}
}

// Names, labels and host names fit for the longest pipeline and tenant that the API allows.
func TestTheLongestNamesFit(t *testing.T) {
	stack, eval := rerankingInput(rerankEndpoint("https://rerank.example.com")), evalInput()
	pipeline, tenant := strings.Repeat("p", 63), strings.Repeat("t", 63)
	name := func(version string) string { return IndexName("rag", pipeline, tenant, version) }
	stack.Pipeline.Name = pipeline
	stack.Index.Name, stack.Index.Spec.Tenant, stack.Index.Spec.PipelineRef.Name = name("one"), tenant, pipeline
	eval.Pipeline, eval.Index, eval.Baseline.Name = stack.Pipeline, stack.Index, name("two")
	eval.Run.Name = EvalRunName(stack.Index.Name, "sha256:subject", 2147483647)
	for _, obj := range everything(t, stack, eval) {
		what := KindOf(obj) + " " + obj.GetName()
		if problems := validation.IsDNS1035Label(obj.GetName()); len(problems) > 0 {
			t.Errorf("%s: %v", what, problems)
		}
		checkLabels(t, what, obj.GetLabels())
		if job, ok := obj.(*batchv1.Job); ok && job.Spec.CompletionMode != nil {
			if host := obj.GetName() + "-255"; len(host) >= 64 {
				t.Errorf("%s: the host name %s has %d characters", what, host, len(host))
			}
		}
		template := podTemplate(obj)
		if template == nil {
			continue
		}
		checkLabels(t, what, template.Labels)
		for _, volume := range template.Spec.Volumes {
			if problems := validation.IsDNS1123Label(volume.Name); len(problems) > 0 {
				t.Errorf("%s: volume %q: %v", what, volume.Name, problems)
			}
		}
		if deployment, ok := obj.(*appsv1.Deployment); ok && !selects(deployment.Spec.Selector, template.Labels) {
			t.Errorf("%s: does not select its own pods", what)
		}
	}
}

func checkLabels(t *testing.T, what string, labels map[string]string) {
	t.Helper()
	for key, value := range labels {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("%s: label %s: %v", what, key, problems)
		}
	}
}

func selects(selector *metav1.LabelSelector, labels map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsMap(selector)
	if err != nil || len(parsed) == 0 {
		return false
	}
	for key, value := range parsed {
		if labels[key] != value {
			return false
		}
	}
	return true
}
