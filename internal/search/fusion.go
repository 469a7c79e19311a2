package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

// Defaults of the recipe, for configurations that were not defaulted by an API server.
const (
	defaultRankK      = 60
	defaultCandidates = 100
	defaultTopK       = 10
)

// candidate is one visible chunk that a retriever found, with what all say of it. score decides the order.
type candidate struct {
	chunk  uint32
	ranks  Ranks
	scores Scores
	fused  float64
	score  float64
}

// fusion makes one score of two.
type fusion struct {
	kind v1alpha1.FusionType
	// denseWeight is the share of the vectors, 0 to 1; floor is the cosine of texts that have nothing in common.
	denseWeight, floor float64
	// rankK, and the weights of reciprocal ranks.
	rankK                  float64
	bm25Weight, hnswWeight float64
}

// newFusion takes from the model's facts what spec does not say.
func newFusion(spec v1alpha1.FusionSpec, model embed.Facts) (fusion, error) {
	f := fusion{kind: cmp.Or(spec.Type, v1alpha1.FusionWeightedScore), floor: model.Floor, rankK: defaultRankK, bm25Weight: 1, hnswWeight: 1}
	var err error
	if f.denseWeight, err = decimal("fusion.denseWeight", spec.DenseWeight, model.DenseWeight, 1); err != nil {
		return f, err
	}
	if f.kind != v1alpha1.FusionWeightedScore && f.kind != v1alpha1.FusionReciprocalRank {
		return f, fmt.Errorf("fusion.type is %q: use %s or %s", f.kind, v1alpha1.FusionWeightedScore, v1alpha1.FusionReciprocalRank)
	}
	if r := spec.ReciprocalRank; r != nil {
		if r.K != 0 {
			f.rankK = float64(r.K)
		}
		if f.bm25Weight, err = decimal("fusion.reciprocalRank.weights.bm25", r.Weights.BM25, 1, 10); err != nil {
			return f, err
		}
		if f.hnswWeight, err = decimal("fusion.reciprocalRank.weights.hnsw", r.Weights.HNSW, 1, 10); err != nil {
			return f, err
		}
	}
	if f.rankK < 1 {
		return f, fmt.Errorf("fusion.reciprocalRank.k is %v: use 1 to 1000", f.rankK)
	}
	return f, nil
}

// decimal parses a fraction from 0 to most; "" is the fallback.
func decimal(field, text string, fallback, most float64) (float64, error) {
	if text == "" {
		return fallback, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, fmt.Errorf("%s is %q: use a decimal from 0 to %v", field, text, most)
	}
	return v, nil
}

// crossScored tells whether each retriever must score what only the other one found.
func (f fusion) crossScored() bool { return f.kind == v1alpha1.FusionWeightedScore }

// score is computed over numbers of visible chunks alone. bound is the largest BM25 score that the query could reach.
func (f fusion) score(c candidate, bound float64) float64 {
	if f.kind == v1alpha1.FusionReciprocalRank {
		return reciprocal(f.bm25Weight, f.rankK, c.ranks.BM25) + reciprocal(f.hnswWeight, f.rankK, c.ranks.HNSW)
	}
	return mix(f.denseWeight, c.scores.BM25, bound, (c.scores.HNSW-f.floor)/(1-f.floor))
}

// mix weighs the share that a BM25 score has of its bound, 0 to 1, with the score of a model, of which less than 0 counts as 0.
func mix(denseWeight, bm25, bound, dense float64) float64 {
	lexical := 0.0
	if bound > 0 {
		lexical = bm25 / bound
	}
	// Two roundings on every processor: without the conversion a compiler may fuse the multiplication and the addition.
	return float64((1-denseWeight)*lexical) + float64(denseWeight*math.Max(0, dense))
}

func reciprocal(weight, k float64, rank int) float64 {
	if rank == 0 {
		return 0
	}
	return weight / (k + float64(rank))
}

// union joins the hits of both retrievers, in the order of their first appearance.
func union(bm25, hnsw []ChunkHit) []candidate {
	var out []candidate
	at := map[uint32]int{}
	find := func(chunk uint32) *candidate {
		i, ok := at[chunk]
		if !ok {
			i, at[chunk] = len(out), len(out)
			out = append(out, candidate{chunk: chunk})
		}
		return &out[i]
	}
	for rank, h := range bm25 {
		c := find(h.Chunk)
		c.ranks.BM25, c.scores.BM25 = rank+1, h.Score
	}
	for rank, h := range hnsw {
		c := find(h.Chunk)
		c.ranks.HNSW, c.scores.HNSW = rank+1, h.Score
	}
	return out
}

// missing lists the chunks that one retriever did not return.
func missing(candidates []candidate, rank func(Ranks) int) []uint32 {
	var chunks []uint32
	for _, c := range candidates {
		if rank(c.ranks) == 0 {
			chunks = append(chunks, c.chunk)
		}
	}
	return chunks
}

// order sorts by (score descending, document, ordinal); a hit is there for each candidate.
func order(hits []located) {
	slices.SortFunc(hits, func(a, b located) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}
