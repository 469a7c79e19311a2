package search

import (
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"quarry.dev/quarry/internal/embed"
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
