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
	rows, texts := goldens(t)
	for _, e := range minis(t) {
		mean, worst := 0.0, 1.0
		for i, v := range e.Encode(texts) {
			c := cosine(v, rows[i].Vector)
			mean, worst = mean+c/float64(len(rows)), min(worst, c)
			if n := e.CountTokens(texts[i]); n != rows[i].Tokens {
				t.Errorf("%.40q: %d tokens, want %d", texts[i], n, rows[i].Tokens)
			}
		}
		t.Logf("%s: cosine to float32: mean %.5f, worst %.5f", e.Kernels(), mean, worst)
		if mean < 0.996 || worst < 0.985 {
			t.Errorf("%s: cosine to float32: mean %.5f, want 0.996; worst %.5f, want 0.985", e.Kernels(), mean, worst)
		}
	}
}

func TestMiniLMTokenVectors(t *testing.T) {
	rows, texts := goldens(t)
	for _, e := range minis(t) {
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
