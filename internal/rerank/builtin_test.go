package rerank

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quarry.dev/quarry/internal/embed"
)

// counting is an encoder that gives a text the direction of its letters, and counts what it encodes.
type counting struct {
	mu      sync.Mutex
	texts   int
	encoded func() // called after each batch
}

func (*counting) Dimensions() int             { return 26 }
func (*counting) Digest() string              { return "letters" }
func (*counting) Kernels() string             { return "exact" }
func (*counting) CountTokens(text string) int { return len(strings.Fields(text)) }

func (c *counting) Encode(texts []string) [][]float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts += len(texts)
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = letters(text)
	}
	if c.encoded != nil {
		c.encoded()
	}
	return out
}

func (c *counting) EncodeTokens(texts []string) []embed.TokenVectors {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts += len(texts)
	out := make([]embed.TokenVectors, len(texts))
	for i, text := range texts {
		for word := range strings.FieldsSeq(text) {
			out[i].Vectors = append(out[i].Vectors, letters(word)...)
			out[i].N++
		}
		out[i].Whole = letters(text)
	}
	return out
}

// EncodeWindows cuts after every two words.
func (c *counting) EncodeWindows(passages []embed.Passage, _ embed.Windows) [][][]float32 {
	out := make([][][]float32, len(passages))
	for i, p := range passages {
		for pair := range slices.Chunk(strings.Fields(p.Body), 2) {
			out[i] = append(out[i], letters(p.Head+strings.Join(pair, " ")))
		}
	}
	return out
}

// letters counts a to z, at length 1.
func letters(text string) []float32 {
	v, sum := make([]float32, 26), 0.0
	for _, r := range text {
		if r >= 'a' && r <= 'z' {
			v[r-'a']++
		}
	}
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	for i := range v {
		if sum > 0 {
			v[i] = float32(float64(v[i]) / math.Sqrt(sum))
		}
	}
	return v
}

func randomPassage(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(8) {
		for range 1 + rng.IntN(6) {
			b.WriteByte(byte('a' + rng.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func TestBuiltinScoresAreCosines(t *testing.T) {
	b := NewBuiltin(&counting{}, NewMetrics(nil))
	got, err := b.Score(t.Context(), "ab", []string{"ab", "a", "c", ""})
	if err != nil || len(got) != 4 || math.Abs(got[0]-1) > 1e-6 || math.Abs(got[1]-math.Sqrt2/2) > 1e-6 || got[2] != 0 || got[3] != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestScoresDoNotDependOnWhatIsKept: a scorer that has seen passages gives them the scores that a new one gives, and
// encodes none of them again.
func TestScoresDoNotDependOnWhatIsKept(t *testing.T) {
	for name, create := range map[string]func(*counting) Scorer{
		"builtin": func(e *counting) Scorer { return NewBuiltin(e, NewMetrics(nil)) },
		"late":    func(e *counting) Scorer { return NewLateInteraction(e, NewMetrics(nil)) },
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		encoder := &counting{}
		warm := create(encoder)
		seen := map[string]bool{}
		for range 30 {
			var passages []string
			for range 1 + rng.IntN(40) {
				passages = append(passages, randomPassage(rng))
			}
			if rng.IntN(2) == 0 {
				passages = append(passages, passages[0])
			}
			query := randomPassage(rng)
			for range 2 {
				before := encoder.texts
				got, err := warm.Score(t.Context(), query, passages)
				if err != nil {
					t.Fatal(err)
				}
				want, err := create(&counting{}).Score(t.Context(), query, passages)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("%s: %v, a new one gives %v, %v", name, got, want, err)
				}
				fresh := 1 // the question
				for _, p := range passages {
					if !seen[p] {
						fresh++
					}
				}
				for _, p := range passages {
					seen[p] = true
				}
				if encoder.texts-before > fresh {
					t.Errorf("%s: %d texts were encoded, %d were new", name, encoder.texts-before, fresh)
				}
			}
		}
	}
}

// TestWorkBeforeTheDeadlineIsKept, and nothing is encoded after it.
func TestWorkBeforeTheDeadlineIsKept(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	encoder := &counting{encoded: cancel}
	b := NewBuiltin(encoder, NewMetrics(nil))
	var passages []string
	for i := range 3 * encodeBatch {
		passages = append(passages, fmt.Sprint(i))
	}
	if _, err := b.Score(ctx, "q", passages); reasonOf(err) != ReasonCancelled || encoder.texts != encodeBatch {
		t.Errorf("%v after %d texts", err, encoder.texts)
	}
	if _, err := b.Score(t.Context(), "q", passages); err != nil || encoder.texts != 3*encodeBatch+1 {
		t.Errorf("%v after %d texts", err, encoder.texts)
	}
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if _, err := b.Score(late, "q", []string{"new"}); reasonOf(err) != ReasonTimeout {
		t.Error(err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(10*(entryOverhead+8), func(string) int { return 8 }, NewMetrics(nil))
	value := func(i int) (string, contentKey) { s := fmt.Sprint(i); return s, keyOf(s) }
	for i := range 100 {
		v, key := value(i)
		c.put(key, v)
		if i >= 1 { // the first stays, because it is used again and again
			_, first := value(0)
			if got, missing := c.get([]contentKey{first}); len(missing) != 0 || got[0] != "0" {
				t.Fatalf("after %d values the one in use is gone", i)
			}
		}
		if c.bytes > c.limit || len(c.entries) != c.recent.Len() || c.bytes != len(c.entries)*(entryOverhead+8) {
			t.Fatalf("%d bytes in %d entries", c.bytes, len(c.entries))
		}
	}
	_, old := value(50)
	_, last := value(99)
	if got, missing := c.get([]contentKey{old, last}); !slices.Equal(missing, []int{0}) || got[1] != "99" || len(c.entries) != 10 {
		t.Errorf("%q, missing %v of %d", got, missing, len(c.entries))
	}
	huge := newCache(entryOverhead, func(string) int { return 8 }, NewMetrics(nil))
	huge.put(old, "50")
	if len(huge.entries) != 0 {
		t.Error("a value beyond the bound was kept")
	}
}

// TestMaxSim against the definition, in floating point.
func TestMaxSim(t *testing.T) {
	e := &counting{}
	rng := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		query, passage := randomPassage(rng), randomPassage(rng)
		want, words := 0.0, strings.Fields(query)
		for _, q := range words {
			best := -1.0
			for p := range strings.FieldsSeq(passage) {
				best = max(best, dot(letters(q), letters(p)))
			}
			want += best / float64(len(words))
		}
		grains := encodeGrains(e, []string{query, passage})
		if got := maxSim(grains[0].tokens, grains[1].tokens); math.Abs(got-want) > 0.01 {
			t.Errorf("%q and %q: %v, want %v", query, passage, got, want)
		}
	}
	short := encodeGrains(e, []string{"aa bb cc", "", "..."})
	if len(short[0].tokens.scales) != 3 || maxSim(short[1].tokens, short[0].tokens) != 0 || maxSim(short[0].tokens, short[1].tokens) != 0 || maxSim(short[0].tokens, short[2].tokens) != 0 {
		t.Error("texts without tokens do not score 0")
	}
}

// TestLateInteractionTakesTheMeanOfThreeGrains: a window and a token that say what is asked count beside the whole.
func TestLateInteractionTakesTheMeanOfThreeGrains(t *testing.T) {
	l := NewLateInteraction(&counting{}, NewMetrics(nil))
	passage := "aa\n\nbb cc dd ee"
	got, err := l.Score(t.Context(), "bb cc", []string{passage})
	if err != nil {
		t.Fatal(err)
	}
	q := letters("bb cc")
	want := (dot(q, letters(passage)) + dot(q, letters("aabb cc")) + 1) / 3
	if math.Abs(got[0]-want) > 0.01 {
		t.Errorf("score %v, want %v", got[0], want)
	}
	long := "aa " + strings.Repeat("a ", maxHeadTokens)
	for _, text := range []string{long + "\n\nbb", "aa\nbb\n\ncc", "aa bb", ""} {
		if p := headed(l.encoder, text); p.Head != "" || p.Body != text {
			t.Errorf("%q: %q is taken for a title", text, p.Head)
		}
	}
}
