package tune

import (
	"cmp"
	"slices"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

// Stage is a part of the search. The costly choices come first, with the cheapest model; what costs nothing once an index
// is there comes after, on the best index of each model alone.
type Stage string

// Stages in their order.
const (
	StageBaseline Stage = "baseline"
	StageChunking Stage = "chunking"
	StageModels   Stage = "models"
	StageFusion   Stage = "fusion"
	StageBM25     Stage = "bm25"
	StageRerank   Stage = "rerank"
)

// keep is how many ways of chunking are tried with every model.
const keep = 3

// Plan is a search in stages: each stage is proposed from the scores of those before it. It decides from scores alone, so
// the same scores give the same trials, whenever they were measured.
type Plan struct {
	// Baseline is the recipe at hand. Every other one is compared with it.
	Baseline Recipe
	Grid     Grid
}

// Step is a trial and the stage that asks for it.
type Step struct {
	Stage  Stage
	Recipe Recipe
}

// Scores are the means of the recipes measured so far, by Recipe.Key.
type Scores map[string]float64

// Next lists all steps up to the first stage that is not wholly measured, in their order, each recipe once. Done tells
// that there is no further stage.
func (p Plan) Next(scores Scores) (steps []Step, done bool) {
	known, seen := []Step{}, map[string]bool{}
	for _, stage := range []struct {
		name    Stage
		propose func([]Step, Scores) []Recipe
	}{
		{StageBaseline, func([]Step, Scores) []Recipe { return []Recipe{p.Baseline} }},
		{StageChunking, p.chunkings}, {StageModels, p.models}, {StageFusion, p.fusions}, {StageBM25, p.bm25s}, {StageRerank, p.reranks},
	} {
		complete := true
		for _, r := range byIndex(stage.propose(known, scores)) {
			key := r.Key()
			if seen[key] || !r.legal() {
				continue
			}
			seen[key] = true
			known = append(known, Step{stage.name, r})
			if _, ok := scores[key]; !ok {
				complete = false
			}
		}
		if !complete {
			return known, false
		}
	}
	return known, true
}

// byIndex puts recipes that share an index next to each other, at the place of the first.
func byIndex(recipes []Recipe) []Recipe {
	at := map[string]int{}
	for i, r := range recipes {
		if key := r.IndexKey(); at[key] == 0 {
			at[key] = i + 1
		}
	}
	slices.SortStableFunc(recipes, func(a, b Recipe) int { return cmp.Compare(at[a.IndexKey()], at[b.IndexKey()]) })
	return recipes
}

// Bound is an upper bound of the number of trials, the baseline included.
func (p Plan) Bound() int {
	return p.indexBound() + len(p.allModels())*(len(p.Grid.Fusion)+len(p.Grid.BM25)) + p.rerankBound()
}

// rerankBound is an upper bound of the number of trials that rerank.
func (p Plan) rerankBound() int {
	rerankers := map[string]bool{}
	for _, r := range append([]v1alpha1.RerankSpec{p.Baseline.Retrieval.Rerank}, p.Grid.Rerank...) {
		if r.Type != "" && r.Type != v1alpha1.RerankNone {
			rerankers[digest(r)] = true
		}
	}
	return len(p.allModels()) * len(rerankers)
}

// indexBound is an upper bound of the number of trials that chunk or embed otherwise than all before.
func (p Plan) indexBound() int {
	chunkings := map[string]bool{}
	for _, r := range p.chunkings(nil, nil) {
		chunkings[r.Key()] = true
	}
	return 1 + len(chunkings) + (keep+1)*(len(p.allModels())-1)
}

// allModels are the models to try, the cheapest first.
func (p Plan) allModels() []string {
	models := slices.Clone(p.Grid.Models)
	if len(models) == 0 {
		models = []string{p.Baseline.Indexing.Embedding.Model}
	}
	slices.SortStableFunc(models, func(a, b string) int { return cmp.Compare(modelCost(a), modelCost(b)) })
	return slices.Compact(models)
}

func modelCost(model string) int {
	if model == embed.Static256 {
		return 0
	}
	return 1
}

// plain is the baseline with another model, without a reranker, which has a stage of its own.
func (p Plan) plain(model string) Recipe {
	r := p.Baseline
	r.Indexing.Embedding.Model = model
	r.Retrieval.Rerank = v1alpha1.RerankSpec{Type: v1alpha1.RerankNone}
	return r
}

// chunkings are all ways of chunking with all contexts, and the cheapest model.
func (p Plan) chunkings([]Step, Scores) []Recipe {
	scout := p.plain(p.allModels()[0])
	var out []Recipe
	for _, c := range append([]v1alpha1.ChunkingSpec{scout.Indexing.Chunking}, p.Grid.Chunking...) {
		for _, context := range append([]v1alpha1.ContextType{scout.Indexing.Context.Type}, p.Grid.Context...) {
			r := scout
			c.Unit = scout.Indexing.Chunking.Unit
			r.Indexing.Chunking, r.Indexing.Context.Type = c, context
			out = append(out, r)
		}
	}
	return out
}

// models tries the best ways of chunking, and that of the baseline, with the other models.
func (p Plan) models(known []Step, scores Scores) []Recipe {
	models := p.allModels()
	var scouted []Recipe
	for _, s := range known {
		if s.Recipe.Indexing.Embedding.Model == models[0] && !s.Recipe.reranks() {
			scouted = append(scouted, s.Recipe)
		}
	}
	slices.SortStableFunc(scouted, func(a, b Recipe) int { return cmp.Compare(scores[b.Key()], scores[a.Key()]) })
	best := append([]Recipe{p.plain(models[0])}, scouted[:min(keep, len(scouted))]...)
	var out []Recipe
	for _, model := range models[1:] {
		for _, r := range best {
			r.Indexing.Embedding.Model = model
			out = append(out, r)
		}
	}
	return out
}

// bestPerModel are the best recipes known of each model, without a reranker; the first proposed wins a tie.
func (p Plan) bestPerModel(known []Step, scores Scores) []Recipe {
	var out []Recipe
	for _, model := range p.allModels() {
		var best *Recipe
		for _, s := range known {
			r := s.Recipe
			if r.Indexing.Embedding.Model == model && !r.reranks() && (best == nil || scores[r.Key()] > scores[best.Key()]) {
				best = &r
			}
		}
		if best != nil {
			out = append(out, *best)
		}
	}
	return out
}

func (p Plan) fusions(known []Step, scores Scores) (out []Recipe) {
	for _, r := range p.bestPerModel(known, scores) {
		for _, f := range p.Grid.Fusion {
			r.Retrieval.Fusion = f
			out = append(out, r)
		}
	}
	return out
}

func (p Plan) bm25s(known []Step, scores Scores) (out []Recipe) {
	for _, r := range p.bestPerModel(known, scores) {
		base := r.Indexing.BM25
		for _, b := range p.Grid.BM25 {
			r.Indexing.BM25 = base
			r.Indexing.BM25.Analyzer = cmp.Or(b.Analyzer, base.Analyzer)
			r.Indexing.BM25.K1, r.Indexing.BM25.B = cmp.Or(b.K1, base.K1), cmp.Or(b.B, base.B)
			out = append(out, r)
		}
	}
	return out
}

// reranks tries the rerankers of the grid, and that of the baseline, on the best recipe of each model.
func (p Plan) reranks(known []Step, scores Scores) (out []Recipe) {
	for _, r := range p.bestPerModel(known, scores) {
		for _, rerank := range append([]v1alpha1.RerankSpec{p.Baseline.Retrieval.Rerank}, p.Grid.Rerank...) {
			r.Retrieval.Rerank = rerank
			out = append(out, r)
		}
	}
	return out
}
