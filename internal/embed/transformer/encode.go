package transformer

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Encode calls done with the states of each sequence, [tokens][Hidden], valid during the call: several may be on at once. A
// sequence has 1 to MaxTokens ids below Vocabulary.
//
// Threads take batches of their own; where there are too few for that, they share each batch's rows and heads.
func (m *Model) Encode(ids [][]int32, done func(i int, states []float32)) {
	batches := m.plan(ids)
	apart := len(batches) - len(batches)%cap(m.threads)
	m.encodeApart(ids, batches[:apart], done)
	for _, b := range batches[apart:] {
		rows := 0
		for _, i := range b {
			rows += len(ids[i])
		}
		c := m.hire(max(1, rows/m.kernels.IntRows/2))
		m.encode(c, ids, b, done)
		m.dismiss(c)
	}
}

// plan groups sequences of like length, the longest first.
func (m *Model) plan(ids [][]int32) (batches [][]int) {
	order, total := make([]int, len(ids)), 0
	for i := range order {
		order[i] = i
		total += len(ids[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(ids[b]) - len(ids[a]) })
	limit := min(max(total/cap(m.threads)/2, blockRows), batchRows)
	for len(order) > 0 {
		n, rows := 0, 0
		for n < len(order) && (n == 0 || rows+len(ids[order[n]]) <= limit) {
			rows += len(ids[order[n]])
			n++
		}
		batches, order = append(batches, order[:n]), order[n:]
	}
	return batches
}

// encodeApart encodes a batch per thread at a time. A thread is asked for each batch anew, so that a caller with a single
// question waits for a batch, not for all of them.
func (m *Model) encodeApart(ids [][]int32, batches [][]int, done func(i int, states []float32)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(batches); i = int(next.Add(1)) - 1 {
			c := m.hire(1)
			m.encode(c, ids, batches[i], done)
			m.dismiss(c)
		}
	}
	var wg sync.WaitGroup
	for range min(len(batches), cap(m.threads)) {
		wg.Go(work)
	}
	wg.Wait()
}

func (m *Model) encode(c crew, ids [][]int32, order []int, done func(i int, states []float32)) {
	sequences := make([][]int32, len(order))
	for k, i := range order {
		sequences[k] = ids[i]
	}
	m.forward(c, sequences)
	states := c[0].states
	for _, i := range order {
		n := len(ids[i]) * Hidden
		done(i, states[:n:n])
		states = states[n:]
	}
}

// Mean writes the mean of states, of length 1, to out [Hidden].
func Mean(out, states []float32) {
	clear(out)
	for ; len(states) > 0; states = states[Hidden:] {
		for i, f := range states[:Hidden] {
			out[i] += f
		}
	}
	Normalize(out)
}

// Normalize makes v's length 1.
func Normalize(v []float32) {
	var square float64
	for _, f := range v {
		square += float64(float64(f) * float64(f))
	}
	n := float32(1 / math.Sqrt(square))
	for i := range v {
		v[i] *= n
	}
}
