package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/hnsw"
	"quarry.dev/quarry/internal/segment"
)

// pseudoword of a rank, of letters like those of a language.
func pseudoword(rank int) string {
	var b strings.Builder
	for n := rank + 400; n > 0; n /= 20 {
		b.WriteString([]string{"ba", "te", "ri", "lo", "nu", "sha", "ke", "mi", "vo", "pur", "an", "el", "gri", "do", "ha", "sto", "wen", "cal", "i", "far"}[n%20])
	}
	return b.String()
}

// zipf draws ranks of 200,000 words by a law of exponent 1 without the stop words.
func zipf(rng *rand.Rand) int {
	return int(25*math.Exp(rng.Float64()*math.Log(200_025.0/25)) - 25)
}

// geometric are the sizes of eight segments that compaction would keep, of that many chunks together.
func geometric(chunks int) (sizes []int) {
	for range 8 {
		sizes = append(sizes, chunks/2)
		chunks -= chunks / 2
	}
	return sizes
}

func numbersOf(b *testing.B, sizes []int) *segment.Numbers {
	var tables []*access.Table
	next := 0
	for _, size := range sizes {
		docs := make([]access.Doc, size)
		for i := range docs {
			docs[i] = access.Doc{Key: fmt.Sprintf("%07d", next), FirstChunk: uint32(i), Chunks: 1}
			next++
		}
		table, err := access.NewTable(docs)
		if err != nil {
			b.Fatal(err)
		}
		tables = append(tables, table)
	}
	_, numbers, err := segment.Merge(tables, make([]*roaring.Bitmap, len(tables)))
	if err != nil {
		b.Fatal(err)
	}
	return numbers
}

func shareOf(chunks uint32, share float64) *roaring.Bitmap {
	rng, set := rand.New(rand.NewPCG(5, 5)), roaring.New()
	for i := range chunks {
		if rng.Float64() < share {
			set.Add(i)
		}
	}
	return set
}

// ask reports the mean over all questions of the fastest of their tries, which is what an idle machine would take, and the
// CPU time of a question, which bounds what a busy one answers.
func ask(b *testing.B, name string, r Ranker, questions []string, allow *roaring.Bitmap) {
	b.Run(name, func(b *testing.B) {
		fastest := make([]time.Duration, len(questions))
		before, asked := cpuTime(b), 0
		for range b.N {
			for i, q := range questions {
				start := time.Now()
				if _, err := r.Search(q, allow, 100); err != nil {
					b.Fatal(err)
				}
				if took := time.Since(start); fastest[i] == 0 || took < fastest[i] {
					fastest[i] = took
				}
				asked++
			}
		}
		var sum time.Duration
		for _, f := range fastest {
			sum += f
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(sum.Microseconds())/float64(len(questions)), "fastest-us/question")
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(asked), "cpu-us/question")
	})
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkLexicalSegments: 200,000 chunks of 60 words in one segment and in eight, questions of 8 words.
func BenchmarkLexicalSegments(b *testing.B) {
	analyzer, err := bm25.NewAnalyzer("english")
	if err != nil {
		b.Fatal(err)
	}
	const chunks = 200_000
	for _, sizes := range [][]int{{chunks}, geometric(chunks)} {
		rng := rand.New(rand.NewPCG(1, 1))
		var segments []*bm25.Segment
		for _, size := range sizes {
			builder := bm25.NewBuilder(analyzer)
			for range size {
				terms := make([]string, 60)
				for i := range terms {
					terms[i] = analyzer.Terms(pseudoword(zipf(rng)))[0]
				}
				builder.AddTerms(terms)
			}
			s, err := bm25.Open(builder.Bytes())
			if err != nil {
				b.Fatal(err)
			}
			segments = append(segments, s)
		}
		ranker, err := NewLexical(numbersOf(b, sizes), segments, v1alpha1.BM25Spec{})
		if err != nil {
			b.Fatal(err)
		}
		questions := make([]string, 50)
		for i := range questions {
			words := make([]string, 8)
			for j := range words {
				words[j] = pseudoword(zipf(rng))
			}
			questions[i] = strings.Join(words, " ")
		}
		numbers := ranker.(lexical).numbers
		ask(b, fmt.Sprintf("segments=%d/allowed=1", len(sizes)), ranker, questions, shareOf(numbers.Len(), 2))
		ask(b, fmt.Sprintf("segments=%d/allowed=0.1", len(sizes)), ranker, questions, shareOf(numbers.Len(), 0.1))
	}
}

// clustered encodes a text as its cluster and some noise.
type clustered struct{ embed.Encoder }

func (clustered) Digest() string  { return "clustered" }
func (clustered) Dimensions() int { return 384 }
func (clustered) Encode(texts []string) (out [][]float32) {
	for _, text := range texts {
		n := 0
		fmt.Sscan(text, &n)
		cluster, noise, v := rand.New(rand.NewPCG(uint64(n%300), 1)), rand.New(rand.NewPCG(uint64(n), 2)), make([]float32, 384)
		for i := range v {
			v[i] = float32(cluster.NormFloat64() + 0.5*noise.NormFloat64())
		}
		out = append(out, v)
	}
	return out
}

// BenchmarkDenseSegments: 50,000 vectors in one segment and in eight.
func BenchmarkDenseSegments(b *testing.B) {
	const chunks = 50_000
	for _, sizes := range [][]int{{chunks}, geometric(chunks)} {
		var segments []*hnsw.Index
		next := 0
		for _, size := range sizes {
			texts := make([]string, size)
			for i := range texts {
				texts[i] = fmt.Sprint(next)
				next++
			}
			vectors, graph, err := hnsw.Build(clustered{}.Encode(texts), hnsw.Params{M: 16, EfConstruction: 64})
			if err != nil {
				b.Fatal(err)
			}
			s, err := hnsw.Open(vectors, graph)
			if err != nil {
				b.Fatal(err)
			}
			segments = append(segments, s)
		}
		numbers := numbersOf(b, sizes)
		ranker, err := NewDense(numbers, segments, clustered{}, "clustered")
		if err != nil {
			b.Fatal(err)
		}
		var questions []string
		for i := range 50 {
			questions = append(questions, fmt.Sprint(1_000_000+i))
		}
		ask(b, fmt.Sprintf("segments=%d/allowed=1", len(sizes)), ranker, questions, shareOf(numbers.Len(), 2))
		ask(b, fmt.Sprintf("segments=%d/allowed=0.1", len(sizes)), ranker, questions, shareOf(numbers.Len(), 0.1))
	}
}
