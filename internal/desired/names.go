// Package desired builds the Kubernetes objects that Quarry applies. Every function here is pure: the same
// arguments give the same object, byte for byte. There is no client and no clock, so golden files can hold every result.
package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

// Part is one object of an Index; its name is the Index's name and the part's.
type Part string

// The parts of an Index. ContextualizePart is the longest, and sets the limit of an Index's name.
const (
	// ConfigPart is the ConfigMap that the Jobs read.
	ConfigPart Part = "config"
	// ServePart is the ConfigMap that the serving stack reads.
	ServePart Part = "serve"
	// KeysPart is the Secret with the gateway's private key.
	KeysPart Part = "keys"
	// EvalPart is the Secret with the private key that only the eval Job mounts.
	EvalPart Part = "eval"
	// PublicPart is the ConfigMap with the public halves of both keys.
	PublicPart Part = "public"
	// JobsPart is the NetworkPolicy of the Jobs.
	JobsPart Part = "jobs"

	// ChunkPart, ContextualizePart, EmbedPart and BuildPart are the Jobs, in their order.
	ChunkPart         Part = "chunk"
	ContextualizePart Part = "contextualize"
	EmbedPart         Part = "embed"
	BuildPart         Part = "build"

	// BM25Part, HNSWPart, RerankerPart and GatewayPart are Deployments and Services of the serving stack.
	BM25Part     Part = "bm25"
	HNSWPart     Part = "hnsw"
	RerankerPart Part = "reranker"
	GatewayPart  Part = "gateway"
)

// Labels that every object of an Index carries.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPipeline  = "quarry.dev/pipeline"
	LabelTenant    = "quarry.dev/tenant"
	LabelIndex     = "quarry.dev/index"
	LabelVersion   = "quarry.dev/version"

	// AnnotationActiveIndex stands on the tenant Service and names the Index that answers: the record of a promotion.
	AnnotationActiveIndex = "quarry.dev/active-index"
)

const (
	// maxIndexName leaves room for the longest part, and for the completion number that an Indexed Job
	// appends to the host names of its pods: 45 + len("-contextualize") + len("-255") = 63.
	maxIndexName = 45
	maxLabel     = 63
	hashLength   = 10
)

// IndexName names the version of one tenant. The hash covers all four arguments, so two pipelines whose
// names and tenants join to the same text never meet. At most 45 characters, a valid DNS label.
func IndexName(namespace, pipeline, tenant, versionDigest string) string {
	return joinHash(pipeline+"-"+tenant, maxIndexName, namespace, pipeline, tenant, versionDigest)
}

// PartName names one part of the Index.
func PartName(index string, part Part) string { return index + "-" + string(part) }

// TenantServiceName is the plain `<pipeline>-<tenant>` where that is a DNS label, else the same shortened with a hash.
func TenantServiceName(pipeline, tenant string) string {
	plain := pipeline + "-" + tenant
	if len(plain) <= maxLabel && label(plain) == plain {
		return plain
	}
	return joinHash(plain, maxLabel, pipeline, tenant)
}

// EvalRunName names one attempt to judge an Index against a baseline. `subjectDigest` stands for everything
// else that the verdict is bound to (gate, eval set, baseline).
func EvalRunName(index, subjectDigest string, attempt int32) string {
	return fmt.Sprintf("%s-%s-%d", index, ShortHash(subjectDigest)[:6], attempt)
}

// ShortHash is the first ten hex digits of the digest of the parts, each of which ends with a zero byte.
func ShortHash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:hashLength]
}

// Labels are those of every object that belongs to the Index; add LabelComponent with ComponentLabels.
func Labels(index *v1alpha1.Index) map[string]string {
	return map[string]string{
		LabelName:      "quarry",
		LabelManagedBy: "quarry",
		LabelPipeline:  LabelValue(index.Spec.PipelineRef.Name),
		LabelTenant:    LabelValue(index.Spec.Tenant),
		LabelIndex:     LabelValue(index.Name),
		LabelVersion:   ShortHash(index.Spec.VersionDigest),
	}
}

// ComponentLabels are Labels with the component: the name of the part.
func ComponentLabels(index *v1alpha1.Index, part Part) map[string]string {
	labels := Labels(index)
	labels[LabelComponent] = string(part)
	return labels
}

// SelectorLabels pick the pods of one part of one Index. They are few, because a Deployment's selector is immutable.
func SelectorLabels(index *v1alpha1.Index, part Part) map[string]string {
	return map[string]string{LabelName: "quarry", LabelIndex: LabelValue(index.Name), LabelComponent: string(part)}
}

// LabelValue is the value where it fits in a label, else the same shortened with a hash.
func LabelValue(value string) string {
	if len(value) <= maxLabel {
		return value
	}
	return joinHash(value, maxLabel, value)
}

// NameConflict says that an object which Quarry needs exists already and belongs to someone else.
type NameConflict struct {
	// Kind and Name of the object in the way.
	Kind, Name string
	// Owner is `Kind/name` of its controller, or "nobody".
	Owner string
}

// Error names the object, its owner, and what to do.
func (e *NameConflict) Error() string {
	return fmt.Sprintf("%s %q exists and is controlled by %s: delete or rename it, or choose another name here", e.Kind, e.Name, e.Owner)
}

// Conflict is a *NameConflict where the controller of an existing object is not the one with this UID, and nil otherwise.
// Such an object must never be written or deleted.
func Conflict(obj client.Object, owner types.UID) error {
	controller := metav1.GetControllerOf(obj)
	if controller != nil && controller.UID == owner {
		return nil
	}
	conflict := &NameConflict{Kind: KindOf(obj), Name: obj.GetName(), Owner: "nobody"}
	if controller != nil {
		conflict.Owner = controller.Kind + "/" + controller.Name
	}
	return conflict
}

// KindOf is the object's kind; typed objects that come from a client do not carry it, so the Go type stands in.
func KindOf(obj client.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(obj).Elem().Name()
}

// joinHash is the readable text, cut so that it fits in limit together with a hash of the parts.
func joinHash(text string, limit int, parts ...string) string {
	text = label(text)
	if room := limit - hashLength - 1; len(text) > room {
		text = strings.TrimRight(text[:room], "-")
	}
	return text + "-" + ShortHash(parts...)
}

// label makes a DNS label of a DNS subdomain: no dots, and a letter first, since some API servers ask that of a Service.
func label(text string) string {
	text = strings.ReplaceAll(text, ".", "-")
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return "q-" + text
	}
	return text
}
