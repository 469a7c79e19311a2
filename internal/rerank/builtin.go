package rerank

import (
	"context"

	"quarry.dev/quarry/internal/embed"
)

// Builtin scores a passage by the cosine of its vector with that of the question, -1 to 1.
type Builtin struct {
	encoder  embed.Encoder
	passages *passages[[]float32]
}

// NewBuiltin keeps the vectors of passages that it has seen.
func NewBuiltin(encoder embed.Encoder, m *Metrics) *Builtin {
	return &Builtin{encoder, newPassages(encoder.Encode, func(v []float32) int { return 4 * len(v) }, m)}
}

// Score implements Scorer.
func (b *Builtin) Score(ctx context.Context, query string, passages []string) ([]float64, error) {
	vectors, err := b.passages.of(ctx, passages)
	if err != nil {
		return nil, err
	}
	q := b.encoder.Encode([]string{query})[0]
	scores := make([]float64, len(passages))
	for i, v := range vectors {
		scores[i] = dot(q, v)
	}
	return scores, Check(scores, len(passages))
}

// dot of two vectors. A product of two float32 is exact in float64, so no fused instruction changes the sum.
func dot(a, b []float32) (sum float64) {
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
