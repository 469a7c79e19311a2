package api_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	hexDigest = strings.Repeat("a", 64)
	longName  = strings.Repeat("a", 253)
)

// refused expects that the valid object with one change is refused with words
// that name the field and the remedy.
func refused(ctx SpecContext, file, path string, value any, wants ...string) {
	GinkgoHelper()
	obj := load(file)
	set(obj, path, value)
	err := create(ctx, obj)
	Expect(err).To(HaveOccurred(), "the API server accepted it")
	for _, want := range wants {
		Expect(err.Error()).To(ContainSubstring(want))
	}
}

const (
	tenants = "spec.tenants"
	jwt     = "spec.access.identity.jwt"
	metrics = "spec.promotion.gate.metrics"
)

var _ = DescribeTable("an invalid Corpus is refused", func(ctx SpecContext, path string, value any, wants []string) {
	refused(ctx, corpusYAML, path, value, wants...)
},
	Entry("a name of 253 characters", "metadata.name", longName, []string{"metadata.name must have at most 63 characters", "choose a shorter name"}),
	Entry("an unknown field", "spec.sync.intervall", "1m", []string{`unknown field "spec.sync.intervall"`}),
	Entry("no source", "spec.source", absent{}, []string{"spec.source: Required value"}),
	Entry("no artifacts", "spec.artifacts", absent{}, []string{"spec.artifacts: Required value"}),
	Entry("an unknown source", "spec.source.type", "GCS", []string{"spec.source.type: Unsupported value", `supported values: "S3"`}),
	Entry("a source without its member", "spec.source.s3", absent{}, []string{"spec.source", "s3 must be set when type is S3"}),
	Entry("no credentials", "spec.source.s3.credentialsRef", absent{}, []string{"spec.source.s3.credentialsRef: Required value"}),
	Entry("credentials without a name", "spec.source.s3.credentialsRef.name", `""`, []string{"spec.source.s3.credentialsRef.name", "at least 1 chars"}),
	Entry("an endpoint without a scheme", "spec.source.s3.endpoint", "s3.storage.svc:7070", []string{"spec.source.s3.endpoint", "must be an http:// or https:// URL"}),
	Entry("an endpoint with a key in it", "spec.source.s3.endpoint", "http://key:secret@s3.storage.svc", []string{"spec.source.s3.endpoint", "keys into the Secret of credentialsRef"}),
	Entry("an endpoint with a path", "spec.source.s3.endpoint", "http://s3.storage.svc/documents", []string{"spec.source.s3.endpoint", "put the bucket and the prefix into their own fields"}),
	Entry("a bucket in capitals", "spec.source.s3.bucket", "Documents", []string{"spec.source.s3.bucket", "lower-case letters"}),
	Entry("a bucket of two letters", "spec.artifacts.s3.bucket", "ab", []string{"spec.artifacts.s3.bucket", "bucket must have 3 to 63"}),
	Entry("a prefix with a leading slash", "spec.source.s3.prefix", "/acme/", []string{"spec.source.s3.prefix", "must not begin with '/'", "remove it"}),
	Entry("a source prefix that climbs", "spec.source.s3.prefix", "../acme/", []string{"spec.source.s3.prefix", "write the plain prefix"}),
	Entry("an artifacts prefix with a dot", "spec.artifacts.s3.prefix", "a/./b/", []string{"spec.artifacts.s3.prefix", "write the plain prefix"}),
	Entry("an artifacts prefix without a trailing slash", "spec.artifacts.s3.prefix", "acme", []string{"spec.artifacts.s3", "must end with '/' or be empty", "append the slash"}),
	Entry("artifacts inside the source", "spec.artifacts.s3", "{endpoint: 'http://s3.storage.svc:7070', bucket: documents, prefix: acme/index/, writeCredentialsRef: {name: w}, readCredentialsRef: {name: r}}", []string{"artifacts.s3 must not overlap source.s3", "choose another bucket"}),
	Entry("the source inside the artifacts", "spec.artifacts.s3", "{endpoint: 'http://s3.storage.svc:7070', bucket: documents, writeCredentialsRef: {name: w}, readCredentialsRef: {name: r}}", []string{"artifacts.s3 must not overlap source.s3", "prefixes of which neither begins with the other"}),
	Entry("an addressing in small letters", "spec.source.s3.addressing", "path", []string{"spec.source.s3.addressing", `supported values: "Path", "VirtualHost"`}),
	Entry("an interval of nothing", "spec.sync.interval", "0s", []string{"spec.sync.interval", "from 1s to 24h, for instance 1m"}),
	Entry("an interval of half a second", "spec.sync.interval", "500ms", []string{"spec.sync.interval", "from 1s to 24h"}),
	Entry("an interval of two days", "spec.sync.interval", "48h", []string{"spec.sync.interval", "from 1s to 24h"}),
	Entry("an interval without a unit", "spec.sync.interval", `"60"`, []string{"spec.sync.interval", "for instance 1m"}),
	Entry("an interval of words", "spec.sync.interval", "hourly", []string{"spec.sync.interval", "for instance 1m"}),
	Entry("an unknown mode", "spec.sync.mode", "Paused", []string{"spec.sync.mode", `supported values: "Active", "Suspended"`}),
	Entry("a retry of what is in quarantine", "spec.sync.retryFailed", "again", []string{"spec.sync.retryFailed", "retryFailed is not yet supported", "remove it"}),
	Entry("a guard of 101 percent", "spec.sync.deletionGuard.maxPercent", "101", []string{"spec.sync.deletionGuard.maxPercent", "less than or equal to 100"}),
	Entry("a negative guard", "spec.sync.deletionGuard.maxDocuments", "-1", []string{"spec.sync.deletionGuard.maxDocuments", "greater than or equal to 0"}),
	Entry("consent to nothing", "spec.sync.approveDeletions", `{max: 0, listingDigest: "sha256:`+hexDigest+`", expires: "2026-12-01T00:00:00Z"}`, []string{"spec.sync.approveDeletions.max", "greater than or equal to 1"}),
	Entry("consent without a listing", "spec.sync.approveDeletions", `{max: 5, expires: "2026-12-01T00:00:00Z"}`, []string{"spec.sync.approveDeletions.listingDigest: Required value"}),
	Entry("consent to a broken digest", "spec.sync.approveDeletions", `{max: 5, listingDigest: "sha256:12", expires: "2026-12-01T00:00:00Z"}`, []string{"spec.sync.approveDeletions.listingDigest", "copy it from status.lastSync.listingDigest"}),
	Entry("consent for ever", "spec.sync.approveDeletions", `{max: 5, listingDigest: "sha256:`+hexDigest+`"}`, []string{"spec.sync.approveDeletions.expires: Required value"}),
	Entry("a group without a name", "spec.access.rules", "[{prefix: hr/, allow: [{type: Group}]}]", []string{"spec.access.rules[0].allow[0]", "name is required for type User and Group"}),
	Entry("a user with an empty name", "spec.access.rules", `[{prefix: hr/, allow: [{type: User, name: ""}]}]`, []string{"spec.access.rules[0].allow[0]", "write the user's or the group's name"}),
	Entry("everyone with a name", "spec.access.rules", "[{prefix: hr/, allow: [{type: Everyone, name: hr}]}]", []string{"spec.access.rules[0].allow[0]", "name must be absent for type Everyone", "remove it"}),
	Entry("an unknown principal", "spec.access.rules", "[{prefix: hr/, allow: [{type: Role, name: hr}]}]", []string{"spec.access.rules[0].allow[0].type", "supported values"}),
	Entry("two rules of one prefix", "spec.access.rules", "[{prefix: hr/}, {prefix: hr/}]", []string{"spec.access.rules[1]: Duplicate value"}),
	Entry("a rule with a leading slash", "spec.access.rules", "[{prefix: /hr/}]", []string{"spec.access.rules[0].prefix", "remove the slash"}),
	Entry("a default that YAML reads as a boolean", "spec.access.default", "No", []string{"spec.access.default", "boolean"}),
	Entry("a default of some", "spec.access.default", "Anybody", []string{"spec.access.default", `supported values: "Nobody", "Everyone"`}),
	Entry("a sidecar suffix without a dot", "spec.access.sidecarSuffix", "acl", []string{"spec.access.sidecarSuffix", "must begin with a dot", "for instance .acl.json"}),
	Entry("too many globs", "spec.source.s3.include", fmt.Sprintf("[%s]", strings.Repeat("a,", 33)), []string{"spec.source.s3.include", "must have at most 32 items"}),
	Entry("an empty glob", "spec.source.s3.exclude", `[""]`, []string{"spec.source.s3.exclude[0]", "at least 1 chars"}),
	Entry("a retention", "spec.artifacts.retention.deletedContent", "7d", []string{"spec.artifacts.retention.deletedContent", "not yet supported", "remove it"}),
	Entry("an unknown deletion policy", "spec.deletionPolicy", "Orphan", []string{"spec.deletionPolicy", `supported values: "Retain", "Delete"`}),
	Entry("a CA bundle without a key", "spec.source.s3.caBundleRef", "{name: s3-ca}", []string{"spec.source.s3.caBundleRef.key: Required value"}),
)

var _ = DescribeTable("an invalid RetrievalPipeline is refused", func(ctx SpecContext, path string, value any, wants []string) {
	refused(ctx, pipelineYAML, path, value, wants...)
},
	Entry("a name of 253 characters", "metadata.name", longName, []string{"metadata.name must have at most 63 characters", "choose a shorter name"}),
	Entry("a name with a dot", "metadata.name", "support.v2", []string{"metadata.name must be a DNS label", "no dots"}),
	Entry("a name that begins with a digit", "metadata.name", "2nd", []string{"metadata.name must be a DNS label that begins with a letter"}),
	Entry("an unknown field", "spec.retrieval.topk", "5", []string{`unknown field "spec.retrieval.topk"`}),
	Entry("no tenant", tenants, "[]", []string{"spec.tenants", "should have at least 1 items"}),
	Entry("two tenants of one name", tenants+".1", "{name: acme, corpusRef: {name: b}, evalSetRef: {object: q}}", []string{"spec.tenants[1]: Duplicate value"}),
	Entry("65 tenants", tenants, manyTenants(65), []string{"spec.tenants: Too many", "must have at most 64 items"}),
	Entry("a tenant in capitals", tenants+".0.name", "Acme", []string{"spec.tenants[0].name", "name of a tenant must be a DNS label", "lower-case"}),
	Entry("a tenant of 64 characters", tenants+".0.name", strings.Repeat("a", 64), []string{"spec.tenants[0].name", "may not be more than 63"}),
	Entry("a tenant without a corpus", tenants+".0.corpusRef", absent{}, []string{"spec.tenants[0].corpusRef: Required value"}),
	Entry("a second tenant without questions", tenants+".1", "{name: globex, corpusRef: {name: b}}", []string{"tenants: with more than one tenant each needs an evalSetRef", "add evalSetRef to every tenant"}),
	Entry("a second tenant without a tenant claim", tenants+".1", "{name: globex, corpusRef: {name: b}, evalSetRef: {object: q}}", []string{"access.identity.jwt.tenantClaim is required with more than one tenant", "name the token's claim"}),
	Entry("questions in two places", tenants+".0.evalSetRef.object", "evals/sets/acme.jsonl", []string{"spec.tenants[0].evalSetRef", "exactly one of configMap and object"}),
	Entry("questions nowhere", tenants+".0.evalSetRef", "{}", []string{"spec.tenants[0].evalSetRef", "exactly one of configMap and object"}),
	Entry("an override without a reason", tenants+".0.override", "{index: support-acme-1}", []string{"spec.tenants[0].override", "override needs index and reason together"}),
	Entry("overlap as large as size", "spec.indexing.chunking", "{size: 64, overlap: 64}", []string{"spec.indexing.chunking", "overlap must be smaller than size", "lower overlap or raise size"}),
	Entry("a size below the default overlap", "spec.indexing.chunking", "{size: 32}", []string{"overlap must be smaller than size"}),
	Entry("a size of nothing", "spec.indexing.chunking.size", "0", []string{"spec.indexing.chunking.size", "greater than or equal to 16"}),
	Entry("a negative overlap", "spec.indexing.chunking.overlap", "-1", []string{"spec.indexing.chunking.overlap", "greater than or equal to 0"}),
	Entry("semantic chunking", "spec.indexing.chunking.strategy", "Semantic", []string{"chunking.strategy Semantic is not yet supported", "use Structure"}),
	Entry("an unknown strategy", "spec.indexing.chunking.strategy", "structure", []string{"spec.indexing.chunking.strategy", "supported values"}),
	Entry("characters as unit", "spec.indexing.chunking.unit", "Characters", []string{"spec.indexing.chunking.unit", `supported values: "Tokens"`}),
	Entry("contexts by a model", "spec.indexing.context.type", "Model", []string{"context.type Model is not yet supported", "use Heading or None"}),
	Entry("embeddings by a server", "spec.indexing.embedding", "{type: Endpoint, endpoint: {url: 'http://e', model: m}}", []string{"embedding.type Endpoint is not yet supported", "use Builtin"}),
	Entry("multilingual e5", "spec.indexing.embedding.model", "multilingual-e5-small", []string{"embedding.model multilingual-e5-small is not yet supported", "use minilm-l6-v2"}),
	Entry("an unknown model", "spec.indexing.embedding.model", "gpt", []string{"embedding.model is no builtin model", "use minilm-l6-v2 or static-256"}),
	Entry("a builtin model with an endpoint", "spec.indexing.embedding.endpoint", "{url: 'http://e', model: m}", []string{"embedding.endpoint must be absent when type is Builtin", "remove it"}),
	Entry("an analyzer of no language", "spec.indexing.bm25.analyzer", "elvish", []string{"spec.indexing.bm25.analyzer", "supported values", `"german"`, `"standard"`}),
	Entry("k1 as a float", "spec.indexing.bm25.k1", "0.9", []string{"spec.indexing.bm25.k1", "must be of type string"}),
	Entry("k1 with a comma", "spec.indexing.bm25.k1", `"0,9"`, []string{"bm25.k1 must be a decimal string"}),
	Entry("b above 1", "spec.indexing.bm25.b", `"1.5"`, []string{"bm25.b must be a decimal string from 0 to 1"}),
	Entry("m of 1000", "spec.indexing.hnsw.m", "1000", []string{"spec.indexing.hnsw.m", "less than or equal to 64"}),
	Entry("vectors of floats", "spec.indexing.hnsw.quantization", "None", []string{"spec.indexing.hnsw.quantization", `supported values: "Int8"`}),
	Entry("more results than candidates", "spec.retrieval", "{candidates: 5, topK: 10}", []string{"retrieval.topK must not exceed candidates", "lower topK or raise candidates"}),
	Entry("no result", "spec.retrieval.topK", "0", []string{"spec.retrieval.topK", "greater than or equal to 1"}),
	Entry("a weight above 1", "spec.retrieval.fusion.denseWeight", `"1.01"`, []string{"fusion.denseWeight must be a decimal string from 0 to 1"}),
	Entry("a negative weight", "spec.retrieval.fusion.denseWeight", `"-0.1"`, []string{"fusion.denseWeight must be a decimal string"}),
	Entry("weights of another fusion", "spec.retrieval.fusion", "{type: WeightedScore, reciprocalRank: {k: 60}}", []string{"fusion.reciprocalRank must be absent unless type is ReciprocalRank", "remove it"}),
	Entry("no shard", "spec.build.shards", "0", []string{"spec.build.shards", "greater than or equal to 1"}),
	Entry("a token budget", "spec.build.tokenBudget", "1000", []string{"build.tokenBudget is not yet supported", "set it to 0"}),
	Entry("no access", "spec.access", absent{}, []string{"spec.access: Required value"}),
	Entry("anonymous callers", "spec.access.identity.type", "None", []string{"spec.access.identity.type", `supported values: "JWT"`}),
	Entry("an identity without its member", "spec.access.identity.jwt", absent{}, []string{"spec.access.identity", "jwt must be set when type is JWT"}),
	Entry("no audience", jwt+".audiences", "[]", []string{"spec.access.identity.jwt.audiences", "at least 1 items"}),
	Entry("no issuer", jwt+".issuer", absent{}, []string{"spec.access.identity.jwt.issuer: Required value"}),
	Entry("no keys", jwt+".jwksRef", absent{}, []string{"spec.access.identity.jwt", "exactly one of jwksRef and jwksURL"}),
	Entry("keys in two places", jwt+".jwksURL", "https://issuer.example.org/jwks.json", []string{"exactly one of jwksRef and jwksURL", "remove one"}),
	Entry("keys in two objects", jwt+".jwksRef.secret", "{name: a, key: b}", []string{"jwksRef must set exactly one of secret and configMap"}),
	Entry("keys in a file", jwt, "{issuer: i, audiences: [a], jwksURL: 'file:///etc/passwd'}", []string{"jwksURL must be an http:// or https:// URL"}),
	Entry("access data of a week", "spec.access.maxStaleness", "168h", []string{"maxStaleness must be a duration from 10s to 24h"}),
	Entry("TLS at the gateway", "spec.serving.tls", "{secretRef: {name: cert}}", []string{"serving.tls.secretRef is not yet supported", "remove it"}),
	Entry("no replica", "spec.serving.gateway.replicas", "0", []string{"spec.serving.gateway.replicas", "greater than or equal to 1"}),
	Entry("an unknown image policy", "spec.serving.image", "Always", []string{"spec.serving.image", `supported values: "NextVersion", "Now"`}),
	Entry("an eval set and nothing to measure", metrics, "[]", []string{"promotion.gate.metrics is empty", "name what to measure"}),
	Entry("a metric beyond topK", metrics, `[{name: Recall, k: 20, minimum: "0.85"}]`, []string{"promotion.gate.metrics: k must not exceed retrieval.topK", "raise topK or lower k"}),
	Entry("a metric without k", metrics, `[{name: Recall, minimum: "0.85"}]`, []string{"spec.promotion.gate.metrics[0]", "k is required"}),
	Entry("a context budget", metrics, `[{name: Recall, contextTokens: 2560, minimum: "0.85"}]`, []string{"contextTokens is not yet supported", "use k"}),
	Entry("a metric that decides nothing", metrics, `[{name: Recall, k: 10}]`, []string{"a metric needs minimum, maxRegression or both"}),
	Entry("a minimum of 85", metrics, `[{name: Recall, k: 10, minimum: "85"}]`, []string{"minimum must be a decimal string from 0 to 1"}),
	Entry("a minimum as a float", metrics, `[{name: Recall, k: 10, minimum: 0.85}]`, []string{"minimum", "must be of type string"}),
	Entry("an unknown metric", metrics, `[{name: Precision, k: 10, minimum: "0.5"}]`, []string{"spec.promotion.gate.metrics[0].name", "supported values"}),
	Entry("leaks allowed", "spec.promotion.gate.leaks", "Allow", []string{"spec.promotion.gate.leaks", `supported values: "Forbid"`}),
	Entry("no question", "spec.promotion.gate.minQuestions", "0", []string{"spec.promotion.gate.minQuestions", "greater than or equal to 1"}),
	Entry("a negative soak", "spec.promotion.soak", "-1m", []string{"soak must be a duration from 0s to 168h"}),
	Entry("no history", "spec.historyLimit", "0", []string{"spec.historyLimit", "greater than or equal to 1"}),
)

var _ = DescribeTable("an invalid Index or EvalRun is refused", refusedRecord,
	Entry("an Index of 253 characters", indexYAML, "metadata.name", longName, []string{"metadata.name must have at most 63 characters"}),
	Entry("an Index without a snapshot", indexYAML, "spec.snapshot", absent{}, []string{"spec.snapshot: Required value"}),
	Entry("an Index of a broken digest", indexYAML, "spec.versionDigest", "7f9c4d", []string{"versionDigest must be sha256: and 64 hexadecimal digits"}),
	Entry("an Index without an image", indexYAML, "spec.image", `""`, []string{"spec.image", "at least 1 chars"}),
	Entry("an Index of a later model", indexYAML, "spec.indexing.embedding.model", "multilingual-e5-small", []string{"not yet supported", "use minilm-l6-v2"}),
	Entry("an Index that reranks by its own vectors", indexYAML, "spec.retrieval", "{rerank: {type: Builtin}}", []string{"rerank.type Builtin has nothing to add", "use None or LateInteraction"}),
	Entry("an EvalRun of 253 characters", evalRunYAML, "metadata.name", longName, []string{"metadata.name must have at most 63 characters"}),
	Entry("an EvalRun without questions", evalRunYAML, "spec.evalSet", absent{}, []string{"spec.evalSet: Required value"}),
	Entry("an EvalRun of a broken digest", evalRunYAML, "spec.evalSet.digest", "md5:1", []string{"evalSet.digest must be sha256: and 64 hexadecimal digits"}),
	Entry("an EvalRun with a context budget", evalRunYAML, "spec.metrics.0", `{name: Recall, contextTokens: 2560, minimum: "0.85"}`, []string{"contextTokens is not yet supported", "use k"}),
	Entry("an EvalRun without an Index", evalRunYAML, "spec.indexRef", absent{}, []string{"spec.indexRef: Required value"}),
)

func refusedRecord(ctx SpecContext, file, path string, value any, wants []string) {
	refused(ctx, file, path, value, wants...)
}

// manyTenants is a list of n valid tenants.
func manyTenants(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "- {name: t%d, corpusRef: {name: a}, evalSetRef: {object: q}}\n", i)
	}
	return list.String()
}
