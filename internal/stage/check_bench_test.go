package stage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/segment"
)

// BenchmarkCheck: what reading a new segment through costs beside writing it. 20,000 chunks of 60 words and 384 dimensions.
func BenchmarkCheck(b *testing.B) {
	const chunks, dimensions = 20000, 384
	rng := rand.New(rand.NewPCG(1, 2))
	words := rand.NewZipf(rng, 1.1, 3, 1<<17)
	texts, matrix, docs, passages := make([]string, chunks), make([][]float32, chunks), make([]access.Doc, chunks), make([]segment.Chunk, chunks)
	for i := range chunks {
		text, vector := make([]string, 60), make([]float32, dimensions)
		for j := range text {
			text[j] = fmt.Sprintf("word%d", words.Uint64())
		}
		for j := range vector {
			vector[j] = float32(rng.NormFloat64()) + float32((i%100)*(j+7)%13)
		}
		texts[i], matrix[i] = strings.Join(text, " "), vector
		docs[i] = access.Doc{Key: fmt.Sprintf("d%06d", i), FirstChunk: uint32(i), Chunks: 1}
		passages[i] = segment.Chunk{Document: docs[i].Key, Text: texts[i]}
	}
	analyzer, err := bm25.NewAnalyzer("english")
	if err != nil {
		b.Fatal(err)
	}
	var files map[string][]byte
	b.Run("encode", func(b *testing.B) {
		for range b.N {
			postings := bm25.NewBuilder(analyzer)
			for _, text := range texts {
				postings.Add(text)
			}
			if files, err = (Env{}).encode(postings, passages, matrix, docs); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for range b.N {
			if err := segment.Check(artifact.SegmentRef{Chunks: chunks}, files); err != nil {
				b.Fatal(err)
			}
		}
	})
}
