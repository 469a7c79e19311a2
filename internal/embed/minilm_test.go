package embed

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/embed/kernel"
)

// minis are the model with each kernel set of this machine.
func minis(t testing.TB) (all []*mini) {
	t.Helper()
	for _, set := range kernel.Available() {
		e, err := newMini(set, runtime.GOMAXPROCS(0))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// golden are texts with vectors of the model in float32, written by hack/models.
type golden struct {
	Text         string `json:"text"`
	Tokens       int    `json:"tokens"`
	Vector       packed `json:"vector"`
	TokenVectors packed `json:"tokenVectors"`
}

// packed is base64 of little-endian int16, 1 being 32767.
type packed []float32

func (p *packed) UnmarshalText(b []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(b))
	for i := 0; i+1 < len(raw); i += 2 {
		*p = append(*p, float32(int16(binary.LittleEndian.Uint16(raw[i:])))/32767)
	}
	return err
}

func goldens(t testing.TB) (rows []golden, texts []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/minilm-f32.json")
	if err == nil {
		err = json.Unmarshal(data, &rows)
	}
	if err != nil || len(rows) < 32 {
		t.Fatalf("testdata/minilm-f32.json: %d texts, %v", len(rows), err)
	}
	for _, r := range rows {
		texts = append(texts, r.Text)
	}
	return rows, texts
}

func TestMiniLMIsCloseToFloat32(t *testing.T) {
	all, allTexts := goldens(t)
	for _, e := range minis(t) {
		rows, texts := all, allTexts
		if e.Kernels() == "generic" { // which takes 25 times as long
			rows, texts = rows[:12], texts[:12]
		}
		mean, worst := 0.0, 1.0
		for i, v := range e.Encode(texts) {
			c := cosine(v, rows[i].Vector)
			mean, worst = mean+c/float64(len(rows)), min(worst, c)
			if n := e.CountTokens(texts[i]); n != rows[i].Tokens {
				t.Errorf("%.40q: %d tokens, want %d", texts[i], n, rows[i].Tokens)
			}
		}
		t.Logf("%s: cosine to float32: mean %.5f, worst %.5f", e.Kernels(), mean, worst)
		leastMean, leastWorst := 0.998, 0.995
		if e.Kernels() == "avx2" { // activations of 128 levels
			leastMean, leastWorst = 0.996, 0.985
		}
		if mean < leastMean || worst < leastWorst {
			t.Errorf("%s: cosine to float32: mean %.5f, want %g; worst %.5f, want %g", e.Kernels(), mean, leastMean, worst, leastWorst)
		}
	}
}

func TestMiniLMTokenVectors(t *testing.T) {
	all, allTexts := goldens(t)
	for _, e := range minis(t) {
		rows, texts := all, allTexts
		if e.Kernels() == "generic" {
			rows, texts = rows[:12], texts[:12]
		}
		for i, v := range e.EncodeTokens(texts) {
			if want := min(rows[i].Tokens, miniTokens-2); v.N != want || len(v.Vectors) != want*miniDimensions {
				t.Fatalf("%.40q: %d vectors of %d numbers in all, want %d", texts[i], v.N, len(v.Vectors), want)
			}
			for k := 0; k < len(rows[i].TokenVectors); k += miniDimensions {
				if c := cosine(v.Vectors[k:][:miniDimensions], rows[i].TokenVectors[k:][:miniDimensions]); c < 0.98 {
					t.Errorf("%s: %.40q: token %d: cosine to float32 %.4f, want 0.98", e.Kernels(), texts[i], k/miniDimensions, c)
				}
			}
		}
	}
}

func TestMiniLMDigestIsInItsCard(t *testing.T) {
	e, err := Builtin(MiniLM)
	if err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile("models/MODEL.md")
	if err != nil || !strings.Contains(string(card), e.Digest()) {
		t.Errorf("the model card lacks the digest %s: %v", e.Digest(), err)
	}
	f, err := Describe(MiniLM)
	if err != nil || f.Dimensions != e.Dimensions() || f.MaxTokens != miniTokens {
		t.Errorf("facts %+v, %v", f, err)
	}
}

// hostileTexts must give vectors as any others do.
func hostileTexts() []string {
	return []string{"\x00", "a\x00b", "\xff\xfe\xfd", "\xc3\x28 \xa0\xa1", "!?.,;:-()", strings.Repeat("!", 5000), "\u202e\u0301\u0301",
		strings.Repeat("a", 1<<20), strings.Repeat("word ", 1<<18), strings.Repeat("有", 1<<18), strings.Repeat("\x00", 1<<20), "[CLS] [SEP] [MASK]"}
}

func TestMiniLMHostileTexts(t *testing.T) {
	texts := hostileTexts()
	for _, e := range minis(t) {
		if e.Kernels() == "generic" {
			texts = texts[:5]
		}
		for i, v := range e.Encode(texts) {
			checkVector(t, texts[i], v, e.CountTokens(texts[i]))
		}
		for i, v := range e.EncodeTokens(texts) {
			if want := min(e.CountTokens(texts[i]), miniTokens-2); v.N != want {
				t.Errorf("%.20q: %d token vectors, want %d", texts[i], v.N, want)
			}
		}
	}
}

func checkVector(t *testing.T, text string, v []float32, tokens int) {
	t.Helper()
	square, want := 0.0, 1.0
	if tokens == 0 {
		want = 0
	}
	for _, f := range v {
		square += float64(f) * float64(f)
	}
	if !(math.Abs(square-want) < 1e-5) {
		t.Errorf("%.40q, %d tokens: a vector of squared length %g, want %g", text, tokens, square, want)
	}
}

func FuzzMiniLM(f *testing.F) {
	for _, s := range hostileTexts()[:7] {
		f.Add(s)
	}
	e, err := newMini(kernel.Available()[0], 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkVector(t, text, e.Encode([]string{text})[0], e.CountTokens(text))
	})
}

func TestMiniLMWithoutTokens(t *testing.T) {
	for _, e := range minis(t) {
		v := e.Encode([]string{"", "a", " \n\u200b"})
		if zero := make([]float32, miniDimensions); !slices.Equal(v[0], zero) || !slices.Equal(v[2], zero) || slices.Equal(v[1], zero) {
			t.Error("a text without tokens is not the zero vector, or another is")
		}
		if tv := e.EncodeTokens([]string{"", "a"}); tv[0].N != 0 || tv[1].N != 1 {
			t.Errorf("%d and %d token vectors", tv[0].N, tv[1].N)
		}
		if v := e.Encode(nil); len(v) != 0 {
			t.Errorf("no texts: %d vectors", len(v))
		}
	}
}

// BenchmarkMiniLM measures passages of 100 words a second with all cores.
func BenchmarkMiniLM(b *testing.B) {
	texts := passages(64)
	for _, e := range minis(b) {
		b.Run(e.Kernels(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Encode(texts)
			}
			b.ReportMetric(float64(b.N*len(texts))/b.Elapsed().Seconds(), "passages/s")
		})
	}
}
