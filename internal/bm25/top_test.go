package bm25

import "testing"

// TestGreatScoresKeepTheirOrder: with extreme parameters sums have more bits than a float64 holds. What is told as equal is in
// the order of chunks all the same, kept or cut.
func TestGreatScoresKeepTheirOrder(t *testing.T) {
	const sum = 1 << 54
	for k, want := range map[int][]uint32{2: {3, 5}, 1: {3}} {
		best := top{k: k}
		best.offer(sum, 3)
		best.offer(sum+1, 5) // the same float64
		hits := best.hits()
		if len(hits) != len(want) {
			t.Fatalf("k %d: %d hits", k, len(hits))
		}
		for i, h := range hits {
			if h.Chunk != want[i] || h.Score != hits[0].Score {
				t.Errorf("k %d: hit %d is %+v, not chunk %d", k, i, h, want[i])
			}
		}
	}
}
