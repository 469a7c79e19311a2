package desired

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

func stackInput() StackInput {
	jobs := jobsInput()
	jobs.Pipeline.Spec.Serving.Gateway.Replicas = 2
	jobs.Pipeline.Spec.Serving.BM25.Replicas = 2
	jobs.Pipeline.Spec.Serving.HNSW.Replicas = 1
	jobs.Pipeline.Spec.Access.Identity = v1alpha1.IdentitySpec{Type: v1alpha1.IdentityJWT, JWT: &v1alpha1.JWTSpec{
		Issuer: "https://sso.example.com", Audiences: []string{"search"}, TenantClaim: "tenant",
		JWKSRef: &v1alpha1.JWKSRef{Secret: &v1alpha1.KeyRef{Name: "sso", Key: "keys.json"}},
	}}
	return StackInput{
		Pipeline: jobs.Pipeline, Corpus: jobs.Corpus, Index: jobs.Index,
		ServeConfig: []byte("{}"), GatewayPublicPEM: []byte("gateway key"), EvalPublicPEM: []byte("evaluation key"),
	}
}

// goldenAll compares each object with the file that its kind and its part name.
func goldenAll(t *testing.T, prefix, base string, objects []client.Object) {
	t.Helper()
	seen := map[string]bool{}
	for _, obj := range objects {
		name := prefix + strings.TrimPrefix(obj.GetName(), base) + "-" + strings.ToLower(KindOf(obj))
		if seen[name] {
			t.Fatalf("two objects are called %s", name)
		}
		seen[name] = true
		golden(t, name, obj)
	}
}

func TestStackGolden(t *testing.T) {
	in := stackInput()
	goldenAll(t, "stack", in.Index.Name, Stack(in))
}

func TestEvalGolden(t *testing.T) {
	in := evalInput()
	goldenAll(t, "evalrun", in.Run.Name, Eval(in))
}

func TestTenantServiceGolden(t *testing.T) {
	in := stackInput()
	golden(t, "tenant-service", TenantService(in.Pipeline, "acme", in.Index, "2026-11-01T08:00:00Z", "support-acme-00aa11bb22"))
}

// A stack without a choice of replicas has one of each, and one that keys its issuer by URL may reach that URL.
func TestStackOfSmallPipelines(t *testing.T) {
	in := stackInput()
	in.Pipeline.Spec.Serving = v1alpha1.ServingSpec{}
	in.Pipeline.Spec.Access.Identity.JWT.JWKSRef = nil
	in.Pipeline.Spec.Access.Identity.JWT.JWKSURL = "https://sso.example.com:8443/keys"
	open := false
	for _, obj := range Stack(in) {
		if KindOf(obj) == "PodDisruptionBudget" {
			t.Errorf("a single replica of %s can never be drained", obj.GetName())
		}
	}
	for _, rule := range stackNetworkPolicy(in, GatewayPart).Spec.Egress {
		for _, port := range rule.Ports {
			open = open || port.Port.IntValue() == 8443
		}
	}
	if !open {
		t.Error("the gateway cannot fetch the issuer's keys")
	}
	for _, role := range Roles(in.Index) {
		if replicas := roleDeployment(in, role).Spec.Replicas; *replicas != 1 {
			t.Errorf("%s has %d replicas", role, *replicas)
		}
	}
}
