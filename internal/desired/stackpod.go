package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.dev/quarry/api/v1alpha1"
)

const etc = "/etc/quarry"

// pod collects the volumes and mounts of one pod, so that a builder reads as a list of what the pod may see.
type pod struct {
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount
}

func (p *pod) mount(name, path string, source corev1.VolumeSource) {
	p.volumes = append(p.volumes, corev1.Volume{Name: name, VolumeSource: source})
	p.mounts = append(p.mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: source.EmptyDir == nil})
}

func (p *pod) secret(name, path, secret string, items ...corev1.KeyToPath) {
	// 0440 with the pod's fsGroup: readable by the non-root user, by nobody else.
	mode := int32(0o440)
	p.mount(name, path, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items, DefaultMode: &mode}})
}

func (p *pod) configMap(name, path, configMap string, items ...corev1.KeyToPath) {
	p.mount(name, path, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Items: items,
	}})
}

func (p *pod) scratch() {
	p.mount("data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
}

func (p *pod) bucket(name, credentials string, ca *v1alpha1.KeyRef) {
	p.secret(name, etc+"/"+name, credentials)
	if ca != nil {
		p.secret(name+"-ca", etc+"/"+name+"-ca", ca.Name, corev1.KeyToPath{Key: ca.Key, Path: "ca.crt"})
	}
}

func rolePod(in StackInput, role Part) corev1.PodSpec {
	var p pod
	p.configMap("config", etc+"/config", PartName(in.Index.Name, ServePart))
	p.configMap("public", etc+"/public", PartName(in.Index.Name, PublicPart))
	if role == RerankerPart {
		p.rerankEndpoint(in.Index)
	} else {
		artifacts := in.Corpus.Spec.Artifacts.S3
		p.bucket("artifacts", artifacts.ReadCredentialsRef.Name, artifacts.CABundleRef)
		p.scratch()
	}
	if role == GatewayPart {
		p.secret("keys", etc+"/keys", PartName(in.Index.Name, KeysPart))
		p.jwks(in.Pipeline.Spec.Access.Identity)
	}
	ports := []corev1.ContainerPort{
		{Name: "api", ContainerPort: PortAPI, Protocol: corev1.ProtocolTCP},
		{Name: "admin", ContainerPort: PortAdmin, Protocol: corev1.ProtocolTCP},
	}
	if role == GatewayPart {
		ports = append(ports, corev1.ContainerPort{Name: "eval", ContainerPort: PortEval, Protocol: corev1.ProtocolTCP})
	}
	container := corev1.Container{
		Name: string(role), Image: in.Index.Spec.Image, Args: []string{"serve", string(role)},
		Ports: ports, VolumeMounts: p.mounts, SecurityContext: containerSecurity(),
		Resources:      withDefaults(roleSpec(in.Pipeline, role).Resources, roleRequests(in.Index, role)),
		ReadinessProbe: probe("/readyz", 2, 3),
		LivenessProbe:  probe("/healthz", 10, 6),
	}
	return restrictedPod(container, p.volumes, corev1.RestartPolicyAlways)
}

func (p *pod) jwks(identity v1alpha1.IdentitySpec) {
	if identity.JWT == nil || identity.JWT.JWKSRef == nil {
		return
	}
	item := func(k *v1alpha1.KeyRef) corev1.KeyToPath { return corev1.KeyToPath{Key: k.Key, Path: "jwks.json"} }
	switch ref := identity.JWT.JWKSRef; {
	case ref.Secret != nil:
		p.secret("jwks", etc+"/jwks", ref.Secret.Name, item(ref.Secret))
	case ref.ConfigMap != nil:
		p.configMap("jwks", etc+"/jwks", ref.ConfigMap.Name, item(ref.ConfigMap))
	}
}

func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("admin")}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 2,
	}
}

// restrictedPod satisfies the Pod Security Standard "restricted" and holds no Kubernetes identity.
func restrictedPod(c corev1.Container, volumes []corev1.Volume, restart corev1.RestartPolicy) corev1.PodSpec {
	no, yes, user := false, true, int64(65532)
	grace := int64(15)
	return corev1.PodSpec{
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no,
		RestartPolicy:                restart,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{c},
		Volumes:                       volumes,
	}
}

func containerSecurity() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// requests are the CPU and the memory of a container that the user gave no resources.
type requests struct{ cpu, memory string }

// frugal is for work that neither holds nor runs a transformer. Running stacks carry it, and no release may restart them, so
// it stays as it is.
var frugal = requests{"10m", "64Mi"}

// withDefaults fills in requests and a memory limit that small corpora fit in; what the user sets wins.
func withDefaults(r corev1.ResourceRequirements, need requests) corev1.ResourceRequirements {
	out := *r.DeepCopy()
	if out.Requests == nil {
		out.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(need.cpu), corev1.ResourceMemory: resource.MustParse(need.memory)}
	}
	if out.Limits == nil {
		out.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	return out
}
