package rerank

import (
	"math"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
)

// FuzzDecode: whatever a server writes, there is a finite score for each passage, or an error.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"results":[{"index":1,"relevance_score":0.2},{"index":0,"relevance_score":-7}]}`,
		`[{"index":0,"score":1},{"index":1,"score":2}]`, `[{"index":0,"score":null}]`, `{"results":{}}`, `[[[[`, `null`, "", `[{"index":1e3}]`,
	} {
		f.Add([]byte(seed), 2)
	}
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		n = n & 127
		for _, api := range []v1alpha1.RerankAPI{v1alpha1.RerankAPITEI, v1alpha1.RerankAPICohere} {
			scores, err := dialects[api].decode(data, n)
			if err != nil {
				continue
			}
			if len(scores) != n {
				t.Fatalf("%d scores for %d passages", len(scores), n)
			}
			for _, s := range scores {
				if math.IsNaN(s) || math.IsInf(s, 0) {
					t.Fatalf("a score is %v", s)
				}
			}
		}
	})
}
