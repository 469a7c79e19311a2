package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/local"
)

// system is a way to search, as the bars name it.
type system string

const (
	lexical      system = "bm25"
	static       system = "static-256"
	staticHybrid system = "static-256-hybrid"
	staticRRF    system = "static-256-rrf"
	staticRerank system = "static-256-rerank"
	minilm       system = "minilm-l6-v2"
	minilmHybrid system = "minilm-l6-v2-hybrid"
	minilmRRF    system = "minilm-l6-v2-rrf"
	minilmRerank system = "minilm-l6-v2-rerank"
)

// bar is the nDCG@10 that a system must reach on a set, one chunk per document.
type bar struct {
	set    string
	system system
	limit  float64
}

func (b bar) name() string { return b.set + "/" + string(b.system) }

// bars are what public baselines and a prototype of this design reached, rounded down; those of minilm-l6-v2-rerank are
// what the hybrid below it reaches.
var bars = []bar{
	{"product-docs", lexical, 0.68}, {"product-docs", static, 0.61}, {"product-docs", staticHybrid, 0.765},
	{"product-docs", minilm, 0.68}, {"product-docs", minilmHybrid, 0.80}, {"product-docs", staticRerank, 0.80},
	{"product-docs", minilmRerank, 0.81},
	{"ident-stylecop", lexical, 0.95}, {"ident-stylecop", staticHybrid, 0.955},
	{"ident-stylecop", minilmHybrid, 0.95}, {"ident-stylecop", staticRerank, 0.95},
	{"ident-stylecop", minilmRerank, 0.96},
	{"code-chunks", lexical, 0.68}, {"code-chunks", static, 0.44}, {"code-chunks", staticHybrid, 0.70},
	{"code-chunks", minilm, 0.57}, {"code-chunks", minilmHybrid, 0.725}, {"code-chunks", staticRerank, 0.725},
	{"code-chunks", minilmRerank, 0.736},
	{"pubmedqa", lexical, 0.96}, {"pubmedqa", static, 0.84}, {"pubmedqa", staticHybrid, 0.965},
	{"pubmedqa", minilm, 0.97}, {"pubmedqa", minilmHybrid, 0.98}, {"pubmedqa", staticRerank, 0.98},
	{"pubmedqa", minilmRerank, 0.988},
	{"scifact", lexical, 0.67}, {"scifact", static, 0.49}, {"scifact", staticHybrid, 0.68},
	{"scifact", minilm, 0.640}, {"scifact", minilmHybrid, 0.715}, {"scifact", staticRerank, 0.710},
	{"scifact", minilmRerank, 0.733},
}

// bench measures each system of each set once.
type bench struct {
	data, cache string
	sets        map[string]local.Set
	stacks      map[string]*local.Stack // by set and model
	measured    map[string]local.Figure // by set and system
}

// model and stage of a system, and how it fuses.
func (s system) how() (model string, stage local.System, fusion v1alpha1.FusionType) {
	switch s {
	case lexical:
		return embed.Static256, local.BM25, ""
	case static:
		return embed.Static256, local.HNSW, ""
	case staticHybrid:
		return embed.Static256, local.Hybrid, v1alpha1.FusionWeightedScore
	case staticRRF:
		return embed.Static256, local.Hybrid, v1alpha1.FusionReciprocalRank
	case staticRerank:
		return embed.Static256, local.HybridRerank, v1alpha1.FusionWeightedScore
	case minilm:
		return embed.MiniLM, local.HNSW, ""
	case minilmRRF:
		return embed.MiniLM, local.Hybrid, v1alpha1.FusionReciprocalRank
	case minilmRerank:
		return embed.MiniLM, local.HybridRerank, v1alpha1.FusionWeightedScore
	}
	return embed.MiniLM, local.Hybrid, v1alpha1.FusionWeightedScore
}

// measure returns nDCG@10.
func (m *bench) measure(ctx context.Context, set string, s system) (local.Figure, error) {
	if figure, ok := m.measured[set+"/"+string(s)]; ok {
		return figure, nil
	}
	model, stage, fusion := s.how()
	stack, err := m.stack(ctx, set, model)
	if err != nil {
		return local.Figure{}, err
	}
	retrieval := stack.Recipe().Retrieval
	retrieval.Fusion.Type = fusion
	figure, err := m.vary(ctx, set, stack, stage, retrieval)
	if err == nil {
		if m.measured == nil {
			m.measured = map[string]local.Figure{}
		}
		m.measured[set+"/"+string(s)] = figure
	}
	return figure, err
}

// vary measures another way to search the same index.
func (m *bench) vary(ctx context.Context, set string, stack *local.Stack, stage local.System, retrieval v1alpha1.RetrievalSpec) (local.Figure, error) {
	varied, err := stack.Vary(ctx, stack.Recipe().Indexing.BM25, retrieval)
	if err != nil {
		return local.Figure{}, err
	}
	report, err := varied.Measure(ctx, m.sets[set], stage, progress(set))
	if err != nil {
		return local.Figure{}, err
	}
	for _, metric := range report.Metrics {
		if metric.Name == eval.NDCG && metric.K == 10 {
			return local.Figure{Value: metric.Value, Lower: metric.Lower, Upper: metric.Upper}, nil
		}
	}
	return local.Figure{}, fmt.Errorf("%s was not measured at NDCG@10", stage)
}

// stack is the index of a set by a model, one chunk per document; it is built where the cache does not hold it.
func (m *bench) stack(ctx context.Context, set, model string) (*local.Stack, error) {
	if stack, ok := m.stacks[set+"/"+model]; ok {
		return stack, nil
	}
	labelled, err := m.set(ctx, set)
	if err != nil {
		return nil, err
	}
	out, err := m.out(set)
	if err != nil {
		return nil, err
	}
	stack, err := open(ctx, labelled, out, set, model)
	if err == nil {
		if m.stacks == nil {
			m.stacks = map[string]*local.Stack{}
		}
		m.stacks[set+"/"+model] = stack
	}
	return stack, err
}

func (m *bench) set(ctx context.Context, name string) (local.Set, error) {
	if set, ok := m.sets[name]; ok {
		return set, nil
	}
	set, err := local.ReadBEIR(ctx, filepath.Join(m.data, name))
	if err == nil {
		if m.sets == nil {
			m.sets = map[string]local.Set{}
		}
		m.sets[name] = set
	}
	return set, err
}

func open(ctx context.Context, set local.Set, out, name, model string) (*local.Stack, error) {
	recipe, err := local.ReadBEIRRecipe("")
	if err != nil {
		return nil, err
	}
	recipe.Indexing.Embedding.Model = model
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return set.Open(ctx, out, recipe, progress(name), log)
}

// meters shows how far long work is.
var meter = local.NewMeter(os.Stderr, false)

func progress(set string) local.Progress {
	return func(what string, done, total int) { meter.Progress(set+" "+what, done, total) }
}
