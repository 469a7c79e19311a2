package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// Ports of every serving pod. The tenant Service exposes PortAPI of the gateway and nothing else.
const (
	PortAPI   = 8080
	PortAdmin = 8081
	PortEval  = 8082
)

// Roles lists the Deployments of the version's stack, in the order in which they appear in status and logs.
func Roles(index *v1alpha1.Index) []Part {
	roles := []Part{BM25Part, HNSWPart}
	if Reranks(index) {
		roles = append(roles, RerankerPart)
	}
	return append(roles, GatewayPart)
}

// StackInput is all that the objects of one serving stack depend on.
type StackInput struct {
	Pipeline *v1alpha1.RetrievalPipeline
	Corpus   *v1alpha1.Corpus
	Index    *v1alpha1.Index
	// ServeConfig is the content of config.json of the serving pods.
	ServeConfig []byte
	// GatewayPublicPEM and EvalPublicPEM are PKIX keys: what retrievers and the evaluation port verify with.
	GatewayPublicPEM []byte
	EvalPublicPEM    []byte
}

// Stack returns every object of a serving stack except its two key Secrets, which are created once and never applied.
// The order is the order to apply in: what pods mount comes before the pods.
func Stack(in StackInput) []client.Object {
	objects := []client.Object{serveConfig(in), publicKeys(in)}
	for _, role := range Roles(in.Index) {
		objects = append(objects, stackNetworkPolicy(in, role), roleService(in, role))
		if budget := disruptionBudget(in, role); budget != nil {
			objects = append(objects, budget)
		}
		objects = append(objects, roleDeployment(in, role))
	}
	return objects
}

func stackMeta(in StackInput, part, component Part) metav1.ObjectMeta {
	labels := Labels(in.Index)
	if component != "" {
		labels[LabelComponent] = string(component)
	}
	return metav1.ObjectMeta{Namespace: in.Index.Namespace, Name: PartName(in.Index.Name, part), Labels: labels}
}

func serveConfig(in StackInput) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: stackMeta(in, ServePart, ""),
		Data:       map[string]string{"config.json": string(in.ServeConfig)},
	}
}

func publicKeys(in StackInput) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: stackMeta(in, PublicPart, ""),
		Data:       map[string]string{"gateway.pem": string(in.GatewayPublicPEM), "eval.pem": string(in.EvalPublicPEM)},
	}
}

func roleSpec(p *v1alpha1.RetrievalPipeline, role Part) v1alpha1.RoleSpec {
	switch role {
	case BM25Part:
		return p.Spec.Serving.BM25
	case HNSWPart:
		return p.Spec.Serving.HNSW
	case RerankerPart:
		return p.Spec.Serving.Reranker
	default:
		return p.Spec.Serving.Gateway
	}
}

func roleService(in StackInput, role Part) *corev1.Service {
	ports := []corev1.ServicePort{{Name: "api", Port: PortAPI, TargetPort: intstr.FromString("api"), Protocol: corev1.ProtocolTCP}}
	if role == GatewayPart {
		ports = append(ports, corev1.ServicePort{Name: "eval", Port: PortEval, TargetPort: intstr.FromString("eval"), Protocol: corev1.ProtocolTCP})
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: stackMeta(in, role, role),
		Spec:       corev1.ServiceSpec{Selector: SelectorLabels(in.Index, role), Ports: ports},
	}
}

func disruptionBudget(in StackInput, role Part) *policyv1.PodDisruptionBudget {
	if roleSpec(in.Pipeline, role).Replicas < 2 {
		return nil
	}
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: stackMeta(in, role, role),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: SelectorLabels(in.Index, role)},
		},
	}
}

func roleDeployment(in StackInput, role Part) *appsv1.Deployment {
	replicas := roleSpec(in.Pipeline, role).Replicas
	if replicas == 0 {
		replicas = 1
	}
	meta := stackMeta(in, role, role)
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	history := int32(0)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:             &replicas,
			RevisionHistoryLimit: &history,
			Selector:             &metav1.LabelSelector{MatchLabels: SelectorLabels(in.Index, role)},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &zero, MaxSurge: &one},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: restartOn(in, role)},
				Spec:       rolePod(in, role),
			},
		},
	}
}

// restartOn makes new gateways where what they were started with has changed. It covers what the user may change under a
// running version and nothing that an operator release could change, because an upgrade restarts no pod.
func restartOn(in StackInput, role Part) map[string]string {
	if role != GatewayPart {
		return nil
	}
	return map[string]string{"quarry.dev/access-settings": ShortHash(jsonDigest(in.Pipeline.Spec.Access))}
}

// TenantService is the one name that users of a tenant know. Its selector and its annotations change together in one
// apply, so they always name the same version: it is the record of what is promoted.
func TenantService(p *v1alpha1.RetrievalPipeline, tenant string, index *v1alpha1.Index, promotedAt, previous string) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: TenantServiceName(p.Name, tenant),
			Labels: map[string]string{LabelName: "quarry", LabelManagedBy: "quarry", LabelPipeline: LabelValue(p.Name), LabelTenant: LabelValue(tenant)},
			Annotations: map[string]string{
				AnnotationActiveIndex:   index.Name,
				AnnotationPromotedAt:    promotedAt,
				AnnotationPreviousIndex: previous,
			},
		},
		Spec: corev1.ServiceSpec{
			Selector: SelectorLabels(index, GatewayPart),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("api"), Protocol: corev1.ProtocolTCP}},
		},
	}
}

// Annotations of the tenant Service beside AnnotationActiveIndex.
const (
	AnnotationPreviousIndex = "quarry.dev/previous-index"
	AnnotationPromotedAt    = "quarry.dev/promoted-at"
)
