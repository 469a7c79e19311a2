package api_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// withRerank is the spec of the valid pipeline with an embedding and a reranker, both in YAML.
func withRerank(embedding, rerank string) any {
	obj := load(pipelineYAML)
	set(obj, "spec.indexing.embedding", embedding)
	set(obj, "spec.retrieval.rerank", rerank)
	return obj.Object["spec"]
}

// server is a valid reranking server with one line more.
func server(more string) string {
	return fmt.Sprintf("{type: Endpoint, endpoint: {url: 'https://rerank.example.org', model: m, %s}}", more)
}

// at is a valid reranking server with another URL.
func at(url string) string {
	return fmt.Sprintf("{type: Endpoint, endpoint: {url: %q, model: m}}", url)
}

var (
	nothingToAdd = []string{"rerank.type Builtin has nothing to add where the index holds vectors of the same model", "use None or LateInteraction, or another indexing.embedding.model"}
	plainURL     = []string{"spec.retrieval.rerank.endpoint.url", "url must be an http:// or https:// URL without keys in it"}
	badTimeout   = []string{"spec.retrieval.rerank.endpoint.timeout", "rerank.endpoint.timeout must be a duration from 50ms to 8s, for instance 2s"}
)

var _ = DescribeTable("a reranker is accepted", func(ctx SpecContext, embedding, rerank string) {
	obj := load(pipelineYAML)
	set(obj, "spec", withRerank(embedding, rerank))
	Expect(create(ctx, obj)).To(Succeed())
},
	Entry("minilm after static vectors", "{model: static-256}", "{type: Builtin}"),
	Entry("static vectors after minilm", "{}", `{type: Builtin, model: static-256, candidates: 100, denseWeight: "0.25"}`),
	Entry("late interaction by the model of the index", "{}", "{type: LateInteraction, model: minilm-l6-v2, candidates: 1}"),
	Entry("a server", "{}", "{type: Endpoint, candidates: 20, endpoint: {url: 'http://rerank.models.svc:8000/v1', model: m, api: VLLM, timeout: 8s, credentialsRef: {name: r}, caBundleRef: {name: r, key: ca.crt}}}"),
	Entry("a server by its address", "{}", "{type: Endpoint, endpoint: {url: 'https://[fd00::7]:65535', model: m, api: Infinity, timeout: 50ms}}"),
	Entry("none, said in words", "{}", "{type: None}"),
)

var _ = DescribeTable("an invalid reranker is refused", func(ctx SpecContext, rerank string, wants []string) {
	refused(ctx, pipelineYAML, "spec.retrieval.rerank", rerank, wants...)
},
	Entry("an unknown type", "{type: CrossEncoder}", []string{"spec.retrieval.rerank.type", `supported values: "None", "Builtin", "LateInteraction", "Endpoint"`}),
	Entry("an unknown field", "{type: LateInteraction, topK: 5}", []string{`unknown field "spec.retrieval.rerank.topK"`}),
	Entry("the model of the index by default", "{type: Builtin}", nothingToAdd),
	Entry("the model of the index by name", "{type: Builtin, model: minilm-l6-v2}", nothingToAdd),
	Entry("an unknown model", "{type: LateInteraction, model: colbert}", []string{"spec.retrieval.rerank.model", "rerank.model is no builtin model", "use minilm-l6-v2 or static-256"}),
	Entry("a model of no type", "{model: static-256}", []string{"rerank.model must be absent unless type is Builtin or LateInteraction", "remove it"}),
	Entry("a model for None", "{type: None, model: static-256}", []string{"rerank.model must be absent unless type is Builtin or LateInteraction"}),
	Entry("a builtin model for a server", "{type: Endpoint, model: static-256, endpoint: {url: 'http://r', model: m}}", []string{"rerank.model must be absent unless type is Builtin or LateInteraction"}),
	Entry("a weight for None", `{type: None, denseWeight: "0.5"}`, []string{"rerank.denseWeight must be absent unless type is Builtin or LateInteraction", "remove it"}),
	Entry("a weight for a server", `{type: Endpoint, denseWeight: "0.5", endpoint: {url: 'http://r', model: m}}`, []string{"rerank.denseWeight must be absent unless type is Builtin or LateInteraction"}),
	Entry("a weight above 1", `{type: LateInteraction, denseWeight: "1.5"}`, []string{"rerank.denseWeight must be a decimal string from 0 to 1"}),
	Entry("a weight as a float", "{type: LateInteraction, denseWeight: 0.5}", []string{"spec.retrieval.rerank.denseWeight", "must be of type string"}),
	Entry("candidates for None", "{candidates: 10}", []string{"rerank.candidates must be absent when type is None", "remove it"}),
	Entry("no candidate", "{type: LateInteraction, candidates: 0}", []string{"spec.retrieval.rerank.candidates", "greater than or equal to 1"}),
	Entry("101 candidates", "{type: LateInteraction, candidates: 101}", []string{"spec.retrieval.rerank.candidates", "less than or equal to 100"}),
	Entry("a server that is not named", "{type: Endpoint}", []string{"rerank.endpoint must be set when type is Endpoint, and absent otherwise"}),
	Entry("a server without a type", "{endpoint: {url: 'http://r', model: m}}", []string{"rerank.endpoint must be set when type is Endpoint, and absent otherwise"}),
	Entry("a server beside late interaction", "{type: LateInteraction, endpoint: {url: 'http://r', model: m}}", []string{"rerank.endpoint must be set when type is Endpoint, and absent otherwise"}),
	Entry("a server without a model", "{type: Endpoint, endpoint: {url: 'http://r'}}", []string{"spec.retrieval.rerank.endpoint.model: Required value"}),
	Entry("a server without an address", "{type: Endpoint, endpoint: {model: m}}", []string{"spec.retrieval.rerank.endpoint.url: Required value"}),
	Entry("a dialect that nobody speaks", server("api: OpenAI"), []string{"spec.retrieval.rerank.endpoint.api", "supported values"}),
	Entry("a dialect in small letters", server("api: tei"), []string{"spec.retrieval.rerank.endpoint.api", "supported values"}),
	Entry("no scheme", at("rerank.example.org"), plainURL),
	Entry("a key before the host", at("https://user:secret@rerank.example.org"), append(plainURL, "name a Secret in credentialsRef")),
	Entry("a key in the query", at("https://rerank.example.org/v1?key=secret"), plainURL),
	Entry("a fragment", at("https://rerank.example.org/#key"), plainURL),
	Entry("a port that no host has", at("https://rerank.example.org:65536"), []string{"spec.retrieval.rerank.endpoint.url", "port that does not exist", "from 1 to 65535"}),
	Entry("a broken escape", at("https://rerank.example.org/%zz"), plainURL),
	Entry("no time at all", server("timeout: 0s"), badTimeout),
	Entry("too little time", server("timeout: 49ms"), badTimeout),
	Entry("more time than a search has", server("timeout: 9s"), badTimeout),
	Entry("a time without a unit", server(`timeout: "2"`), badTimeout),
	Entry("credentials without a name", server("credentialsRef: {}"), []string{"spec.retrieval.rerank.endpoint.credentialsRef.name: Required value"}),
	Entry("a CA bundle without a key", server("caBundleRef: {name: ca}"), []string{"spec.retrieval.rerank.endpoint.caBundleRef.key: Required value"}),
)

var _ = DescribeTable("a reranker that repeats the index is refused", func(ctx SpecContext, embedding, rerank string) {
	refused(ctx, pipelineYAML, "spec", withRerank(embedding, rerank), nothingToAdd...)
},
	Entry("static after static", "{model: static-256}", "{type: Builtin, model: static-256}"),
	Entry("minilm after minilm", "{type: Builtin, model: minilm-l6-v2}", "{type: Builtin}"),
)
