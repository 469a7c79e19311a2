package rerank

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/testdata"
)

// benchPassages are abstracts of scifact, each a title and some 200 words, of which MiniLM reads 256 tokens.
func benchPassages(b *testing.B, n int) []string {
	b.Helper()
	file, err := os.Open(testdata.Shared(b, "data/scifact/corpus.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	var out []string
	for lines := bufio.NewScanner(file); len(out) < n && lines.Scan(); {
		var d struct{ Title, Text string }
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			b.Fatal(err)
		}
		out = append(out, d.Title+"\n\n"+d.Text)
	}
	return out
}

// BenchmarkScore is the cost of reranking one answer: nothing of its passages kept, or everything.
func BenchmarkScore(b *testing.B) {
	const query = "Does vitamin D supplementation lower the risk of acute respiratory infections?"
	all := benchPassages(b, MaxPassages)
	for _, c := range []struct {
		kind  v1alpha1.RerankType
		model string
	}{
		{v1alpha1.RerankBuiltin, embed.MiniLM}, {v1alpha1.RerankBuiltin, embed.Static256},
		{v1alpha1.RerankLateInteraction, embed.MiniLM}, {v1alpha1.RerankLateInteraction, embed.Static256},
	} {
		create := func() Scorer {
			s, err := New(v1alpha1.RerankSpec{Type: c.kind, Model: c.model}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			return s
		}
		for _, n := range []int{10, 20, 50, 100} {
			score := func(s Scorer) {
				if _, err := s.Score(b.Context(), query, all[:n]); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(fmt.Sprintf("%s/%s/candidates=%d/cold", c.kind, c.model, n), func(b *testing.B) {
				for b.Loop() {
					score(create())
				}
			})
			b.Run(fmt.Sprintf("%s/%s/candidates=%d/warm", c.kind, c.model, n), func(b *testing.B) {
				s := create()
				score(s)
				for b.Loop() {
					score(s)
				}
			})
		}
	}
}
