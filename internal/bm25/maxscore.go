package bm25

import (
	"cmp"
	"math/bits"
	"slices"
)

// window is how many chunk numbers are looked at together: their sums stay in the first-level cache.
const window = 2048

// collect offers every visible chunk that may be among the best. It is MaxScore (Turtle and Flood 1995) with bounds per
// block (Ding and Suel 2011) over windows of chunk numbers: within a window, the terms whose bounds add up to no more than
// the worst of the best are only looked up for chunks that the other terms have found.
func (p *plan) collect(top *top) error {
	var sums [window]int64
	var found [window / 64]uint64
	for base := uint64(0); base < uint64(p.segment.chunks); base += window {
		first := uint32(base)
		last := uint32(min(base+window, uint64(p.segment.chunks))) - 1
		essential, others, err := p.split(first, last, top.least())
		if err != nil {
			return err
		}
		if len(essential) == 0 || !p.view.any(first, last) {
			continue
		}
		total := int64(0)
		for _, t := range p.terms {
			total += t.inWindow
		}
		for _, t := range essential {
			if err := t.add(&sums, &found, p.view, first, last, top.least()-(total-t.inWindow)); err != nil {
				return err
			}
		}
		if err := p.offer(top, &sums, &found, others, first); err != nil {
			return err
		}
	}
	return nil
}

// split bounds every term within the window, and parts those that must be read from those that cannot lift a chunk above
// least on their own; these come with the highest bound first.
func (p *plan) split(first, last uint32, least int64) (essential, others []*term, err error) {
	for _, t := range p.terms {
		if err := t.boundWindow(first, last); err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(p.terms, func(a, b *term) int { return cmp.Compare(b.inWindow, a.inWindow) })
	rest, n := int64(0), len(p.terms)
	for n > 0 && rest+p.terms[n-1].inWindow <= least {
		n--
		rest += p.terms[n].inWindow
	}
	return p.terms[:n], p.terms[n:], nil
}

// boundWindow moves to the first block that reaches into the window, and finds the highest bound of those that do.
func (t *term) boundWindow(first, last uint32) error {
	t.inWindow = 0
	for t.ahead < t.blocks && t.last(t.ahead) < first {
		t.ahead++
	}
	for block := t.ahead; block < t.blocks; block++ {
		if block > 0 && t.last(block-1) >= last { // it starts behind the window
			break
		}
		t.inWindow = max(t.inWindow, t.blockBound(block))
	}
	return nil
}

// blockBound is what no chunk of the block gains more than.
func (t *term) blockBound(block int) int64 {
	if t.boundOf == block {
		return t.bound
	}
	h := readHead(t.heads[block*headSize:])
	t.boundOf, t.bound = block, 0
	for i := range impacts {
		if h.tf[i] == anyTF {
			t.bound = toFixed(t.weight)
			return t.bound
		}
		t.bound = max(t.bound, t.gain(uint32(h.tf[i]), uint32(h.length[i])))
	}
	return t.bound
}

// add reads the blocks in the window, but for those whose chunks gain too little even if all other terms gave their most:
// no more than short.
func (t *term) add(sums *[window]int64, found *[window / 64]uint64, v *view, first, last uint32, short int64) error {
	for block := t.ahead; block < t.blocks; block++ {
		if block > 0 && t.last(block-1) >= last {
			break
		}
		if t.blockBound(block) <= short {
			continue
		}
		if err := t.load(block); err != nil {
			return err
		}
		chunks := t.chunks[:t.n]
		from := 0
		if chunks[0] < first {
			from, _ = slices.BinarySearch(chunks, first)
		}
		for i, chunk := range chunks[from:] {
			if chunk > last {
				break
			}
			if v.bits != nil && v.bits[chunk/64]>>(chunk%64)&1 == 0 {
				continue
			}
			at := chunk - first
			sums[at] += t.gain(t.tf(from+i), t.segment.length(chunk))
			found[at/64] |= 1 << (at % 64)
		}
	}
	return nil
}

// offer completes the sums of what was found, as long as a chunk can still pass, and leaves both arrays zero.
func (p *plan) offer(top *top, sums *[window]int64, found *[window / 64]uint64, others []*term, first uint32) error {
	rest := int64(0)
	for _, t := range others {
		rest += t.inWindow
	}
	for i, word := range found {
		for found[i] = 0; word != 0; word &= word - 1 {
			at := uint32(i*64 + bits.TrailingZeros64(word))
			sum, left := sums[at], rest
			sums[at] = 0
			for _, t := range others {
				if sum+left <= top.least() || t.inWindow == 0 {
					break
				}
				gain, err := t.at(first + at)
				if err != nil {
					return err
				}
				sum, left = sum+gain, left-t.inWindow
			}
			top.offer(sum, first+at)
		}
	}
	return nil
}

// top keeps the k best: a heap whose root is the worst of them. Chunks are offered in ascending order, so that one that
// equals the worst comes behind it.
type top struct {
	k    int
	heap []scored
}

type scored struct {
	score int64
	chunk uint32
}

func newTop(k int) *top { return &top{k: k} }

// least is the score that a chunk must pass.
func (t *top) least() int64 {
	if len(t.heap) < t.k {
		return 0
	}
	return t.heap[0].score
}

func (t *top) offer(score int64, chunk uint32) {
	if score <= t.least() {
		return
	}
	if len(t.heap) < t.k {
		t.heap = append(t.heap, scored{score, chunk})
		t.up()
		return
	}
	t.heap[0] = scored{score, chunk}
	t.down()
}

// hits by (score descending, chunk ascending).
func (t *top) hits() []Hit {
	slices.SortFunc(t.heap, compareScored)
	hits := make([]Hit, len(t.heap))
	for i, h := range t.heap {
		hits[i] = Hit{h.chunk, fromFixed(h.score)}
	}
	if len(hits) == 0 {
		return nil
	}
	return hits
}

// compareScored orders by score descending, then chunk ascending.
func compareScored(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
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
