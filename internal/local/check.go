package local

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/rerank"
	"quarry.dev/quarry/internal/search"
)

// check refuses what the API server refuses, before anything is built of it: a recipe that works here must work there, and
// a principal that is misspelt must not look like an index without answers.
func (r Recipe) check() error {
	return cmp.Or(r.checkAccess(), r.checkIndexing(), r.checkRetrieval())
}

func (r Recipe) checkAccess() error {
	if d := r.Access.Default; d != v1alpha1.AccessEveryone && d != v1alpha1.AccessNobody {
		return fmt.Errorf("access.default is %q: use Nobody or Everyone", d)
	}
	for _, rule := range r.Access.Rules {
		if strings.HasPrefix(rule.Prefix, "/") {
			return fmt.Errorf("access.rules: prefix %q begins with a slash: it is relative to the folder of the documents, remove the slash", rule.Prefix)
		}
		for _, p := range rule.Allow {
			switch p.Type {
			case v1alpha1.PrincipalUser, v1alpha1.PrincipalGroup:
				if p.Name == "" {
					return fmt.Errorf("access.rules: prefix %q allows a %s without a name: write it", rule.Prefix, p.Type)
				}
			case v1alpha1.PrincipalEveryone:
				if p.Name != "" {
					return fmt.Errorf("access.rules: prefix %q allows Everyone with the name %q: remove the name, or use type User or Group", rule.Prefix, p.Name)
				}
			default:
				return fmt.Errorf("access.rules: prefix %q allows the type %q: use User, Group or Everyone", rule.Prefix, p.Type)
			}
		}
	}
	return nil
}

func (r Recipe) checkIndexing() error {
	i := r.Indexing
	between := func(field string, value, least, most int32) error {
		if value < least || value > most {
			return fmt.Errorf("%s is %d: use %d to %d", field, value, least, most)
		}
		return nil
	}
	if t := i.Context.Type; t != v1alpha1.ContextNone && t != v1alpha1.ContextHeading {
		return fmt.Errorf("indexing.context.type is %q: use Heading or None", t)
	}
	_, _, bm25 := search.ParseBM25(i.BM25)
	if bm25 != nil {
		bm25 = fmt.Errorf("indexing.%w", bm25)
	}
	return cmp.Or(between("indexing.chunking.size", i.Chunking.Size, 16, 8192),
		between("indexing.chunking.overlap (32 where absent)", i.Chunking.Overlap, 0, i.Chunking.Size-1),
		between("indexing.hnsw.m", i.HNSW.M, 4, 64), between("indexing.hnsw.efConstruction", i.HNSW.EfConstruction, 8, 1000), bm25)
}

func (r Recipe) checkRetrieval() error {
	spec := r.Retrieval.Rerank
	nowhere := search.Peers{BM25: "http://bm25", HNSW: "http://hnsw", Reranker: "http://reranker"}
	if err := new(search.Gateway).SetRecipe(r.Retrieval, r.Indexing.Embedding, nowhere); err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	if spec.Type == v1alpha1.RerankBuiltin && cmp.Or(spec.Model, embed.DefaultModel) == r.Indexing.Embedding.Model {
		return fmt.Errorf("retrieval.rerank.type Builtin with %s has nothing to add where the index holds vectors of that model: use None or LateInteraction, or another indexing.embedding.model", r.Indexing.Embedding.Model)
	}
	if spec.Type != v1alpha1.RerankTypeEndpoint {
		return nil
	}
	if spec.Endpoint.CredentialsRef != nil || spec.Endpoint.CABundleRef != nil {
		return errors.New("retrieval.rerank.endpoint: credentialsRef and caBundleRef name Secrets of a cluster, of which there are none here: remove them, and name a server on this machine that needs no key, such as a proxy that adds it")
	}
	if _, err := rerank.NewEndpoint(*spec.Endpoint, rerank.Options{}); err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	return nil
}
