package eval

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// hit is one passage of an answer.
type hit struct {
	Document string  `json:"document"`
	Start    int     `json:"start"`
	End      int     `json:"end"`
	Text     string  `json:"text"`
	Score    float64 `json:"score"`
}

// order sorts hits by score, then document, then position: the stated tie rule, so that equal scores favour nobody.
func order(hits []hit) []hit {
	sorted := slices.Clone(hits)
	slices.SortStableFunc(sorted, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	return sorted
}

// fold groups ordered hits into the things that are ranked: distinct passages, or distinct documents each with all its hits.
// Without it several chunks of one document would count several times, and the worse recipe would win.
func fold(hits []hit, passages bool) [][]hit {
	type key struct {
		document   string
		start, end int
	}
	var ranked [][]hit
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
		ranked = append(ranked, []hit{h})
	}
	return ranked
}

// ranks returns, per evidence group, the 1-based rank of the first thing that satisfies it; 0 when nothing does.
func (q Question) ranks(hits []hit) []int {
	ranked := fold(order(hits), q.Passages())
	out := make([]int, len(q.Evidence))
	for g, group := range q.Evidence {
		at := slices.IndexFunc(ranked, func(thing []hit) bool {
			return slices.ContainsFunc(group, func(e Evidence) bool { return slices.ContainsFunc(thing, e.satisfies) })
		})
		out[g] = at + 1
	}
	return out
}

// value computes one metric of one question from its group ranks. Every value lies in [0,1].
func (m Metric) value(ranks []int) (float64, error) {
	within := func(rank int) bool { return rank > 0 && (m.K == 0 || rank <= m.K) }
	found, first := 0, 0
	for _, rank := range ranks {
		if within(rank) {
			found++
			if first == 0 || rank < first {
				first = rank
			}
		}
	}
	if found == 0 {
		return 0, m.check()
	}
	switch m.Name {
	case Recall:
		return float64(found) / float64(len(ranks)), m.check()
	case HitRate:
		return 1, m.check()
	case MRR:
		return 1 / float64(first), m.check()
	case NDCG:
		return ndcg(ranks, m.K), m.check()
	}
	return 0, m.check()
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

// ndcg is the normalised discounted gain of binary labels. A thing that satisfies several groups gains once, and the ideal
// ranking then holds that many fewer things, so the best ranking is always 1 and nothing is above it.
func ndcg(ranks []int, k int) float64 {
	gaining, missed := map[int]bool{}, 0
	for _, rank := range ranks {
		if rank == 0 {
			missed++
		} else {
			gaining[rank] = true
		}
	}
	discount := func(rank int) float64 { return 1 / math.Log2(float64(rank)+1) }
	gain, ideal := 0.0, 0.0
	for _, rank := range slices.Sorted(maps.Keys(gaining)) {
		if rank <= k {
			gain += discount(rank)
		}
	}
	for rank := 1; rank <= min(len(gaining)+missed, k); rank++ {
		ideal += discount(rank)
	}
	return min(gain/ideal, 1)
}
