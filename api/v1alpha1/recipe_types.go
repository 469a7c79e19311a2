package v1alpha1

// ChunkStrategy is how a document is cut.
// +kubebuilder:validation:Enum=Whole;Fixed;Sentence;Structure;Semantic
type ChunkStrategy string

const (
	// ChunkWhole keeps the document in one piece.
	ChunkWhole ChunkStrategy = "Whole"
	// ChunkFixed cuts after size tokens.
	ChunkFixed ChunkStrategy = "Fixed"
	// ChunkSentence cuts between sentences.
	ChunkSentence ChunkStrategy = "Sentence"
	// ChunkStructure cuts between sections, paragraphs and sentences.
	ChunkStructure ChunkStrategy = "Structure"
	// ChunkSemantic cuts where the topic changes; not yet supported.
	ChunkSemantic ChunkStrategy = "Semantic"
)

// ChunkUnit is what size and overlap count.
// +kubebuilder:validation:Enum=Tokens
type ChunkUnit string

// ChunkTokens counts tokens of the embedding model.
const ChunkTokens ChunkUnit = "Tokens"

// ChunkingSpec says how a document is cut into passages.
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'Semantic'",message="chunking.strategy Semantic is not yet supported: use Structure, Sentence, Fixed or Whole"
// +kubebuilder:validation:XValidation:rule="!has(self.overlap) || !has(self.size) || self.overlap < self.size",message="chunking.overlap must be smaller than size: lower overlap or raise size"
type ChunkingSpec struct {
	// strategy is Whole, Fixed, Sentence or Structure. Defaults to Structure.
	// +kubebuilder:default=Structure
	// +optional
	Strategy ChunkStrategy `json:"strategy,omitempty"`

	// unit of size and overlap. Defaults to Tokens.
	// +kubebuilder:default=Tokens
	// +optional
	Unit ChunkUnit `json:"unit,omitempty"`

	// size of a chunk, 16 to 8192. Defaults to 256. Whole ignores it.
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=8192
	// +kubebuilder:default=256
	// +optional
	Size int32 `json:"size,omitempty"`

	// overlap of neighbouring chunks; smaller than size. Defaults to 32.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8191
	// +kubebuilder:default=32
	// +optional
	Overlap int32 `json:"overlap"`
}

// ContextType is what is indexed before a chunk's own text.
// +kubebuilder:validation:Enum=None;Heading;Model
type ContextType string

const (
	// ContextNone indexes the chunk alone.
	ContextNone ContextType = "None"
	// ContextHeading indexes the title and the headings above the chunk with it.
	ContextHeading ContextType = "Heading"
	// ContextModel lets a model write a sentence about the chunk; not yet
	// supported.
	ContextModel ContextType = "Model"
)

// ContextSpec says what is indexed with each chunk, beside its own text.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Model'",message="context.type Model is not yet supported: use Heading or None"
type ContextSpec struct {
	// type is None or Heading. Defaults to Heading.
	// +kubebuilder:default=Heading
	// +optional
	Type ContextType `json:"type,omitempty"`
}

// EmbeddingType is the discriminator of EmbeddingSpec.
// +kubebuilder:validation:Enum=Builtin;Endpoint
type EmbeddingType string

const (
	// EmbeddingBuiltin uses a model inside the image.
	EmbeddingBuiltin EmbeddingType = "Builtin"
	// EmbeddingTypeEndpoint asks a server; not yet supported.
	EmbeddingTypeEndpoint EmbeddingType = "Endpoint"
)

// EmbeddingEndpoint is a server that embeds texts.
type EmbeddingEndpoint struct {
	// url of the server.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@ ]+(/[^?# ]*)?$')",message="url must be an http:// or https:// URL without keys in it; name a Secret in credentialsRef"
	// +required
	URL string `json:"url"`

	// model that the server shall use.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	Model string `json:"model"`

	// api that the server speaks. Defaults to OpenAI.
	// +kubebuilder:validation:Enum=OpenAI;TEI
	// +kubebuilder:default=OpenAI
	// +optional
	API string `json:"api,omitempty"`

	// dimensions of the vectors.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8192
	// +optional
	Dimensions int32 `json:"dimensions,omitempty"`

	// credentialsRef names a Secret with the key apiKey.
	// +optional
	CredentialsRef *SecretRef `json:"credentialsRef,omitempty"`
}

// EmbeddingSpec is a union: type says which member is set.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Endpoint'",message="embedding.type Endpoint is not yet supported: use Builtin"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Builtin' || !has(self.endpoint)",message="embedding.endpoint must be absent when type is Builtin: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.model) || self.model != 'multilingual-e5-small'",message="embedding.model multilingual-e5-small is not yet supported: use minilm-l6-v2"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'Builtin' || !has(self.model) || self.model in ['static-256', 'minilm-l6-v2', 'multilingual-e5-small']",message="embedding.model is no builtin model: use minilm-l6-v2 or static-256"
type EmbeddingSpec struct {
	// type is Builtin or Endpoint. Defaults to Builtin.
	// +kubebuilder:default=Builtin
	// +optional
	Type EmbeddingType `json:"type,omitempty"`

	// model inside the image: minilm-l6-v2, or static-256, which costs some
	// hundred times less and finds less. Defaults to minilm-l6-v2.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:default="minilm-l6-v2"
	// +optional
	Model string `json:"model,omitempty"`

	// endpoint for type Endpoint.
	// +optional
	Endpoint *EmbeddingEndpoint `json:"endpoint,omitempty"`
}

// AccentPolicy says what accents are worth.
// +kubebuilder:validation:Enum=Keep;Fold
type AccentPolicy string

const (
	// AccentsKeep tells letters with accents from those without.
	AccentsKeep AccentPolicy = "Keep"
	// AccentsFold makes them equal.
	AccentsFold AccentPolicy = "Fold"
)

// BM25Spec are the parameters of the lexical index.
type BM25Spec struct {
	// analyzer is the language of the documents, for its stop words and stems, or
	// standard for any other or several; cjk and thai are standard by another
	// name. Identifiers and scripts without spaces are the same to all. Defaults
	// to english.
	// +kubebuilder:validation:Enum=arabic;cjk;dutch;english;french;german;hindi;italian;portuguese;russian;spanish;standard;thai
	// +kubebuilder:default=english
	// +optional
	Analyzer string `json:"analyzer,omitempty"`

	// accents says whether Latin, Greek and Cyrillic letters with accents are the
	// same as those without: Fold, where writers leave them out, or Keep. Defaults
	// to Keep.
	// +kubebuilder:default=Keep
	// +optional
	Accents AccentPolicy `json:"accents,omitempty"`

	// k1 saturates term frequency: a decimal from 0 to 9.9999. Defaults to "0.9".
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]([.][0-9]{1,4})?$')",message="bm25.k1 must be a decimal string below 10 such as \"0.9\""
	// +kubebuilder:default="0.9"
	// +optional
	K1 string `json:"k1,omitempty"`

	// b weighs the length of a chunk: a decimal from 0 to 1. Defaults to "0.4".
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]{1,4})?|1([.]0{1,4})?)$')",message="bm25.b must be a decimal string from 0 to 1 such as \"0.4\""
	// +kubebuilder:default="0.4"
	// +optional
	B string `json:"b,omitempty"`
}

// Quantization is how vectors are stored.
// +kubebuilder:validation:Enum=Int8
type Quantization string

// QuantizationInt8 stores a byte per dimension and rescores with floats.
const QuantizationInt8 Quantization = "Int8"

// HNSWSpec are the parameters of the vector index.
type HNSWSpec struct {
	// m is the number of links per node, 4 to 64. Defaults to 16.
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=16
	// +optional
	M int32 `json:"m,omitempty"`

	// efConstruction is the width of the search while building, 8 to 1000.
	// Defaults to 128.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=128
	// +optional
	EfConstruction int32 `json:"efConstruction,omitempty"`

	// quantization of the vectors. Defaults to Int8.
	// +kubebuilder:default=Int8
	// +optional
	Quantization Quantization `json:"quantization,omitempty"`
}

// IndexingSpec says what the text becomes. A change makes a new Index version.
type IndexingSpec struct {
	// chunking cuts documents into passages.
	// +kubebuilder:default={}
	// +optional
	Chunking ChunkingSpec `json:"chunking,omitzero"`

	// context is indexed with each passage.
	// +kubebuilder:default={}
	// +optional
	Context ContextSpec `json:"context,omitzero"`

	// embedding turns passages into vectors.
	// +kubebuilder:default={}
	// +optional
	Embedding EmbeddingSpec `json:"embedding,omitzero"`

	// bm25 is the lexical index.
	// +kubebuilder:default={}
	// +optional
	BM25 BM25Spec `json:"bm25,omitzero"`

	// hnsw is the vector index.
	// +kubebuilder:default={}
	// +optional
	HNSW HNSWSpec `json:"hnsw,omitzero"`
}

// FusionType is the discriminator of FusionSpec.
// +kubebuilder:validation:Enum=WeightedScore;ReciprocalRank
type FusionType string

const (
	// FusionWeightedScore adds normalised scores.
	FusionWeightedScore FusionType = "WeightedScore"
	// FusionReciprocalRank adds reciprocal ranks.
	FusionReciprocalRank FusionType = "ReciprocalRank"
)

// ReciprocalRankWeights weigh the two retrievers.
type ReciprocalRankWeights struct {
	// bm25 is a decimal below 10. Defaults to "1".
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]([.][0-9]{1,4})?$')",message="weights.bm25 must be a decimal string below 10 such as \"1\""
	// +kubebuilder:default="1"
	// +optional
	BM25 string `json:"bm25,omitempty"`

	// hnsw is a decimal below 10. Defaults to "1".
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]([.][0-9]{1,4})?$')",message="weights.hnsw must be a decimal string below 10 such as \"1\""
	// +kubebuilder:default="1"
	// +optional
	HNSW string `json:"hnsw,omitempty"`
}

// ReciprocalRankSpec are the parameters of reciprocal rank fusion.
type ReciprocalRankSpec struct {
	// k dampens the first ranks, 1 to 1000. Defaults to 60.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=60
	// +optional
	K int32 `json:"k,omitempty"`

	// weights of the retrievers.
	// +kubebuilder:default={}
	// +optional
	Weights ReciprocalRankWeights `json:"weights,omitzero"`
}

// FusionSpec is a union: how the results of both retrievers become one list.
// +kubebuilder:validation:XValidation:rule="!has(self.reciprocalRank) || (has(self.type) && self.type == 'ReciprocalRank')",message="fusion.reciprocalRank must be absent unless type is ReciprocalRank: remove it or change the type"
type FusionSpec struct {
	// type is WeightedScore or ReciprocalRank. Defaults to WeightedScore.
	// +kubebuilder:default=WeightedScore
	// +optional
	Type FusionType `json:"type,omitempty"`

	// denseWeight is the weight of the vectors in WeightedScore, a decimal from 0
	// to 1. When absent it is what was measured best for the model: 0.5 for
	// minilm-l6-v2, 0.3 for static-256.
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]{1,4})?|1([.]0{1,4})?)$')",message="fusion.denseWeight must be a decimal string from 0 to 1 such as \"0.3\""
	// +optional
	DenseWeight string `json:"denseWeight,omitempty"`

	// reciprocalRank holds the parameters for type ReciprocalRank.
	// +optional
	ReciprocalRank *ReciprocalRankSpec `json:"reciprocalRank,omitempty"`
}

// RetrievalSpec says how an index is searched. It is part of the version, so it
// is judged and can be rolled back.
// +kubebuilder:validation:XValidation:rule="!has(self.topK) || !has(self.candidates) || self.topK <= self.candidates",message="retrieval.topK must not exceed candidates: lower topK or raise candidates"
type RetrievalSpec struct {
	// candidates per retriever, 1 to 1000. Defaults to 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	// +optional
	Candidates int32 `json:"candidates,omitempty"`

	// fusion of both retrievers' results.
	// +kubebuilder:default={}
	// +optional
	Fusion FusionSpec `json:"fusion,omitzero"`

	// rerank of the first passages.
	// +kubebuilder:default={}
	// +optional
	Rerank RerankSpec `json:"rerank,omitzero"`

	// topK passages are returned, 1 to 100. Defaults to 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=10
	// +optional
	TopK int32 `json:"topK,omitempty"`
}
