package embed

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"quarry.dev/quarry/internal/embed/safetensors"
	"quarry.dev/quarry/internal/testdata"
)

func model(t testing.TB) *static {
	t.Helper()
	e, err := Builtin(Static256)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*static)
}

var plain = sync.OnceValue(func() *reference { return newReference(vocabularyText) })

func checkTokens(t testing.TB, s *static, text string) {
	t.Helper()
	k := &tokenizer{vocab: s.vocab}
	k.tokens("weiß ÄÖ left over")
	if got, want := k.tokens(text), plain().tokens(text); !slices.Equal(got, want) {
		t.Fatalf("%.200q: tokens %v, want %v", text, got, want)
	}
}

func TestTokens(t *testing.T) {
	s := model(t)
	for text, want := range map[string]string{
		"":                          "",
		"Hello, World!":             "hello , world !",
		"Ünaffable":                 "una ##ffa ##ble",
		"日本 x":                      "日 本 x",
		"a\x01b\tc\u200bd":          "ab cd",
		"[SEP] [UNK]":               "[ sep ] [ un ##k ]",
		strings.Repeat("a", 101):    "[UNK]",
		"caf\u00e9 cafe\u0301 CAFÉ": "cafe cafe cafe",
	} {
		lines := strings.Split(vocabularyText, "\n")
		var got []string
		for _, id := range (&tokenizer{vocab: s.vocab}).tokens(text) {
			got = append(got, lines[id])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if n := s.CountTokens(text); n != len(got) {
			t.Errorf("%q: counted %d, want %d", text, n, len(got))
		}
	}
}

func TestTokensEqualReference(t *testing.T) {
	s := model(t)
	alphabet := []rune("abcXYZ019 .,-_'#[]\t\n\x00\x7f\u0085äÉßİıЖ中文ก้が\u0301\u200d\u00a0\u2028🙂😀\ufffdﬁ①;")
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		n := r.IntN(60)
		if r.IntN(20) == 0 {
			n = 90 + r.IntN(120)
		}
		text := make([]rune, n)
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		checkTokens(t, s, string(text))
	}
	for r := rune(1); r < 0x3000; r++ {
		checkTokens(t, s, "a"+string(r)+"b")
	}
	checkTokens(t, s, "\xff\xfebad \xc3 utf\x80")
}

func TestTokensOfRealTexts(t *testing.T) {
	root := testdata.Shared(t, "data/docs-mixed")
	s := model(t)
	for _, pattern := range []string{"rust-book/src/*.md", "blns/*.txt", "unstructured/example-docs/*.txt", "unstructured/example-docs/*.html"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			checkTokens(t, s, string(data[:min(len(data), 200_000)]))
		}
	}
}

// naive is the definition of the model: sum of int8 rows, then L2 norm.
func naive(t testing.TB, text string) []float64 {
	t.Helper()
	f, err := safetensors.Open(staticTable)
	if err != nil {
		t.Fatal(err)
	}
	data, err := f.Int8("embeddings", -1, dimensions)
	if err != nil {
		t.Fatal(err)
	}
	sum, square := make([]float64, dimensions), 0.0
	for _, id := range plain().tokens(text) {
		for i := range sum {
			sum[i] += float64(data[int(id)*dimensions+i])
		}
	}
	for _, v := range sum {
		square += v * v
	}
	for i := range sum {
		if square > 0 {
			sum[i] /= math.Sqrt(square)
		}
	}
	return sum
}

func TestEncode(t *testing.T) {
	s := model(t)
	texts := []string{"", " \n", "parental leave", "How long is parental leave?", strings.Repeat("one two, three. ", 2000)}
	for n := range 40 {
		texts = append(texts, strings.Repeat("word ", 250+n)) // around the width of a 16-bit lane
	}
	for i, v := range s.Encode(texts) {
		for k, want := range naive(t, texts[i]) {
			if math.Abs(float64(v[k])-want) > 1e-6 {
				t.Fatalf("text %d dimension %d: %v, want %v", i, k, v[k], want)
			}
		}
	}
	if v := s.Encode([]string{"", "\u200b"}); !slices.Equal(v[0], make([]float32, dimensions)) || !slices.Equal(v[1], v[0]) {
		t.Error("a text without tokens is not the zero vector")
	}
	if v := s.Encode(nil); len(v) != 0 {
		t.Errorf("no texts: %d vectors", len(v))
	}
}

func TestEncodeIsTheSameForAnyThreads(t *testing.T) {
	s := model(t)
	texts := passages(500)
	all := s.Encode(texts)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for i, v := range s.Encode(texts) {
		if !slices.Equal(v, all[i]) {
			t.Fatalf("text %d differs", i)
		}
	}
}

func TestSimilarity(t *testing.T) {
	v := model(t).Encode([]string{"How long is parental leave?", "Parents may take sixteen weeks off after a birth.", "The printer is on the second floor."})
	dot := func(a, b []float32) (d float64) {
		for i := range a {
			d += float64(a[i]) * float64(b[i])
		}
		return d
	}
	if near, far := dot(v[0], v[1]), dot(v[0], v[2]); near < far+0.1 {
		t.Errorf("near %.3f, far %.3f", near, far)
	}
}

func TestBuiltin(t *testing.T) {
	s := model(t)
	if s.Dimensions() != 256 || len(s.Digest()) != 71 || s.Digest() != digest(staticTable, vocabularyText) {
		t.Errorf("%d dimensions, digest %s", s.Dimensions(), s.Digest())
	}
	card, err := os.ReadFile("models/MODEL.md")
	if err != nil || !strings.Contains(string(card), s.Digest()) {
		t.Errorf("the model card lacks the digest %s: %v", s.Digest(), err)
	}
	for name, want := range map[string]string{"multilingual-e5-small": "use minilm-l6-v2 or static-256", "": "unknown"} {
		if _, err := Builtin(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Builtin(%q): %v", name, err)
		}
	}
}

func TestBadModelFiles(t *testing.T) {
	file := func(header string, data int) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), make([]byte, data)...)
	}
	for name, f := range map[string][]byte{
		"empty":      nil,
		"header":     binary.LittleEndian.AppendUint64(nil, math.MaxUint64),
		"json":       file("{", 0),
		"no tensor":  file("{}", 0),
		"type":       file(`{"embeddings":{"dtype":"F32","shape":[1,256],"data_offsets":[0,1024]}}`, 1024),
		"short":      file(`{"embeddings":{"dtype":"I8","shape":[1,256],"data_offsets":[0,256]}}`, 255),
		"offsets":    file(`{"embeddings":{"dtype":"I8","shape":[1,256],"data_offsets":[9,3]}}`, 256),
		"other rows": file(`{"embeddings":{"dtype":"I8","shape":[2,256],"data_offsets":[0,512]}}`, 512),
	} {
		if _, err := newStatic(f, &vocabulary{size: 1}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := newStatic(file(`{"embeddings":{"dtype":"I8","shape":[1,256],"data_offsets":[0,256]}}`, 256), &vocabulary{size: 1}); err != nil {
		t.Errorf("good file: %v", err)
	}
	if _, err := newVocabulary("a\nb\n"); err == nil {
		t.Error("a vocabulary without [UNK] was taken")
	}
}

// passages are n texts of 100 words drawn from the vocabulary by a skewed law, with marks and capitals.
func passages(n int) []string {
	var words []string
	for w := range strings.SplitSeq(vocabularyText, "\n") {
		if len(w) > 2 && w[0] >= 'a' && w[0] <= 'z' {
			words = append(words, w)
		}
	}
	r := rand.New(rand.NewPCG(7, 7))
	out := make([]string, n)
	for i := range out {
		var b strings.Builder
		for k := range 100 {
			w := words[int(math.Pow(r.Float64(), 3)*float64(len(words)))]
			switch {
			case k%12 == 0:
				w = strings.ToUpper(w[:1]) + w[1:]
			case k%12 == 11:
				w += ". "
			case k%17 == 0:
				w += "ology" // falls into pieces
			}
			b.WriteString(w + " ")
		}
		out[i] = b.String()
	}
	return out
}

// BenchmarkEncode reports passages of 100 words per second with all cores.
func BenchmarkEncode(b *testing.B) {
	s, texts := model(b), passages(4096)
	b.ResetTimer()
	for b.Loop() {
		s.Encode(texts)
	}
	b.ReportMetric(float64(b.N*len(texts))/b.Elapsed().Seconds(), "passages/s")
}

func BenchmarkTokens(b *testing.B) {
	for name, text := range map[string]string{"ascii": strings.Join(passages(100), ""), "umlauts": strings.Repeat("für die Übergänge größerer Städte ", 2000), "cjk": strings.Repeat("有給休暇は何日ありますか。", 2000)} {
		b.Run(name, func(b *testing.B) {
			t := &tokenizer{vocab: model(b).vocab}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				t.tokens(text)
			}
		})
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"Hello, Wörld", "日本\u0301", "a\x00b\xff", "İstanbul 🙂"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTokens(t, model(t), text) })
}
