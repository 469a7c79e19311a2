// Package tune looks for the recipe that answers an eval set best: which recipes to try, which differences are real, and
// which recipe to apply. All of that is computed from numbers alone; measuring is somebody else's, behind Measurer, and
// the Store remembers it, so that a run that was stopped goes on.
//
// Recipes are chosen on the Dev part of the set and the chosen one is measured once on the Gate part, because a recipe
// that was chosen on a question answers that question better than the next.
package tune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/rerank"
)

// Recipe is what a trial varies: the two sections of a RetrievalPipeline that decide which passages come first.
type Recipe struct {
	Indexing  v1alpha1.IndexingSpec  `json:"indexing"`
	Retrieval v1alpha1.RetrievalSpec `json:"retrieval"`
}

// explicit returns the recipe with every default written out, and with nothing that has no effect: two recipes that
// search alike are equal afterwards.
func (r Recipe) explicit() Recipe {
	i, s := &r.Indexing, &r.Retrieval
	if i.Chunking.Strategy == v1alpha1.ChunkWhole {
		i.Chunking.Size, i.Chunking.Overlap = 0, 0
	}
	i.Context.Type = cmp.Or(i.Context.Type, v1alpha1.ContextNone)
	i.BM25.K1, i.BM25.B = decimal(i.BM25.K1, "0.9"), decimal(i.BM25.B, "0.4")
	s.Candidates, s.TopK = cmp.Or(s.Candidates, 100), cmp.Or(s.TopK, 10)
	s.Fusion = explicitFusion(s.Fusion, i.Embedding.Model)
	s.Rerank.Type = cmp.Or(s.Rerank.Type, v1alpha1.RerankNone)
	s.Rerank = explicitRerank(s.Rerank)
	return r
}

// explicitRerank fills in what the reranker itself would. What it refuses stays as it is.
func explicitRerank(spec v1alpha1.RerankSpec) v1alpha1.RerankSpec {
	if spec.Type == v1alpha1.RerankNone {
		return v1alpha1.RerankSpec{Type: spec.Type}
	}
	recipe, err := rerank.ParseRecipe(spec)
	if err != nil {
		return spec
	}
	spec.Model, spec.Candidates = recipe.Model, int32(recipe.Candidates)
	if recipe.NeedsBM25() {
		spec.DenseWeight = strconv.FormatFloat(recipe.DenseWeight, 'f', -1, 64)
	}
	return spec
}

func explicitFusion(f v1alpha1.FusionSpec, model string) v1alpha1.FusionSpec {
	if f.Type == v1alpha1.FusionReciprocalRank {
		out := v1alpha1.ReciprocalRankSpec{K: 60}
		if f.ReciprocalRank != nil {
			out = *f.ReciprocalRank
		}
		out.K = cmp.Or(out.K, 60)
		out.Weights.BM25, out.Weights.HNSW = decimal(out.Weights.BM25, "1"), decimal(out.Weights.HNSW, "1")
		return v1alpha1.FusionSpec{Type: f.Type, ReciprocalRank: &out}
	}
	fallback := ""
	if facts, err := embed.Describe(model); err == nil {
		fallback = strconv.FormatFloat(facts.DenseWeight, 'f', -1, 64)
	}
	return v1alpha1.FusionSpec{Type: v1alpha1.FusionWeightedScore, DenseWeight: decimal(f.DenseWeight, fallback)}
}

// decimal writes equal numbers alike; what is no number stays as it is, to be refused by whoever reads it.
func decimal(text, fallback string) string {
	v, err := strconv.ParseFloat(cmp.Or(text, fallback), 64)
	if err != nil {
		return cmp.Or(text, fallback)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Key names the recipe by what it does: equal for recipes that search alike.
func (r Recipe) Key() string { return digest(r.explicit()) }

// IndexKey names the part of the recipe that an index must be built for. k1 and b are applied when it is asked.
func (r Recipe) IndexKey() string {
	i := r.explicit().Indexing
	i.BM25.K1, i.BM25.B = "", ""
	return digest(i)
}

func digest(parts ...any) string {
	body, err := json.Marshal(parts)
	if err != nil {
		panic(err) // plain data structures
	}
	return artifact.Digest(body)
}

// YAML is what to write below spec of a RetrievalPipeline, or into a recipe file.
func (r Recipe) YAML() (string, error) {
	text, err := yaml.Marshal(r.explicit())
	return string(text), err
}

// reranks tells whether the fused order is changed once more.
func (r Recipe) reranks() bool {
	return r.Retrieval.Rerank.Type != "" && r.Retrieval.Rerank.Type != v1alpha1.RerankNone
}

// legal tells whether the API takes the recipe: reranking by the vectors that the index holds already adds nothing.
func (r Recipe) legal() bool {
	e := r.explicit()
	return e.Retrieval.Rerank.Type != v1alpha1.RerankBuiltin || e.Retrieval.Rerank.Model != e.Indexing.Embedding.Model
}

// costClass orders recipes by what a question and a document cost: the static table, the transformer, a reranker.
func (r Recipe) costClass() int {
	class := 1
	if r.Indexing.Embedding.Model == embed.Static256 {
		class = 0
	}
	if r.reranks() {
		class += 2
	}
	return class
}

// cheaper compares two recipes by cost class, then by the chunks of their indexes.
func cheaper(a, b Recipe, chunksA, chunksB int64) int {
	return cmp.Or(cmp.Compare(a.costClass(), b.costClass()), cmp.Compare(chunksA, chunksB))
}

// fields are the parts of a recipe that a trial may change, each as a short text.
func (r Recipe) fields() [6]string {
	e := r.explicit()
	c, f, rr := e.Indexing.Chunking, e.Retrieval.Fusion, e.Retrieval.Rerank
	chunking := string(c.Strategy)
	if c.Strategy != v1alpha1.ChunkWhole {
		chunking = fmt.Sprintf("%s %d/%d", c.Strategy, c.Size, c.Overlap)
	}
	fusion := "dense " + f.DenseWeight
	if f.ReciprocalRank != nil {
		fusion = fmt.Sprintf("reciprocal rank %d", f.ReciprocalRank.K)
		if w := f.ReciprocalRank.Weights; w.BM25 != "1" || w.HNSW != "1" {
			fusion += fmt.Sprintf(" (%s, %s)", w.BM25, w.HNSW)
		}
	}
	reranking := "no rerank"
	if e.reranks() {
		reranking = fmt.Sprintf("%s %s %d", rr.Type, rr.Model, rr.Candidates)
		if rr.DenseWeight != "" {
			reranking += " dense " + rr.DenseWeight
		}
	}
	bm25 := fmt.Sprintf("k1 %s b %s", e.Indexing.BM25.K1, e.Indexing.BM25.B)
	return [6]string{chunking, "context " + string(e.Indexing.Context.Type), e.Indexing.Embedding.Model, fusion, bm25, reranking}
}

// Describe is the recipe in one line.
func (r Recipe) Describe() string {
	f := r.fields()
	return strings.Join(f[:], ", ")
}

// Changes is what the recipe has other than base, and empty when they search alike.
func (r Recipe) Changes(base Recipe) []string {
	var out []string
	of := base.fields()
	for i, f := range r.fields() {
		if f != of[i] {
			out = append(out, f)
		}
	}
	return out
}
