package desired

import (
	"encoding/json"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/stage"
)

// AnnotationShards stands on the ConfigMap of an Index and holds the number of shards that its Jobs were started
// with. It never changes while the Index lives: with another number a later stage would miss documents.
const AnnotationShards = "quarry.dev/shards"

const (
	defaultShards = 1
	jobRetries    = 3
)

// JobsInput is all that the Jobs of one Index depend on.
type JobsInput struct {
	Pipeline *v1alpha1.RetrievalPipeline
	Corpus   *v1alpha1.Corpus
	Index    *v1alpha1.Index
	// Shards is the number of completions of the sharded stages; see Shards.
	Shards int32
	// Parent is the index whose segments the build keeps; see Parent.
	Parent stage.Parent
}

// Stages are the Jobs that this Index needs, in their order. Without contexts there is nothing to contextualize.
func Stages(index *v1alpha1.Index) []Part {
	stages := []Part{ChunkPart}
	if NeedsContext(index) {
		stages = append(stages, ContextualizePart)
	}
	return append(stages, EmbedPart, BuildPart)
}

// NeedsContext tells whether the recipe writes a context before each chunk.
func NeedsContext(index *v1alpha1.Index) bool {
	kind := index.Spec.Indexing.Context.Type
	return kind != "" && kind != v1alpha1.ContextNone
}

// Shards is the number that the live ConfigMap records, or what the pipeline says now where there is none (nil).
func Shards(pipeline *v1alpha1.RetrievalPipeline, live *corev1.ConfigMap) int32 {
	if live != nil {
		if n, err := strconv.ParseInt(live.Annotations[AnnotationShards], 10, 32); err == nil && n > 0 {
			return int32(n)
		}
	}
	return max(pipeline.Spec.Build.Shards, defaultShards)
}

// BuildsUpon tells whether an Index can keep segments of the parent (nil: none): that one must be built, of the same Corpus,
// and so in the same bucket, and of the same recipe.
func BuildsUpon(index, parent *v1alpha1.Index) bool {
	return parent != nil && parent.Status.Artifact != nil && parent.Spec.CorpusRef == index.Spec.CorpusRef &&
		equality.Semantic.DeepEqual(parent.Spec.Indexing, index.Spec.Indexing)
}

// Parent is what the live ConfigMap says, so that it stays the same while the Jobs run. Where there is none (nil), it is the
// artifact of the parent Index, if this one can build upon it.
func Parent(index, parent *v1alpha1.Index, live *corev1.ConfigMap) stage.Parent {
	if live != nil {
		var config stage.Config
		if err := json.Unmarshal([]byte(live.Data[configKey]), &config); err == nil {
			return config.Parent
		}
	}
	if !BuildsUpon(index, parent) {
		return stage.Parent{}
	}
	return stage.Parent{ContentDigest: ContentDigest(parent), ManifestDigest: parent.Status.Artifact.Digest}
}

// configKey is where a ConfigMap holds what the Jobs read.
const configKey = "config.json"

// Completions is how many pods of the stage must succeed. The build makes one segment, so it is one.
func (in JobsInput) Completions(stage Part) int32 {
	if stage == BuildPart {
		return 1
	}
	return in.Shards
}

// JobsConfig is the ConfigMap that every Job of the Index mounts.
func JobsConfig(in JobsInput) (*corev1.ConfigMap, error) {
	text, err := jobConfig(in)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Index.Namespace, Name: PartName(in.Index.Name, ConfigPart), Labels: Labels(in.Index),
			Annotations: map[string]string{AnnotationShards: strconv.Itoa(int(in.Shards))},
		},
		Data: map[string]string{configKey: string(text)},
	}, nil
}

// JobsNetworkPolicy lets nobody reach the Jobs of the Index, and lets them reach the object storage only.
func JobsNetworkPolicy(in JobsInput) *networkingv1.NetworkPolicy {
	artifacts := in.Corpus.Spec.Artifacts.S3.Endpoint
	egress := []networkingv1.NetworkPolicyEgressRule{dnsEgress(), endpointEgress(artifacts)}
	if s3 := in.Corpus.Spec.Source.S3; s3 != nil && endpointPort(s3.Endpoint) != endpointPort(artifacts) {
		egress = append(egress, endpointEgress(s3.Endpoint))
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Index.Namespace, Name: PartName(in.Index.Name, JobsPart), Labels: Labels(in.Index),
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{
				MatchLabels: map[string]string{LabelName: "quarry", LabelIndex: LabelValue(in.Index.Name)},
				MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: LabelComponent, Operator: metav1.LabelSelectorOpIn,
					Values: []string{string(ChunkPart), string(ContextualizePart), string(EmbedPart), string(BuildPart)},
				}},
			},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Egress:      egress,
		},
	}
}

// StageJob is the Indexed Job of one stage. It has no TTL: its outcome is in the status of the Index before anything
// removes it, and the Job goes with the Index. A shard that fails is retried by itself; what it had written is reused.
func StageJob(in JobsInput, stage Part) *batchv1.Job {
	completions := in.Completions(stage)
	parallelism := min(max(in.Pipeline.Spec.Build.Parallelism, 1), completions)
	mode, retries := batchv1.IndexedCompletion, int32(jobRetries)
	labels := ComponentLabels(in.Index, stage)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Index.Namespace, Name: PartName(in.Index.Name, stage), Labels: labels,
		},
		Spec: batchv1.JobSpec{
			CompletionMode: &mode, Completions: &completions, Parallelism: &parallelism, BackoffLimitPerIndex: &retries,
			PodFailurePolicy: ignoreDisruption(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       stagePod(in, stage),
			},
		},
	}
}

// ignoreDisruption keeps a drained node or an eviction from counting as a failed try.
func ignoreDisruption() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}}}
}

// stagePod mounts the source's credentials in the chunk stage alone: later stages read what that one wrote.
func stagePod(in JobsInput, stage Part) corev1.PodSpec {
	var p pod
	p.configMap("config", etc+"/config", PartName(in.Index.Name, ConfigPart))
	artifacts := in.Corpus.Spec.Artifacts.S3
	p.bucket("artifacts", artifacts.WriteCredentialsRef.Name, artifacts.CABundleRef)
	if s3 := in.Corpus.Spec.Source.S3; s3 != nil && stage == ChunkPart {
		p.bucket("source", s3.CredentialsRef.Name, s3.CABundleRef)
	}
	p.scratch()
	return restrictedPod(corev1.Container{
		Name: string(stage), Image: in.Index.Spec.Image, Args: []string{string(stage)},
		VolumeMounts: p.mounts, SecurityContext: containerSecurity(),
		Resources:                withDefaults(in.Pipeline.Spec.Build.Resources, stageRequests(in.Index, stage)),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}, p.volumes, corev1.RestartPolicyNever)
}
