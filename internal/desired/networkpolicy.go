package desired

import (
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// stackNetworkPolicy lets a retriever and a reranker be reached by the gateways of their own version only, a gateway by anyone
// on its public port and by the evaluation Jobs of its pipeline and tenant on the other, and lets each reach what it needs and
// no more.
func stackNetworkPolicy(in StackInput, role Part) *networkingv1.NetworkPolicy {
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: SelectorLabels(in.Index, role)},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Egress:      roleEgress(in, role),
		Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: tcp(PortAPI), From: peers(SelectorLabels(in.Index, GatewayPart))},
		},
	}
	if role == GatewayPart {
		spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
			{Ports: tcp(PortAPI)},
			{Ports: tcp(PortEval), From: peers(evalSelector(in.Pipeline.Name, in.Index.Spec.Tenant))},
		}
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: stackMeta(in, role, role),
		Spec:       spec,
	}
}

// roleEgress is where a role may go: the gateway to the other roles and the issuer, all but the reranker to the artifacts.
func roleEgress(in StackInput, role Part) []networkingv1.NetworkPolicyEgressRule {
	if role == RerankerPart {
		return rerankerEgress(in.Index)
	}
	egress := []networkingv1.NetworkPolicyEgressRule{dnsEgress(), endpointEgress(in.Corpus.Spec.Artifacts.S3.Endpoint)}
	if role != GatewayPart {
		return egress
	}
	for _, other := range Roles(in.Index) {
		if other != GatewayPart {
			egress = append(egress, networkingv1.NetworkPolicyEgressRule{Ports: tcp(PortAPI), To: peers(SelectorLabels(in.Index, other))})
		}
	}
	if jwt := in.Pipeline.Spec.Access.Identity.JWT; jwt != nil && jwt.JWKSURL != "" {
		egress = append(egress, endpointEgress(jwt.JWKSURL))
	}
	return egress
}

func evalSelector(pipeline, tenant string) map[string]string {
	return map[string]string{LabelPipeline: LabelValue(pipeline), LabelTenant: LabelValue(tenant), LabelComponent: string(EvalPart)}
}

func peers(labels map[string]string) []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}}
}

func tcp(ports ...int) []networkingv1.NetworkPolicyPort {
	protocol := corev1.ProtocolTCP
	var out []networkingv1.NetworkPolicyPort
	for _, port := range ports {
		value := intstr.FromInt(port)
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &value})
	}
	return out
}

func dnsEgress() networkingv1.NetworkPolicyEgressRule {
	udp, tcpProtocol, port := corev1.ProtocolUDP, corev1.ProtocolTCP, intstr.FromInt32(53)
	return networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{
		{Protocol: &udp, Port: &port}, {Protocol: &tcpProtocol, Port: &port},
	}}
}

// endpointEgress opens the port of a URL. The address behind its name may change at any time, and a NetworkPolicy
// knows no names, so the port is all that can be said; what is sent there still needs the credentials.
func endpointEgress(endpoint string) networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{Ports: tcp(endpointPort(endpoint))}
}

func endpointPort(endpoint string) int {
	u, err := url.Parse(endpoint)
	if err != nil {
		return 443
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
