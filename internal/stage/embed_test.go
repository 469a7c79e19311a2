package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/embed"
)

// counting counts the texts that it encodes; each has its number as vector.
type counting struct {
	embed.Encoder
	encoded int
	then    func()
}

func (c *counting) Encode(texts []string) [][]float32 {
	out := make([][]float32, len(texts))
	for i := range texts {
		out[i] = []float32{float32(c.encoded)}
		c.encoded++
	}
	c.then()
	return out
}

// A document of many chunks takes minutes: who stops it does not wait for its end.
func TestEncodeAllStops(t *testing.T) {
	texts := make([]string, 3*encodeBatch+1)
	for i := range texts {
		texts[i] = fmt.Sprint(i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := &counting{then: cancel}
	if _, err := encodeAll(ctx, stopped, texts, func(int) {}); !errors.Is(err, context.Canceled) || stopped.encoded > encodeBatch {
		t.Errorf("stopped in the first batch: %d texts were encoded, %v", stopped.encoded, err)
	}
	vectors, err := encodeAll(t.Context(), &counting{then: func() {}}, texts, func(int) {})
	if err != nil || len(vectors) != len(texts) {
		t.Fatalf("%d vectors of %d texts, %v", len(vectors), len(texts), err)
	}
	for i, v := range vectors {
		if v[0] != float32(i) {
			t.Errorf("text %d has vector %v", i, v)
		}
	}
}

// TestProgressWithinADocument: a document of many chunks is embedded in steps that are seen, and what is cached counts.
func TestProgressWithinADocument(t *testing.T) {
	b := newBench(t, 1)
	b.env.Config.Shards = 1
	b.put("long.md", strings.Repeat("The granite quarry opens early, and nobody knows why it does. ", 2000))
	var seen []int
	total := 0
	b.env.Progress = func(what string, done, of int) {
		if what == NameEmbed {
			seen, total = append(seen, done), of
		}
	}
	b.sync()
	_, embeds, _ := b.run()
	if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) < 4 || total != int(embeds.Chunks) || seen[len(seen)-1] != total {
		t.Errorf("%d chunks: %d of %d", embeds.Chunks, seen, total)
	}
	seen = nil
	b.put("new.md", "Marble.")
	b.sync()
	_, embeds, _ = b.run()
	if !slices.IsSorted(seen) || total != int(embeds.Chunks) || seen[0] == 0 || slices.Max(seen) != total {
		t.Errorf("most is cached: %d of %d", seen, total)
	}
}
