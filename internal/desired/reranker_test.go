package desired

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

func rerankEndpoint(url string) v1alpha1.RerankSpec {
	return v1alpha1.RerankSpec{Type: v1alpha1.RerankTypeEndpoint, Endpoint: &v1alpha1.RerankEndpoint{
		URL: url, Model: "reranker", API: v1alpha1.RerankAPITEI,
		CredentialsRef: &v1alpha1.SecretRef{Name: "rerank-key"}, CABundleRef: &v1alpha1.KeyRef{Name: "rerank-ca", Key: "tls.pem"},
	}}
}

func rerankingInput(rerank v1alpha1.RerankSpec) StackInput {
	in := stackInput()
	in.Pipeline.Spec.Serving.Reranker.Replicas = 2
	in.Index.Spec.Retrieval.Rerank = rerank
	return in
}

// rerankerObjects are those of the reranker alone.
func rerankerObjects(in StackInput) (out []client.Object) {
	for _, obj := range Stack(in) {
		if obj.GetLabels()[LabelComponent] == string(RerankerPart) {
			out = append(out, obj)
		}
	}
	return out
}

func TestRerankerGolden(t *testing.T) {
	in := rerankingInput(rerankEndpoint("https://rerank.example.com/v2"))
	goldenAll(t, "stack", in.Index.Name, rerankerObjects(in))
}

func TestOnlyStacksThatRerankHaveAReranker(t *testing.T) {
	for kind, want := range map[v1alpha1.RerankType]bool{
		"": false, v1alpha1.RerankNone: false,
		v1alpha1.RerankBuiltin: true, v1alpha1.RerankLateInteraction: true, v1alpha1.RerankTypeEndpoint: true,
	} {
		in := rerankingInput(v1alpha1.RerankSpec{Type: kind})
		var kinds []string
		for _, obj := range rerankerObjects(in) {
			kinds = append(kinds, KindOf(obj))
		}
		slices.Sort(kinds)
		if all := []string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"}; want != slices.Equal(kinds, all) || !want && len(kinds) > 0 {
			t.Errorf("type %q: the reranker has %v", kind, kinds)
		}
		if got := slices.Contains(Roles(in.Index), RerankerPart); got != want {
			t.Errorf("type %q: a role reranker: %v", kind, got)
		}
		url := ServeConfig(in.Pipeline, in.Corpus, in.Index).Peers.Reranker
		if want != (url == "http://support-acme-7f9c4d0011-reranker.rag.svc:8080") || !want && url != "" {
			t.Errorf("type %q: the gateway looks for the reranker at %q", kind, url)
		}
	}
}

// A stack without a reranker is the same as before there was one: a new release restarts no pod of it.
func TestRerankingChangesNoOtherPod(t *testing.T) {
	plain, reranking := stackInput(), rerankingInput(rerankEndpoint("http://rerank.models.svc:8000"))
	for _, role := range []Part{BM25Part, HNSWPart, GatewayPart} {
		if !reflect.DeepEqual(roleDeployment(plain, role), roleDeployment(reranking, role)) {
			t.Errorf("the pods of %s depend on the reranker", role)
		}
	}
}

func TestWhereTheRerankerMayGo(t *testing.T) {
	for name, test := range map[string]struct {
		rerank v1alpha1.RerankSpec
		want   []string
	}{
		"a model of the image": {v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin}, nil},
		"late interaction":     {v1alpha1.RerankSpec{Type: v1alpha1.RerankLateInteraction}, nil},
		"a server by name":     {rerankEndpoint("https://rerank.example.com/v2"), []string{"anywhere:53,53", "anywhere:443"}},
		"a server and a port":  {rerankEndpoint("http://rerank.models.svc:8000"), []string{"anywhere:53,53", "anywhere:8000"}},
		"a server by address":  {rerankEndpoint("http://10.96.3.7:8000"), []string{"10.96.3.7/32:8000"}},
		"a server by IPv6":     {rerankEndpoint("https://[fd00::7]"), []string{"fd00::7/128:443"}},
	} {
		policy := stackNetworkPolicy(rerankingInput(test.rerank), RerankerPart)
		if got := describeEgress(policy); !slices.Equal(got, test.want) {
			t.Errorf("%s: may go to %v instead of %v", name, got, test.want)
		}
		if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			t.Errorf("%s: egress is not limited at all", name)
		}
	}
}

// describeEgress writes each rule as address:ports.
func describeEgress(policy *networkingv1.NetworkPolicy) (out []string) {
	for _, rule := range policy.Spec.Egress {
		to := "anywhere"
		if len(rule.To) > 0 && rule.To[0].IPBlock != nil {
			to = rule.To[0].IPBlock.CIDR
		} else if len(rule.To) > 0 {
			to = rule.To[0].PodSelector.MatchLabels[LabelComponent]
		}
		var ports []string
		for _, port := range rule.Ports {
			ports = append(ports, port.Port.String())
		}
		out = append(out, to+":"+strings.Join(ports, ","))
	}
	return out
}

func TestOnlyTheGatewayReachesTheReranker(t *testing.T) {
	in := rerankingInput(v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin})
	for _, role := range Roles(in.Index) {
		policy := stackNetworkPolicy(in, role)
		if got := slices.Contains(describeEgress(policy), "reranker:8080"); got != (role == GatewayPart) {
			t.Errorf("%s may reach the reranker: %v", role, got)
		}
	}
	ingress := stackNetworkPolicy(in, RerankerPart).Spec.Ingress
	if len(ingress) != 1 || len(ingress[0].From) != 1 ||
		!reflect.DeepEqual(ingress[0].From[0].PodSelector.MatchLabels, SelectorLabels(in.Index, GatewayPart)) {
		t.Errorf("the reranker may be reached by %+v", ingress)
	}
	if plain := stackNetworkPolicy(stackInput(), GatewayPart); slices.Contains(describeEgress(plain), "reranker:8080") {
		t.Error("a gateway without a reranker may reach one")
	}
}

// What runs a transformer asks for more than what does not; the user's own resources win.
func TestPodsAskForWhatTheirModelNeeds(t *testing.T) {
	in := rerankingInput(v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin})
	jobs := JobsInput{Pipeline: in.Pipeline, Corpus: in.Corpus, Index: in.Index, Shards: 1}
	memory := func(role Part) string {
		return roleDeployment(in, role).Spec.Template.Spec.Containers[0].Resources.Requests.Memory().String()
	}
	embedding := func() string {
		return StageJob(jobs, EmbedPart).Spec.Template.Spec.Containers[0].Resources.Requests.Memory().String()
	}
	for _, test := range []struct{ embed, rerank, hnsw, reranker, job string }{
		{"static-256", "", "64Mi", "192Mi", "64Mi"},
		{"static-256", "static-256", "64Mi", "64Mi", "64Mi"},
		{"minilm-l6-v2", "static-256", "128Mi", "64Mi", "192Mi"},
		{"", "", "128Mi", "192Mi", "192Mi"},
	} {
		in.Index.Spec.Indexing.Embedding.Model, in.Index.Spec.Retrieval.Rerank.Model = test.embed, test.rerank
		if got := []string{memory(HNSWPart), memory(RerankerPart), embedding(), memory(BM25Part)}; !slices.Equal(got, []string{test.hnsw, test.reranker, test.job, "64Mi"}) {
			t.Errorf("models %q and %q: hnsw, reranker, embed and bm25 ask for %v", test.embed, test.rerank, got)
		}
	}
	in.Pipeline.Spec.Serving.Reranker.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	if got := memory(RerankerPart); got != "2Gi" {
		t.Errorf("the user asked for 2Gi and gets %s", got)
	}
}
