package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Hit is one passage of an answer; offsets count code points.
type Hit struct {
	Document string  `json:"document"`
	Start    int     `json:"start"`
	End      int     `json:"end"`
	Text     string  `json:"text"`
	Score    float64 `json:"score"`
}

// order sorts hits by score, then document, then position: the stated tie rule, so that equal scores favour nobody.
func order(hits []Hit) []Hit {
	sorted := slices.Clone(hits)
	slices.SortStableFunc(sorted, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	return sorted
}

// fold groups ordered hits into the things that are ranked: distinct passages, or distinct documents each with all its hits.
// Without it several chunks of one document would count several times, and the worse recipe would win.
func fold(hits []Hit, passages bool) [][]Hit {
	type key struct {
		document   string
		start, end int
	}
	var ranked [][]Hit
	position := map[key]int{}
	for _, h := range hits {
		k := key{document: h.Document}
		if passages {
			k.start, k.end = h.Start, h.End
		}
		if at, seen := position[k]; seen {
			ranked[at] = append(ranked[at], h)
			continue
		}
		position[k] = len(ranked)
		ranked = append(ranked, []Hit{h})
	}
	return ranked
}

// finding is where one evidence group stands in a ranking: the 1-based rank of the first thing that satisfies it, 0 when
// nothing does; the gain of that thing; and the most that any member of the group would gain.
type finding struct{ rank, gain, most int }

// find looks for every evidence group among hits.
func (q Question) find(hits []Hit) []finding {
	ranked := fold(order(hits), q.Passages())
	out := make([]finding, len(q.Evidence))
	for g, group := range q.Evidence {
		f := &out[g]
		for _, e := range group {
			f.most = max(f.most, e.gain())
		}
		for at := 0; at < len(ranked) && f.rank == 0; at++ {
			for _, e := range group {
				if slices.ContainsFunc(ranked[at], e.satisfies) {
					f.rank, f.gain = at+1, max(f.gain, e.gain())
				}
			}
		}
	}
	return out
}

func ranksOf(found []finding) []int {
	ranks := make([]int, len(found))
	for i, f := range found {
		ranks[i] = f.rank
	}
	return ranks
}

// Values computes metrics of one question over its hits, in the order of the metrics. Every value lies in [0,1]. An error
// names a metric that cannot be computed.
func (q Question) Values(hits []Hit, metrics []Metric) ([]float64, error) {
	return valuesOf(q.find(hits), metrics)
}

func valuesOf(found []finding, metrics []Metric) ([]float64, error) {
	values := make([]float64, len(metrics))
	for i, m := range metrics {
		var err error
		if values[i], err = m.value(found); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// value computes one metric of one question. Every value lies in [0,1].
func (m Metric) value(findings []finding) (float64, error) {
	if err := m.check(); err != nil {
		return 0, err
	}
	found, first := 0, 0
	for _, f := range findings {
		if f.rank > 0 && (m.K == 0 || f.rank <= m.K) {
			found++
			if first == 0 || f.rank < first {
				first = f.rank
			}
		}
	}
	if found == 0 {
		return 0, nil
	}
	switch m.Name {
	case Recall:
		return float64(found) / float64(len(findings)), nil
	case HitRate:
		return 1, nil
	case MRR:
		return 1 / float64(first), nil
	}
	return ndcg(findings, m.K), nil
}

// check refuses a metric that cannot be computed.
func (m Metric) check() error {
	switch {
	case !slices.Contains([]string{Recall, HitRate, MRR, NDCG}, m.Name):
		return fmt.Errorf("metric %q is not known: use Recall, HitRate, MRR or NDCG", m.Name)
	case m.K < 0 || m.K > maxK || m.K == 0 && m.Name != MRR:
		return fmt.Errorf("k %d of metric %s is out of range: use 1 to %d", m.K, m.Name, maxK)
	}
	return nil
}

// ndcg is the normalised discounted cumulative gain with linear gains: the sum of grade / log2(rank + 1) over the first k,
// divided by that of the ideal ranking (Järvelin and Kekäläinen 2002; ndcg_cut of trec_eval). A thing that satisfies several
// groups gains once, the greatest grade, and the ideal ranking then holds that many fewer things, so the best ranking is
// always 1 and nothing is above it.
func ndcg(findings []finding, k int) float64 {
	gains, most := map[int]int{}, map[int]int{} // by rank
	var ideals []int
	for _, f := range findings {
		if f.rank == 0 {
			ideals = append(ideals, f.most)
			continue
		}
		gains[f.rank], most[f.rank] = max(gains[f.rank], f.gain), max(most[f.rank], f.most)
	}
	ideals = slices.AppendSeq(ideals, maps.Values(most))
	slices.SortFunc(ideals, func(a, b int) int { return b - a })
	discounted := func(gain, rank int) float64 { return float64(gain) / math.Log2(float64(rank)+1) }
	sum, ideal := 0.0, 0.0
	for _, rank := range slices.Sorted(maps.Keys(gains)) {
		if rank <= k {
			sum += discounted(gains[rank], rank)
		}
	}
	for i, gain := range ideals[:min(len(ideals), k)] {
		ideal += discounted(gain, i+1)
	}
	return min(sum/ideal, 1)
}
