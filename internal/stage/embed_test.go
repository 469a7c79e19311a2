package stage

import (
	"context"
	"errors"
	"fmt"
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
	if _, err := encodeAll(ctx, stopped, texts); !errors.Is(err, context.Canceled) || stopped.encoded > encodeBatch {
		t.Errorf("stopped in the first batch: %d texts were encoded, %v", stopped.encoded, err)
	}
	vectors, err := encodeAll(t.Context(), &counting{then: func() {}}, texts)
	if err != nil || len(vectors) != len(texts) {
		t.Fatalf("%d vectors of %d texts, %v", len(vectors), len(texts), err)
	}
	for i, v := range vectors {
		if v[0] != float32(i) {
			t.Errorf("text %d has vector %v", i, v)
		}
	}
}
