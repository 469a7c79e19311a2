package desired

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// EvalInput is all that the objects of one evaluation depend on.
type EvalInput struct {
	Run      *v1alpha1.EvalRun
	Pipeline *v1alpha1.RetrievalPipeline
	Corpus   *v1alpha1.Corpus
	Index    *v1alpha1.Index
	// Baseline is nil for the first version.
	Baseline *v1alpha1.Index
	// Config is the content of config.json (the subject's serving configuration), Plan that of eval.json.
	Config, Plan []byte
	// EvalSet is the content of the eval set where a ConfigMap holds it. The Job reads this copy, so that what it asks is
	// what its digest says, whatever happens to the ConfigMap meanwhile. Empty where the set is an object in the bucket.
	EvalSet []byte
}

// Eval returns the objects of one evaluation: its configuration, its NetworkPolicy, and the Job, in this order.
func Eval(in EvalInput) []client.Object {
	return []client.Object{evalConfig(in), evalNetworkPolicy(in), evalJob(in)}
}

func evalMeta(in EvalInput) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: in.Run.Namespace, Name: in.Run.Name, Labels: ComponentLabels(in.Index, EvalPart)}
}

func evalConfig(in EvalInput) *corev1.ConfigMap {
	data := map[string]string{"config.json": string(in.Config), "eval.json": string(in.Plan)}
	if len(in.EvalSet) > 0 {
		data["eval.jsonl"] = string(in.EvalSet)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: evalMeta(in),
		Data:       data,
	}
}

// evalNetworkPolicy lets the Job ask the evaluation port of the gateways of its tenant, and read and write the artifacts.
func evalNetworkPolicy(in EvalInput) *networkingv1.NetworkPolicy {
	gateways := evalSelector(in.Pipeline.Name, in.Index.Spec.Tenant)
	gateways[LabelComponent] = string(GatewayPart)
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: evalMeta(in),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobNameLabel: in.Run.Name}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{
				dnsEgress(),
				{Ports: tcp(PortEval), To: peers(gateways)},
				endpointEgress(in.Corpus.Spec.Artifacts.S3.Endpoint),
			},
		},
	}
}

func evalJob(in EvalInput) *batchv1.Job {
	var p pod
	p.configMap("config", etc+"/config", in.Run.Name)
	artifacts := in.Corpus.Spec.Artifacts.S3
	p.bucket("artifacts", artifacts.WriteCredentialsRef.Name, artifacts.CABundleRef)
	p.secret("subject", etc+"/eval/subject", PartName(in.Index.Name, EvalPart))
	if in.Baseline != nil {
		p.secret("baseline", etc+"/eval/baseline", PartName(in.Baseline.Name, EvalPart))
	}
	p.scratch()
	container := corev1.Container{
		Name: string(EvalPart), Image: in.Index.Spec.Image, Args: []string{"eval"},
		VolumeMounts: p.mounts, SecurityContext: containerSecurity(),
		Resources:                withDefaults(in.Pipeline.Spec.Build.Resources, frugal),
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	meta := evalMeta(in)
	retries, deadline := int32(2), int64(3600)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: &retries, ActiveDeadlineSeconds: &deadline,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
				Spec:       restrictedPod(container, p.volumes, corev1.RestartPolicyNever),
			},
		},
	}
}
