package rerank

import (
	"context"
	"math"
	"strings"

	"quarry.dev/quarry/internal/embed"
)

const (
	// maxQueryTokens and maxPassageTokens bound the work and the memory of one pair; what is longer is cut at its end.
	maxQueryTokens   = 128
	maxPassageTokens = 512
	// maxHeadTokens is how long the first line of a passage may be to count as its title.
	maxHeadTokens = 40
)

// windows were measured best with MiniLM: docs/quality.md.
var windows = embed.Windows{Size: 64, Most: 64, Head: maxHeadTokens}

// LateInteraction compares a question with a passage in three grains, and scores it by their mean, -1 to 1:
//
//   - the cosine of their vectors;
//   - the best cosine of the question with a window of the passage, which may say in one place what the question asks, far
//     from what the rest is about;
//   - MaxSim (Khattab and Zaharia, ColBERT, 2020): the mean, over the tokens of the question, of the best cosine among
//     the tokens of the passage.
//
// Each alone ranks worse than the three together.
type LateInteraction struct {
	encoder  embed.TokenEncoder
	passages *passages[grains]
}

// grains of a passage.
type grains struct {
	whole   []float32
	windows [][]float32
	tokens  tokens
}

func (g grains) bytes() int {
	n := len(g.tokens.codes) + 4*len(g.tokens.scales) + 4*len(g.whole)
	for _, w := range g.windows {
		n += 4 * len(w)
	}
	return n
}

// NewLateInteraction keeps the vectors of passages that it has seen.
func NewLateInteraction(encoder embed.TokenEncoder, m *Metrics) *LateInteraction {
	encode := func(texts []string) []grains { return encodeGrains(encoder, texts) }
	return &LateInteraction{encoder, newPassages(encode, grains.bytes, m)}
}

// Score implements Scorer.
func (l *LateInteraction) Score(ctx context.Context, query string, passages []string) ([]float64, error) {
	kept, err := l.passages.of(ctx, passages)
	if err != nil {
		return nil, err
	}
	q := l.encoder.EncodeTokens([]string{query})[0]
	questioned := quantise(q.Vectors, l.encoder.Dimensions(), min(q.N, maxQueryTokens))
	scores := make([]float64, len(passages))
	for i, p := range kept {
		if ctx.Err() != nil {
			return nil, contextFailure(ctx)
		}
		scores[i] = (dot(q.Whole, p.whole) + bestWindow(q.Whole, p.windows) + maxSim(questioned, p.tokens)) / 3
	}
	return scores, Check(scores, len(passages))
}

func encodeGrains(encoder embed.TokenEncoder, texts []string) []grains {
	out := make([]grains, len(texts))
	passages := make([]embed.Passage, len(texts))
	for i, v := range encoder.EncodeTokens(texts) {
		out[i].whole = v.Whole
		out[i].tokens = quantise(v.Vectors, encoder.Dimensions(), min(v.N, maxPassageTokens))
		passages[i] = headed(encoder, texts[i])
	}
	for i, w := range encoder.EncodeWindows(passages, windows) {
		out[i].windows = w
	}
	return out
}

// headed takes a short line above a blank one, where a title or a path of headings stands, for the head.
func headed(encoder embed.Encoder, text string) embed.Passage {
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok || strings.Contains(head, "\n") || encoder.CountTokens(head) > maxHeadTokens {
		return embed.Passage{Body: text}
	}
	return embed.Passage{Head: head, Body: body}
}

// bestWindow is 0 for a passage without any.
func bestWindow(query []float32, windows [][]float32) float64 {
	if len(windows) == 0 {
		return 0
	}
	best := math.Inf(-1)
	for _, w := range windows {
		best = max(best, dot(query, w))
	}
	return best
}

// tokens are the vectors of a text's tokens in one byte a component: a row of codes for each of the scales. Products of
// codes are integers, so that a score is the same on every processor, and for a passage that was kept as for a new one.
type tokens struct {
	codes  []int8
	scales []float32
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

// maxSim is 0 for a text without tokens.
func maxSim(query, passage tokens) float64 {
	if len(query.scales) == 0 || len(passage.scales) == 0 {
		return 0
	}
	sum := 0.0
	for i, scale := range query.scales {
		sum += bestCosine(query.row(i), float64(scale), passage)
	}
	return sum / float64(len(query.scales))
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
