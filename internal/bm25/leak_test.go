package bm25

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// pair is a corpus, and the same without what the allow set hides.
type pair struct {
	full, cut *Segment
	allow     *roaring.Bitmap
	all       *roaring.Bitmap // of cut
	visible   []uint32        // numbers in full by number in cut
	chunks    []uint32        // numbers in cut
}

func open(t testing.TB, texts [][]string) *Segment {
	t.Helper()
	b := NewBuilder(mustAnalyzer(t, "standard"))
	for _, terms := range texts {
		b.AddTerms(terms)
	}
	s, err := Open(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newPair(t testing.TB, full *Segment, texts [][]string, visible func(i int) bool) pair {
	t.Helper()
	p := pair{full: full, allow: roaring.New()}
	var rest [][]string
	for i, text := range texts {
		if visible(i) {
			p.allow.AddInt(i)
			p.visible = append(p.visible, uint32(i))
			p.chunks = append(p.chunks, uint32(len(rest)))
			rest = append(rest, text)
		}
	}
	p.cut, p.all = open(t, rest), every(len(rest))
	return p
}

// check holds everything that a user can see of both to be equal to the last bit: which chunks, their scores and order, the
// bound that scores are fused by, the scores of chunks that another retriever found, and whether there is an error.
func (p pair) check(t testing.TB, q Query) {
	t.Helper()
	q.Allow = p.allow
	got, gotErr := p.full.Search(q)
	gotScores, _ := p.full.Score(q, p.visible)
	q.Allow = p.all
	want, wantErr := p.cut.Search(q)
	wantScores, _ := p.cut.Score(q, p.chunks)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Fatalf("%+v: error %v, without the hidden chunks %v", q, gotErr, wantErr)
	}
	if math.Float64bits(got.Bound) != math.Float64bits(want.Bound) || len(got.Hits) != len(want.Hits) {
		t.Fatalf("%+v: bound %v with %d hits, without the hidden chunks %v with %d", q, got.Bound, len(got.Hits), want.Bound, len(want.Hits))
	}
	for i, h := range want.Hits {
		if h.Chunk = p.visible[h.Chunk]; got.Hits[i] != h {
			t.Fatalf("%+v: hit %d is %+v, without the hidden chunks %+v", q, i, got.Hits[i], h)
		}
	}
	if !slices.Equal(gotScores, wantScores) {
		t.Fatalf("%+v: scores %v, without the hidden chunks %v", q, gotScores, wantScores)
	}
}

// shape of random corpora: most are small, some fill blocks, a few fill windows.
type shape struct{ corpora, chunks, words, sets, queries int }

// TestHundredThousandCasesLeaveNoTrace draws corpora, allow sets, queries and parameters.
func TestHundredThousandCasesLeaveNoTrace(t *testing.T) {
	const least, workers = 100_000, 4
	var cases atomic.Int64
	t.Run("corpora", func(t *testing.T) {
		for worker := range workers {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(11, uint64(worker)))
				for _, s := range []shape{{300, 30, 8, 4, 20}, {7, 900, 6, 4, 40}, {1, 3 * window, 4, 3, 60}} {
					for range s.corpora {
						cases.Add(s.check(t, rng))
					}
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	verdict := "ok"
	if cases.Load() < least {
		verdict = "short"
		t.Errorf("%d cases, %d are asked for", cases.Load(), least)
	}
	t.Logf("bar leak-bm25-cases %d >=%d %s", cases.Load(), least, verdict)
}

// check compares questions about one corpus of that shape and returns how many.
func (s shape) check(t *testing.T, rng *rand.Rand) (cases int64) {
	texts := randomTerms(rng, 1+rng.IntN(s.chunks), s.words)
	full := open(t, texts)
	for range s.sets {
		share := []float64{0, 0.01, 0.1, 0.5, 0.9, 1}[rng.IntN(6)]
		p := newPair(t, full, texts, func(int) bool { return rng.Float64() < share })
		for range s.queries {
			p.check(t, randomQuery(rng))
			cases++
		}
	}
	return cases
}

var fewWords = strings.Fields("w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 wa wb wc wd we wf")

func randomTerms(rng *rand.Rand, chunks, words int) [][]string {
	zipf := rand.NewZipf(rng, 1.3, 1, uint64(len(fewWords)-2))
	texts := make([][]string, chunks)
	for i := range texts {
		for range rng.IntN(words + 1) {
			texts[i] = append(texts[i], fewWords[zipf.Uint64()])
		}
	}
	return texts
}

// randomQuery draws words twice or never indexed as well.
func randomQuery(rng *rand.Rand) Query {
	words := make([]string, rng.IntN(6))
	for i := range words {
		words[i] = fewWords[rng.IntN(len(fewWords))]
	}
	q := Query{Text: strings.Join(words, " "), K: 1 + rng.IntN(12), K1: 0.9, B: 0.4}
	if rng.IntN(4) == 0 {
		q.K1, q.B = 3*rng.Float64(), rng.Float64()
	}
	return q
}

// FuzzHiddenChunks reads a corpus from bytes: the low half is a word, the high half says whether a chunk begins, and
// whether it is hidden.
func FuzzHiddenChunks(f *testing.F) {
	f.Add([]byte{0x10, 0x01, 0x32, 0x02, 0x11}, []byte{0x00, 0x01}, uint8(3), uint16(900), uint16(400))
	f.Add([]byte{0x30, 0x30, 0x30, 0x11}, []byte{0x00, 0x0f, 0x00}, uint8(1), uint16(0), uint16(1000))
	f.Fuzz(func(t *testing.T, corpus, query []byte, k uint8, k1, b uint16) {
		if len(corpus) > 1<<14 || len(query) > 64 {
			return
		}
		var texts [][]string
		var visible []bool
		for _, c := range corpus {
			if c&0x10 != 0 || len(texts) == 0 {
				texts, visible = append(texts, nil), append(visible, c&0x20 == 0)
			}
			texts[len(texts)-1] = append(texts[len(texts)-1], fewWords[c&0xf])
		}
		var words []string
		for _, w := range query {
			words = append(words, fewWords[w&0xf])
		}
		p := newPair(t, open(t, texts), texts, func(i int) bool { return visible[i] })
		p.check(t, Query{Text: strings.Join(words, " "), K: int(k), K1: float64(k1) / 1000, B: float64(b) / 1000})
	})
}

// TestUnusualQueries: each has an answer.
func TestUnusualQueries(t *testing.T) {
	texts := make([]string, 300)
	for i := range texts {
		texts[i] = strings.Repeat(fewWords[i%16]+" ", 1+i%7) + "the parental leave 🙂"
	}
	s := build(t, texts)
	long := make([]string, 10_000)
	for i := range long {
		long[i] = "absent" + strings.Repeat("x", i%200) + fewWords[i%16]
	}
	copy(long[5000:], fewWords)
	for name, tt := range map[string]struct {
		text  string
		hits  int
		bound bool // above 0
	}{
		"empty":             {"", 0, false},
		"blank":             {" \t\n\u00a0", 0, false},
		"stop words only":   {"the of and to", 0, false},
		"emoji only":        {"🙂 👨‍👩‍👧 ❤️", 0, false},
		"punctuation only":  {"-- ++ \"' ()", 0, false},
		"control and bad":   {"\x00\xff\xfe", 0, false},
		"a word nobody has": {"zebra", 0, true},
		"query syntax":      {"+leave -w1 text:w2 w3* ~ ^2", 10, true},
		"10,000 words":      {strings.Join(long, " "), 10, true},
		"one word, often":   {strings.Repeat("leave ", 10_000), 10, true},
		"1 MB without ends": {strings.Repeat("x", 1<<20), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := s.Search(Query{Text: tt.text, Allow: every(len(texts)), K: 10, K1: 0.9, B: 0.4})
			if err != nil || len(r.Hits) != tt.hits || (r.Bound > 0) != tt.bound {
				t.Errorf("%d hits, bound %v, %v; want %d hits", len(r.Hits), r.Bound, err, tt.hits)
			}
		})
	}
}
