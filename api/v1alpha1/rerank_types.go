package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RerankType is the discriminator of RerankSpec.
// +kubebuilder:validation:Enum=None;Builtin;LateInteraction;Endpoint
type RerankType string

const (
	// RerankNone keeps the fused order.
	RerankNone RerankType = "None"
	// RerankBuiltin compares question and passage by the vectors of a model inside the image.
	RerankBuiltin RerankType = "Builtin"
	// RerankLateInteraction compares them as wholes, window by window and token by token.
	RerankLateInteraction RerankType = "LateInteraction"
	// RerankTypeEndpoint asks a server.
	RerankTypeEndpoint RerankType = "Endpoint"
)

// RerankAPI is the dialect of a reranking server.
// +kubebuilder:validation:Enum=Cohere;TEI;Jina;VLLM;Infinity
type RerankAPI string

const (
	// RerankAPICohere is POST /v2/rerank of Cohere.
	RerankAPICohere RerankAPI = "Cohere"
	// RerankAPITEI is POST /rerank of Text Embeddings Inference.
	RerankAPITEI RerankAPI = "TEI"
	// RerankAPIJina is POST /v1/rerank of Jina.
	RerankAPIJina RerankAPI = "Jina"
	// RerankAPIVLLM is POST /v1/rerank of vLLM.
	RerankAPIVLLM RerankAPI = "VLLM"
	// RerankAPIInfinity is POST /rerank of Infinity.
	RerankAPIInfinity RerankAPI = "Infinity"
)

// RerankEndpoint is a server that scores passages against a question. The
// passages of every answer are sent to it.
type RerankEndpoint struct {
	// url of the server, without the path of the API.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@ ]+(/[^?# ]*)?$') && isURL(self)",message="url must be an http:// or https:// URL without keys in it; name a Secret in credentialsRef"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/]*:(0+|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9]|[0-9]{6,})(/|$)')",message="url has a port that does not exist: use one from 1 to 65535, or none"
	// +required
	URL string `json:"url"`

	// model that the server shall use.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Model string `json:"model"`

	// api that the server speaks. Defaults to Cohere.
	// +kubebuilder:default=Cohere
	// +optional
	API RerankAPI `json:"api,omitempty"`

	// timeout of the whole reranking of one answer, 50ms to 8s; when it has
	// passed the answer keeps the fused order. Defaults to 2s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('50ms') && duration(self) <= duration('8s')",message="rerank.endpoint.timeout must be a duration from 50ms to 8s, for instance 2s"
	// +kubebuilder:default="2s"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// credentialsRef names a Secret with the key apiKey.
	// +optional
	CredentialsRef *SecretRef `json:"credentialsRef,omitempty"`

	// caBundleRef names a key of a Secret with the certificates to trust.
	// +optional
	CABundleRef *KeyRef `json:"caBundleRef,omitempty"`
}

// RerankSpec is a union: how the first passages are ordered once more.
// +kubebuilder:validation:XValidation:rule="has(self.endpoint) == (has(self.type) && self.type == 'Endpoint')",message="rerank.endpoint must be set when type is Endpoint, and absent otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.model) || (has(self.type) && self.type in ['Builtin', 'LateInteraction'])",message="rerank.model must be absent unless type is Builtin or LateInteraction: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.denseWeight) || (has(self.type) && self.type in ['Builtin', 'LateInteraction'])",message="rerank.denseWeight must be absent unless type is Builtin or LateInteraction: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.candidates) || (has(self.type) && self.type != 'None')",message="rerank.candidates must be absent when type is None: remove it"
type RerankSpec struct {
	// type is None, Builtin, LateInteraction or Endpoint. Defaults to None.
	// +kubebuilder:default=None
	// +optional
	Type RerankType `json:"type,omitempty"`

	// model inside the image, for Builtin and LateInteraction. When absent it is
	// minilm-l6-v2.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self in ['minilm-l6-v2', 'static-256']",message="rerank.model is no builtin model: use minilm-l6-v2 or static-256"
	// +optional
	Model string `json:"model,omitempty"`

	// candidates are the best fused passages that are ordered once more, 1 to
	// 100; the others follow in their fused order. When absent it is 50, or 20
	// for LateInteraction.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Candidates int32 `json:"candidates,omitempty"`

	// denseWeight is the weight of the model's score beside that of BM25, for
	// Builtin and LateInteraction, a decimal from 0 to 1. When absent it is 0.5,
	// or 0.6 for LateInteraction.
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]{1,4})?|1([.]0{1,4})?)$')",message="rerank.denseWeight must be a decimal string from 0 to 1 such as \"0.5\""
	// +optional
	DenseWeight string `json:"denseWeight,omitempty"`

	// endpoint for type Endpoint.
	// +optional
	Endpoint *RerankEndpoint `json:"endpoint,omitempty"`
}
