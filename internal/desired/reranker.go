package desired

import (
	"net/netip"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

// RerankKey is the key of the Secret that rerank.endpoint.credentialsRef names.
const RerankKey = "apiKey"

// Reranks tells whether the recipe orders the best passages once more, so that the stack has a reranker.
func Reranks(index *v1alpha1.Index) bool {
	kind := index.Spec.Retrieval.Rerank.Type
	return kind != "" && kind != v1alpha1.RerankNone
}

// rerankEndpoint mounts what a server outside asks for. It is all that a reranker holds beside its configuration and the public
// keys: passages come with each request, so it needs no key of a bucket.
func (p *pod) rerankEndpoint(index *v1alpha1.Index) {
	endpoint := index.Spec.Retrieval.Rerank.Endpoint
	if endpoint == nil {
		return
	}
	if ref := endpoint.CredentialsRef; ref != nil {
		p.secret("rerank", etc+"/rerank", ref.Name, corev1.KeyToPath{Key: RerankKey, Path: RerankKey})
	}
	if ca := endpoint.CABundleRef; ca != nil {
		p.secret("rerank-ca", etc+"/rerank-ca", ca.Name, corev1.KeyToPath{Key: ca.Key, Path: "ca.crt"})
	}
}

// rerankerEgress is nothing for the models inside the image. For a server it is that server: its address where the URL holds
// one, else its port and the DNS to find it, since a NetworkPolicy knows no names.
func rerankerEgress(index *v1alpha1.Index) []networkingv1.NetworkPolicyEgressRule {
	endpoint := index.Spec.Retrieval.Rerank.Endpoint
	if endpoint == nil {
		return nil
	}
	server := endpointEgress(endpoint.URL)
	address, ok := endpointAddress(endpoint.URL)
	if !ok {
		return []networkingv1.NetworkPolicyEgressRule{dnsEgress(), server}
	}
	cidr := netip.PrefixFrom(address, address.BitLen()).String()
	server.To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}
	return []networkingv1.NetworkPolicyEgressRule{server}
}

// endpointAddress is the IP address of a URL whose host is one.
func endpointAddress(endpoint string) (netip.Addr, bool) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return netip.Addr{}, false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return address.Unmap().WithZone(""), err == nil
}

// A transformer has 23 MB of weights in memory, which pods of one node share, and about 10 MB beside them for every core that
// it uses. A question costs the hnsw pods a millisecond; passages by the fifty or the thousand are another matter.
var (
	asksTransformer = requests{"50m", "128Mi"}
	runsTransformer = requests{"100m", "192Mi"}
)

func roleRequests(index *v1alpha1.Index, role Part) requests {
	switch {
	case role == HNSWPart && transformer(index.Spec.Indexing.Embedding.Model):
		return asksTransformer
	case role == RerankerPart && index.Spec.Retrieval.Rerank.Endpoint == nil && transformer(index.Spec.Retrieval.Rerank.Model):
		return runsTransformer
	}
	return frugal
}

func stageRequests(index *v1alpha1.Index, stage Part) requests {
	if stage == EmbedPart && transformer(index.Spec.Indexing.Embedding.Model) {
		return runsTransformer
	}
	return frugal
}

// transformer tells whether the model is one; an absent name is the default, which is.
func transformer(model string) bool { return model != embed.Static256 }
