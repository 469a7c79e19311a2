package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/segment"
)

type countingEncoder struct {
	embed.Encoder
	texts int
}

func (c *countingEncoder) Encode(texts []string) [][]float32 {
	c.texts += len(texts)
	return c.Encoder.Encode(texts)
}

// TestAQuestionIsEmbeddedOnceForThoseWhoSeeTheSame: and anew for others, whom the time would tell that it was asked.
func TestAQuestionIsEmbeddedOnceForThoseWhoSeeTheSame(t *testing.T) {
	static, err := embed.Builtin(embed.Static256)
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := lru.New[asked, []float32](keptVectors)
	if err != nil {
		t.Fatal(err)
	}
	encoder := &countingEncoder{Encoder: static}
	d := dense{encoder: encoder, vectors: vectors}
	ann, eve := roaring.BitmapOf(1, 2), roaring.BitmapOf(1, 2)
	for _, ask := range []struct {
		allow *roaring.Bitmap
		query string
		texts int
	}{{ann, "leave", 1}, {ann, "leave", 1}, {eve, "leave", 2}, {ann, "pay", 3}, {ann, "leave", 3}} {
		got := d.vector(ask.query, ask.allow)
		if want := static.Encode([]string{ask.query})[0]; !slices.Equal(got, want) || encoder.texts != ask.texts {
			t.Errorf("%q: %d texts embedded, want %d, or another vector", ask.query, encoder.texts, ask.texts)
		}
	}
}

// TestSegmentsOfOneAnalyzer: a question is analyzed once for all of them.
func TestSegmentsOfOneAnalyzer(t *testing.T) {
	var segments []*bm25.Segment
	var tables []*access.Table
	for i, name := range []string{"english", "german"} {
		builder := bm25.NewBuilder(must[bm25.Analyzer](t)(bm25.NewAnalyzer(name)))
		builder.Add("quarry")
		segments = append(segments, must[*bm25.Segment](t)(bm25.Open(builder.Bytes())))
		docs := []access.Doc{{Key: name, Chunks: 1}}
		tables = append(tables, must[*access.Table](t)(access.NewTable(docs)))
		_, numbers, err := segment.Merge(tables, make([]*roaring.Bitmap, i+1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = NewLexical(numbers, segments, v1alpha1.BM25Spec{})
		if i == 0 && err != nil {
			t.Fatal(err)
		}
		if i == 1 && (err == nil || !strings.Contains(err.Error(), `segments[1] was analyzed as "german", segments[0] as "english"`)) {
			t.Fatalf("got %v", err)
		}
	}
}
