package rerank

import (
	"context"
	"math"

	"quarry.dev/quarry/internal/embed"
)

const (
	// maxQueryTokens and maxPassageTokens bound the work and the memory of one pair; what is longer is cut at its end.
	maxQueryTokens   = 128
	maxPassageTokens = 512
)

// LateInteraction scores a passage by MaxSim (Khattab and Zaharia, ColBERT, 2020): the mean, over the tokens of the
// question, of the best cosine among the tokens of the passage, -1 to 1.
type LateInteraction struct {
	encoder  embed.TokenEncoder
	passages *passages[tokens]
}

// NewLateInteraction keeps the token vectors of passages that it has seen.
func NewLateInteraction(encoder embed.TokenEncoder, m *Metrics) *LateInteraction {
	encode := func(texts []string) []tokens { return encodeTokens(encoder, texts, maxPassageTokens) }
	return &LateInteraction{encoder, newPassages(encode, func(t tokens) int { return len(t.codes) + 4*len(t.scales) }, m)}
}

// Score implements Scorer.
func (l *LateInteraction) Score(ctx context.Context, query string, passages []string) ([]float64, error) {
	kept, err := l.passages.of(ctx, passages)
	if err != nil {
		return nil, err
	}
	q := encodeTokens(l.encoder, []string{query}, maxQueryTokens)[0]
	scores := make([]float64, len(passages))
	for i, p := range kept {
		if ctx.Err() != nil {
			return nil, contextFailure(ctx)
		}
		scores[i] = maxSim(q, p, nil)
	}
	return scores, Check(scores, len(passages))
}

// tokens are the vectors of a text's tokens in one byte a component: a row of codes for each of the scales. Products of
// codes are integers, so that a score is the same on every processor, and for a passage that was kept as for a new one.
type tokens struct {
	codes  []int8
	scales []float32
}

func encodeTokens(encoder embed.TokenEncoder, texts []string, most int) []tokens {
	out := make([]tokens, len(texts))
	for i, v := range encoder.EncodeTokens(texts) {
		out[i] = quantise(v.Vectors, encoder.Dimensions(), min(v.N, most))
	}
	return out
}

// quantise maps the largest component of each of n rows onto 127.
func quantise(vectors []float32, dimensions, n int) tokens {
	t := tokens{codes: make([]int8, n*dimensions), scales: make([]float32, n)}
	for r := range n {
		row, codes := vectors[r*dimensions:][:dimensions], t.codes[r*dimensions:]
		largest := float32(0)
		for _, x := range row {
			largest = max(largest, x, -x)
		}
		if largest == 0 {
			continue
		}
		for i, x := range row {
			codes[i] = int8(math.RoundToEven(float64(x) * 127 / float64(largest)))
		}
		t.scales[r] = largest / 127
	}
	return t
}

// row r of codes.
func (t tokens) row(r int) []int8 {
	d := len(t.codes) / len(t.scales)
	return t.codes[r*d : (r+1)*d : (r+1)*d]
}

// maxSim weighs the best cosine of each token of the question; nil weighs all alike. A text without tokens scores 0.
func maxSim(query, passage tokens, weights []float64) float64 {
	if len(query.scales) == 0 || len(passage.scales) == 0 {
		return 0
	}
	sum, total := 0.0, 0.0
	for i := range query.scales {
		weight := 1.0
		if weights != nil {
			weight = weights[i]
		}
		sum += float64(weight * bestCosine(query.row(i), float64(query.scales[i]), passage))
		total += weight
	}
	if total == 0 {
		return 0
	}
	return sum / total
}

func bestCosine(code []int8, scale float64, passage tokens) float64 {
	best := math.Inf(-1)
	for j, s := range passage.scales {
		// The product of two float32 is exact in float64.
		best = max(best, float64(dotCodes(code, passage.row(j)))*(scale*float64(s)))
	}
	return best
}

// dotCodes is the sum of products of two rows of equal length, at most 2^17 codes.
func dotCodes(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += int32(a[0])*int32(b[0]) + int32(a[4])*int32(b[4])
		s1 += int32(a[1])*int32(b[1]) + int32(a[5])*int32(b[5])
		s2 += int32(a[2])*int32(b[2]) + int32(a[6])*int32(b[6])
		s3 += int32(a[3])*int32(b[3]) + int32(a[7])*int32(b[7])
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}
