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

// TestProgressWithinADocument: a document of many chunks is embedded and built in steps that are seen, and what is cached
// counts.
func TestProgressWithinADocument(t *testing.T) {
	b := newBench(t, 1)
	b.env.Config.Shards = 1
	var long strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&long, "Quarry %d opens early, and nobody of its %d workers knows why. ", i, i*i)
	}
	b.put("long.md", long.String())
	seen, total := map[string][]int{}, map[string]int{}
	b.env.Progress = func(what string, done, of int) {
		seen[what], total[what] = append(seen[what], done), of
	}
	b.sync()
	_, embeds, _ := b.run()
	for _, what := range []string{NameEmbed, NameBuild} {
		got := slices.Compact(slices.Clone(seen[what]))
		if !slices.IsSorted(got) || len(got) < 4 || total[what] != int(embeds.Chunks) || got[len(got)-1] != total[what] {
			t.Errorf("%s of %d chunks: %d of %d", what, embeds.Chunks, got, total[what])
		}
	}
	clear(seen)
	b.put("new.md", "Marble.")
	b.sync()
	_, embeds, _ = b.run()
	if got := seen[NameEmbed]; !slices.IsSorted(got) || total[NameEmbed] != int(embeds.Chunks) || got[0] == 0 || slices.Max(got) != total[NameEmbed] {
		t.Errorf("most is cached: %d of %d", got, total[NameEmbed])
	}
}
