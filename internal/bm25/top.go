package bm25

import (
	"cmp"
	"math"
	"slices"
)

// top keeps the k best of those above the floor: a heap whose root is the worst of them.
type top struct {
	k     int
	floor int64
	heap  []scored
}

type scored struct {
	score int64
	chunk uint32
}

// compareScored orders by score descending, then chunk ascending.
func compareScored(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
}

// least is the score that a chunk behind all those offered must pass.
func (t *top) least() int64 {
	if len(t.heap) < t.k {
		return t.floor
	}
	return t.heap[0].score
}

// below is the greatest floor that keeps what scores as much, or no floor.
func below(score float64) int64 {
	if !(score > 0) {
		return 0
	}
	return int64(math.Nextafter(min(score, maxBound), 0) * fixed)
}

// offer a chunk that was not offered before. The order is that of the scores as they are told, in float64: those above 2^21,
// which only extreme parameters reach, have more bits than it holds.
func (t *top) offer(score int64, chunk uint32) {
	score = int64(float64(score))
	switch offered := (scored{score, chunk}); {
	case score <= t.floor:
	case len(t.heap) < t.k:
		t.heap = append(t.heap, offered)
		t.up()
	case score >= t.heap[0].score && compareScored(offered, t.heap[0]) < 0:
		t.heap[0] = offered
		t.down()
	}
}

// hits by (score descending, chunk ascending); the heap is empty afterwards.
func (t *top) hits() []Hit {
	if len(t.heap) == 0 {
		return nil
	}
	slices.SortFunc(t.heap, compareScored)
	hits := make([]Hit, len(t.heap))
	for i, h := range t.heap {
		hits[i] = Hit{h.chunk, fromFixed(h.score)}
	}
	t.heap = t.heap[:0]
	return hits
}

func (t *top) up() {
	for i := len(t.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if compareScored(t.heap[i], t.heap[parent]) <= 0 {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *top) down() {
	for i := 0; ; {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.heap); child++ {
			if compareScored(t.heap[child], t.heap[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t.heap[i], t.heap[worst] = t.heap[worst], t.heap[i]
		i = worst
	}
}
