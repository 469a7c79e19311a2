package transformer

import (
	"sync"
	"sync/atomic"

	"quarry.dev/quarry/internal/embed/kernel"
)

const (
	// blockRows go through a layer together, so that their activations stay in the second level cache.
	blockRows = 96
	// batchRows is how many tokens are encoded together, unless one sequence is longer.
	batchRows = 288
)

// scratch is the memory of one thread. Buffers grow to what they are needed for and have spare rows.
type scratch struct {
	// of a batch
	states  []float32 // [rows][Hidden]
	context []float32 // [rows][Hidden], what attention makes
	qkv     []float32 // [18][rows][64], two heads in a panel: a head's rows lie close

	// of a block
	wide   []float32 // [blockRows][inner]
	narrow []float32 // [blockRows][Hidden]
	q      []uint8   // [blockRows][inner]
	scale  []float32 // [blockRows][2]

	// of a head
	keys   []float32 // [tokens/32][headDim][32]
	scores []float32 // [tile][tokens]
	tile   []float32 // [tile][headDim]
}

// grow makes v at least n long. What it held is lost.
func grow[T any](v *[]T, n int) {
	if len(*v) < n {
		*v = make([]T, n)
	}
}

func (s *scratch) growBatch(rows int) {
	rows += kernel.SpareRows
	grow(&s.states, rows*Hidden)
	grow(&s.context, rows*Hidden)
	grow(&s.qkv, rows*3*Hidden)
}

func (s *scratch) growBlock(rows int) {
	rows += kernel.SpareRows
	grow(&s.wide, rows*inner)
	grow(&s.narrow, rows*Hidden)
	grow(&s.q, rows*inner)
	grow(&s.scale, rows*2)
}

func (s *scratch) growHead(columns int) {
	grow(&s.keys, columns*headDim)
	grow(&s.scores, kernel.SpareRows*columns)
	grow(&s.tile, kernel.SpareRows*headDim)
}

// crew is threads that work on one batch, whose buffers are those of the first.
type crew []*scratch

// hire waits for one thread, and takes up to n in all if more are idle.
func (m *Model) hire(n int) crew {
	c := crew{<-m.threads}
	for len(c) < n {
		select {
		case s := <-m.threads:
			c = append(c, s)
		default:
			return c
		}
	}
	return c
}

func (m *Model) dismiss(c crew) {
	for _, s := range c {
		m.threads <- s
	}
}

// each runs the tasks 0 to n-1 and returns when all are done.
func (c crew) each(n int, task func(s *scratch, i int)) {
	var next atomic.Int64
	work := func(s *scratch) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			task(s, i)
		}
	}
	var wg sync.WaitGroup
	for _, s := range c[1:min(len(c), max(n, 1))] {
		wg.Go(func() { work(s) })
	}
	work(c[0])
	wg.Wait()
}
