package bm25

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/segment/frame"
)

// randomTexts draws words from a Zipf vocabulary, lengths from 0 to most words.
func randomTexts(rng *rand.Rand, n, vocabulary, most int) []string {
	zipf := rand.NewZipf(rng, 1.2, 2, uint64(vocabulary-1))
	texts := make([]string, n)
	for i := range texts {
		var sb strings.Builder
		for range rng.IntN(most + 1) {
			fmt.Fprintf(&sb, "w%d ", zipf.Uint64())
		}
		texts[i] = sb.String()
	}
	return texts
}

func build(t testing.TB, texts []string) *Segment {
	t.Helper()
	b := NewBuilder(mustAnalyzer(t, "english"))
	for _, text := range texts {
		b.Add(text)
	}
	s, err := Open(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func score(t testing.TB, s *Segment, q Query, chunks []uint32) []float64 {
	t.Helper()
	scores, err := s.Score(q, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return scores
}

func every(n int) *roaring.Bitmap {
	all := roaring.New()
	all.AddRange(0, uint64(n))
	return all
}

func randomSet(rng *rand.Rand, n int, share float64) *roaring.Bitmap {
	set := roaring.New()
	for i := range n {
		if rng.Float64() < share {
			set.AddInt(i)
		}
	}
	return set
}

// naive computes the same from strings, by the formula as books print it.
func naive(a Analyzer, texts []string, q Query) (map[uint32]float64, float64) {
	visible, total := map[uint32][]string{}, 0.0
	for i, text := range texts {
		if q.Allow != nil && q.Allow.ContainsInt(i) {
			visible[uint32(i)] = a.Terms(text)
			total += float64(len(visible[uint32(i)]))
		}
	}
	n, scores, bound := float64(len(visible)), map[uint32]float64{}, 0.0
	count := func(terms []string, term string) (c float64) {
		for _, t := range terms {
			if t == term {
				c++
			}
		}
		return c
	}
	for _, term := range a.Terms(q.Text) {
		df := 0.0
		for _, terms := range visible {
			df += min(1, count(terms, term))
		}
		idf := math.Log(1 + (n-df+.5)/(df+.5))
		bound += idf * (q.K1 + 1)
		for i, terms := range visible {
			if tf := count(terms, term); tf > 0 {
				scores[i] += idf * tf * (q.K1 + 1) / (tf + q.K1*(1-q.B+q.B*float64(len(terms))/(total/n)))
			}
		}
	}
	return scores, bound
}

func TestSearchEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		most := 400
		if round%10 == 0 { // several windows, and blocks that are skipped
			most = 20_000
		}
		texts := randomTexts(rng, 1+rng.IntN(most), 50, 30)
		s := build(t, texts)
		q := Query{Text: randomTexts(rng, 1, 60, 8)[0], Allow: randomSet(rng, len(texts)+3, rng.Float64()), K: 1 + rng.IntN(500), K1: rng.Float64() * 2, B: rng.Float64()}
		got, err := s.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		want, bound := naive(s.Analyzer(), texts, q)
		if math.Abs(got.Bound-bound) > 1e-8 || len(got.Hits) != min(q.K, len(want)) {
			t.Fatalf("bound %v, want %v; %d hits of %d", got.Bound, bound, len(got.Hits), len(want))
		}
		for i, h := range got.Hits {
			if math.Abs(h.Score-want[h.Chunk]) > 1e-8 || h.Score > got.Bound {
				t.Fatalf("chunk %d: %v, want %v, bound %v", h.Chunk, h.Score, want[h.Chunk], got.Bound)
			}
			if i > 0 && (got.Hits[i-1].Score < h.Score || got.Hits[i-1].Score == h.Score && got.Hits[i-1].Chunk >= h.Chunk) {
				t.Fatalf("hits %d and %d are out of order", i-1, i)
			}
			delete(want, h.Chunk)
		}
		for chunk, score := range want {
			if score > got.Hits[len(got.Hits)-1].Score+1e-8 {
				t.Fatalf("chunk %d with %v is missing", chunk, score)
			}
		}
	}
}

// TestHiddenChunksLeaveNoTrace: hits, scores and bound are to the last bit those of a corpus that never held what is hidden.
func TestHiddenChunksLeaveNoTrace(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		texts := randomTexts(rng, rng.IntN(700), 40, 20)
		allow := randomSet(rng, len(texts), rng.Float64()*rng.Float64())
		var rest []string
		for it := allow.Iterator(); it.HasNext(); {
			rest = append(rest, texts[it.Next()])
		}
		full, cut := build(t, texts), build(t, rest)
		q := Query{Text: randomTexts(rng, 1, 50, 12)[0], Allow: allow, K: 1 + rng.IntN(50), K1: 0.9, B: 0.4}
		got, err := full.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		scores := score(t, full, q, allow.ToArray())
		q.Allow = every(len(rest))
		want, err := cut.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Hits {
			got.Hits[i].Chunk = uint32(allow.Rank(got.Hits[i].Chunk)) - 1
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if other := score(t, cut, q, q.Allow.ToArray()); !slices.Equal(scores, other) {
			t.Fatalf("scores %v, want %v", scores, other)
		}
	}
}

func TestNothingAllowed(t *testing.T) {
	s := build(t, []string{"alpha beta", "beta"})
	for _, allow := range []*roaring.Bitmap{nil, roaring.New(), roaring.BitmapOf(2, 1<<31)} {
		q := Query{Text: "alpha beta", Allow: allow, K: 5, K1: 0.9, B: 0.4}
		r, err := s.Search(q)
		if err != nil || len(r.Hits) != 0 || math.Abs(r.Bound-2*math.Log(2)*1.9) > 1e-8 {
			t.Errorf("allow %v: %+v, %v", allow, r, err)
		}
		if got := score(t, s, q, []uint32{0, 1, 2, math.MaxUint32}); !slices.Equal(got, make([]float64, 4)) {
			t.Errorf("allow %v: scores %v", allow, got)
		}
	}
}

func TestScoreEqualsSearch(t *testing.T) {
	texts := randomTexts(rand.New(rand.NewPCG(5, 6)), 300, 40, 20)
	s := build(t, texts)
	q := Query{Text: "w0 w3 w3 w17", Allow: every(300), K: 300, K1: 1.2, B: 0.75}
	r, err := s.Search(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Hits {
		if got := score(t, s, q, []uint32{h.Chunk})[0]; got != h.Score {
			t.Fatalf("chunk %d: %v, want %v", h.Chunk, got, h.Score)
		}
	}
}

func TestParametersOutOfRange(t *testing.T) {
	s := build(t, []string{"alpha"})
	for field, q := range map[string]Query{
		"k = 0":   {K: 0, K1: 1, B: 0.5},
		"bm25.k1": {K: 1, K1: -1, B: 0.5},
		"k1 = Na": {K: 1, K1: math.NaN(), B: 0.5},
		"bm25.b":  {K: 1, K1: 1, B: 1.5},
		"b = NaN": {K: 1, K1: 1, B: math.NaN()},
	} {
		q.Allow, q.Text = every(1), "alpha"
		if _, err := s.Search(q); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// damaged is a segment whose file was changed after it was written: what opens must answer or return an error.
func damaged(t *testing.T, file []byte) {
	s, err := Open(file)
	if err != nil {
		return
	}
	n := int(min(s.Chunks(), 1000))
	for _, allow := range []*roaring.Bitmap{every(n), roaring.BitmapOf(0, 1, 130)} {
		q := Query{Text: "w0 w1 w5 alpha beta absent", Allow: allow, K: 10, K1: 0.9, B: 0.4}
		if r, err := s.Search(q); err == nil {
			for _, h := range r.Hits {
				if !allow.Contains(h.Chunk) || !(h.Score > 0) {
					t.Fatalf("a damaged file gave %+v", h)
				}
			}
		}
		_, _ = s.Score(q, []uint32{0, 1, 130, 7})
	}
	_ = Check(file)
}

func TestDamage(t *testing.T) {
	b := NewBuilder(mustAnalyzer(t, "standard"))
	b.Add("alpha beta beta")
	b.Add("")
	for range 200 {
		b.Add("alpha w0 w1")
	}
	file := b.Bytes()
	if !bytes.Equal(file, b.Bytes()) {
		t.Error("the same builder gave different bytes")
	}
	if err := Check(file); err != nil {
		t.Errorf("a fresh file: %v", err)
	}
	for n := range file {
		if _, err := Open(file[:n]); !errors.Is(err, frame.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[n] ^= 1 << bit
			damaged(t, bad)
			if err := Check(bad); err == nil {
				t.Fatalf("flipped bit %d of byte %d passed", bit, n)
			}
		}
	}
	empty := NewBuilder(mustAnalyzer(t, "standard")).Bytes()
	if err := Check(empty); err != nil {
		t.Errorf("the empty segment: %v", err)
	}
	damaged(t, empty)
}

// FuzzOpen seals the body anew, so that the fuzzer gets past the checksum.
func FuzzOpen(f *testing.F) {
	b := NewBuilder(mustAnalyzer(f, "english"))
	for _, text := range randomTexts(rand.New(rand.NewPCG(7, 8)), 140, 9, 6) {
		b.Add(text)
	}
	body, _ := kind.Open(b.Bytes())
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) { damaged(t, kind.Seal(body)) })
}

func BenchmarkSearch(b *testing.B) {
	const n = 50_000
	rng := rand.New(rand.NewPCG(9, 10))
	s := build(b, randomTexts(rng, n, 30_000, 120))
	for _, share := range []float64{1, 0.1, 0.01} {
		q := Query{Text: "w3 w40 w500 w7000", Allow: randomSet(rng, n, share), K: 10, K1: 0.9, B: 0.4}
		b.Run(fmt.Sprintf("allow=%v%%", share*100), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTerms(b *testing.B) {
	a := mustAnalyzer(b, "english")
	text := strings.Repeat("Microstructural development of human newborn cerebral white matter, assessed in vivo. ", 10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		a.Terms(text)
	}
}
