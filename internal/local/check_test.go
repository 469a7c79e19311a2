package local

import (
	"strings"
	"testing"
)

// What the API server refuses is refused before anything is built of it.
func TestRecipeIsChecked(t *testing.T) {
	const endpoint = "retrieval: {rerank: {type: Endpoint, endpoint: {url: \"http://127.0.0.1:1\", model: m, "
	for text, says := range map[string]string{
		"access: {default: Foo}": `access.default is "Foo"`,
		"access: {rules: [{prefix: a/, allow: [{type: Martian, name: a}]}]}":      `allows the type "Martian"`,
		"access: {rules: [{prefix: a/, allow: [{type: User}]}]}":                  "allows a User without a name",
		"access: {rules: [{prefix: a/, allow: [{type: Everyone, name: ann}]}]}":   `Everyone with the name "ann"`,
		"access: {rules: [{prefix: /a/}]}":                                        "begins with a slash",
		"indexing: {context: {type: LLM}}":                                        `indexing.context.type is "LLM"`,
		"indexing: {chunking: {size: 1}}":                                         "indexing.chunking.size is 1: use 16 to 8192",
		"indexing: {chunking: {size: 32}}":                                        "indexing.chunking.overlap (32 where absent) is 32: use 0 to 31",
		"indexing: {hnsw: {m: 1}}":                                                "indexing.hnsw.m is 1",
		"indexing: {hnsw: {efConstruction: 1}}":                                   "indexing.hnsw.efConstruction is 1",
		"indexing: {bm25: {k1: NaN}}":                                             `indexing.bm25.k1 is "NaN"`,
		"indexing: {embedding: {model: gpt}}":                                     `"gpt" is unknown`,
		"retrieval: {fusion: {denseWeight: \"2\"}}":                               `fusion.denseWeight is "2"`,
		"retrieval: {topK: 5000}":                                                 "topK is 5000",
		"retrieval: {rerank: {type: Builtin}}":                                    "has nothing to add",
		"retrieval: {rerank: {type: Endpoint}}":                                   "rerank.endpoint is missing",
		endpoint + "api: Foo}}}":                                                  `rerank.endpoint.api is "Foo"`,
		endpoint + "api: TEI, credentialsRef: {name: key}}}}":                     "needs no key",
		"retrieval: {rerank: {type: Endpoint, endpoint: {url: \"file:///etc\"}}}": "rerank.endpoint.url is no http",
	} {
		for _, read := range []func(string) (Recipe, error){ReadRecipe, ReadBEIRRecipe} {
			if _, err := read(write(t, t.TempDir()+"/recipe.yaml", text)); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want something on %q", text, err, says)
			}
		}
	}
}

// A recipe means the same here as in a cluster, where chunks overlap by 32 unless something else is written.
func TestRecipeOverlap(t *testing.T) {
	for text, want := range map[string]int32{
		"": 32, "indexing: {chunking: {size: 128}}": 32, "indexing: {chunking: {overlap: 0}}": 0, "indexing: {chunking: {size: 128, overlap: 5}}": 5,
	} {
		r, err := ReadRecipe(write(t, t.TempDir()+"/recipe.yaml", text))
		if err != nil || r.Indexing.Chunking.Overlap != want {
			t.Errorf("%q: overlap %d, want %d; %v", text, r.Indexing.Chunking.Overlap, want, err)
		}
	}
}
