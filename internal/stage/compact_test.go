package stage

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestCompact(t *testing.T) {
	living := func(n ...uint64) (sizes []Size) {
		for _, l := range n {
			sizes = append(sizes, Size{Living: l})
		}
		return sizes
	}
	for _, c := range []struct {
		name     string
		segments []Size
		added    uint64
		goes     []int
	}{
		{"no segment", nil, 5, nil},
		{"nothing changed", living(1000), 0, nil},
		{"a small change", living(1000), 1, nil},
		{"a change of half is not small", living(1000), 500, []int{0}},
		{"a change of less than half is", living(1001), 500, nil},
		{"equal sizes are merged", living(1000, 1), 1, []int{1}},
		{"and what that comes to decides on", living(1000, 4, 1), 1, []int{1, 2}},
		{"a larger tier stays", living(1000, 5, 1), 1, []int{2}},
		{"a segment within the tier goes wherever it stands", living(4, 1000), 2, []int{0}},
		{"deletions alone merge nothing", []Size{{Living: 70, Dead: 30}, {Living: 70, Dead: 30}}, 0, nil},
		{"more than 30 % dead", []Size{{Living: 69, Dead: 31}, {Living: 1000}}, 0, []int{0}},
		{"what lives of it is written", []Size{{Living: 69, Dead: 31}, {Living: 138}}, 0, []int{0, 1}},
		{"nothing lives", []Size{{Living: 1000}, {Dead: 3}}, 0, []int{1}},
		{"an empty segment", []Size{{Living: 1000}, {}}, 0, []int{1}},
		{"eight stay when nothing is written", living(9000, 3000, 1000, 400, 150, 60, 25, 10), 0, nil},
		{"the ninth is not added", living(9000, 3000, 1000, 400, 150, 60, 25, 10), 1, []int{7}},
		{"nine are too many", living(1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1000, 100, 10), 0, []int{7, 8}},
	} {
		var goes []int
		for i, g := range Compact(c.segments, c.added) {
			if g {
				goes = append(goes, i)
			}
		}
		if !slices.Equal(goes, c.goes) {
			t.Errorf("%s: %v go, not %v", c.name, goes, c.goes)
		}
	}
}

// TestCompactKeepsAnIndexSmall plays many small edits: never more than eight segments, and every chunk is written again a
// number of times that grows as the logarithm.
func TestCompactKeepsAnIndexSmall(t *testing.T) {
	for _, step := range []uint64{1, 7, 100} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			segments, total, written := []Size{{Living: 100_000}}, uint64(100_000), uint64(0)
			for range 3000 {
				next := Size{Living: step}
				var kept []Size
				for i, goes := range Compact(segments, step) {
					if goes {
						next.Living += segments[i].Living
					} else {
						kept = append(kept, segments[i])
					}
				}
				segments, total, written = append(kept, next), total+step, written+next.Living
				if len(segments) > maxSegments {
					t.Fatalf("%d segments: %v", len(segments), segments)
				}
			}
			sum := uint64(0)
			for _, s := range segments {
				sum += s.Living
			}
			if sum != total {
				t.Fatalf("%d chunks of %d", sum, total)
			}
			times := float64(written) / float64(3000*step)
			if limit := 4 * math.Log2(float64(total)); times > limit {
				t.Errorf("each added chunk was written %.1f times, more than %.1f", times, limit)
			}
			t.Logf("each added chunk was written %.1f times; %d segments", times, len(segments))
		})
	}
}
