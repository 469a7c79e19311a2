package bm25

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

const (
	// window is how many chunk numbers are looked at together: their sums stay in the second-level cache.
	window = 1 << 15
	// firstWindow is the first one's size; each of the next is as large as all before, so that little is read in full
	// before there are k to pass.
	firstWindow = 1 << 10
)

// span is the chunk numbers of a window, both included.
type span struct{ first, last uint32 }

// windows of a segment, with their numbers.
func windows(chunks uint32) iter.Seq2[int, span] {
	return func(yield func(int, span) bool) {
		number := 0
		for base := uint64(0); base < uint64(chunks); number++ {
			next := min(base+min(window, max(firstWindow, base)), uint64(chunks))
			if !yield(number, span{uint32(base), uint32(next - 1)}) {
				return
			}
			base = next
		}
	}
}

// scan is the memory of one search. Between windows all sums are 0.
type scan struct {
	top  top
	view *view
	// terms by falling bound within the window
	terms []*term
	// the window, and the score that its chunks must pass
	first, last uint32
	least       int64

	sums  [window]int64
	found [window + blockSize]uint16 // chunks of the window with a sum, from its first chunk, in no order
	n     int                        // of them

	picked [blockSize]uint8 // positions in a block
	gain   [blockSize]int64 // of postings of a block
}

// collect offers every visible chunk that may be among the best. It is MaxScore (Turtle and Flood 1995) with bounds per
// block (Ding and Suel 2011) over windows of chunk numbers: within a window, the terms whose bounds add up to no more than
// the worst of the best are only looked up for chunks that the other terms have found.
func (s *scan) collect(chunks uint32) error {
	for number, w := range windows(chunks) {
		s.first, s.last = w.first, w.last
		if !s.view.any(s.first, s.last) {
			continue
		}
		s.least = s.top.least()
		essential, total := s.split(number)
		if essential == 0 {
			continue
		}
		if err := s.find(essential, total); err != nil {
			return err
		}
		if err := s.complete(s.terms[essential:]); err != nil {
			return err
		}
		s.offer()
	}
	return nil
}

// split bounds every term within the window and orders them by falling bound. The first of them must be read; those behind
// cannot lift a chunk above least on their own. total is the sum of all bounds.
func (s *scan) split(window int) (essential int, total int64) {
	for _, t := range s.terms {
		t.boundWindow(window, s.first, s.last)
		total += t.inWindow
	}
	slices.SortStableFunc(s.terms, func(a, b *term) int { return cmp.Compare(b.inWindow, a.inWindow) })
	essential = len(s.terms)
	for rest := int64(0); essential > 0; essential-- {
		if rest += s.terms[essential-1].inWindow; rest > s.least {
			break
		}
	}
	return essential, total
}

// find reads the essential terms. A chunk that no term before has found is worth remembering only if those behind can still
// lift it above least.
func (s *scan) find(essential int, total int64) error {
	behind := total
	for _, t := range s.terms[:essential] {
		behind -= t.inWindow
		for block := t.ahead; t.reaches(block, s.last); block++ {
			if err := t.load(block); err != nil {
				return err
			}
			from, to := t.within(s.first, s.last)
			if s.add(t, from, to, s.least-behind); s.n > window {
				return kind.Corrupt("the blocks of a term overlap")
			}
		}
	}
	return nil
}

// add postings from to to of the block to the sums; one that gains no more than short is not remembered on its own.
func (s *scan) add(t *term, from, to int, short int64) {
	t.gains(&s.gain, from, to)
	n, first, bits := s.n, s.first, t.bits // the stores below could change them, for all that the compiler knows
	for i, chunk := range t.chunks[from:to] {
		if bits != nil && bits[chunk/64]>>(chunk%64)&1 == 0 {
			continue
		}
		gain := s.gain[i%blockSize]
		at := (chunk - first) % window
		sum := s.sums[at]
		if sum == 0 && gain <= short {
			continue
		}
		s.found[n] = uint16(at)
		if sum == 0 {
			n++
		}
		s.sums[at] = sum + gain
	}
	s.n = n
}

// complete the sums of what was found, as long as a chunk can still pass.
func (s *scan) complete(others []*term) error {
	left := int64(0)
	for _, t := range others {
		left += t.inWindow
	}
	for i, t := range others {
		if i > 0 { // when they were found they could pass
			s.drop(s.least - left)
		}
		if s.n == 0 || t.inWindow == 0 {
			return nil
		}
		var err error
		if s.n > t.postingsWithin(s.last)/lookUpWorth {
			err = s.merge(t)
		} else {
			err = s.lookUp(t, left)
		}
		if err != nil {
			return err
		}
		left -= t.inWindow
	}
	return nil
}

// lookUpWorth is how many postings are merged in the time that one takes to be looked up.
const lookUpWorth = 40

// drop what has no more than short.
func (s *scan) drop(short int64) {
	if short <= 0 {
		return
	}
	n := 0
	for _, at := range s.found[:s.n] {
		sum := s.sums[at%window]
		stays := uint64(short-sum) >> 63 // sum > short
		s.found[n] = at
		n += int(stays)
		s.sums[at%window] = sum & -int64(stays)
	}
	s.n = n
}

// merge goes through the postings of the window, and adds those of chunks that were found.
func (s *scan) merge(t *term) error {
	for block := t.ahead; t.reaches(block, s.last); block++ {
		if err := t.load(block); err != nil {
			return err
		}
		from, to := t.within(s.first, s.last)
		k, first := uint(0), s.first
		for i, chunk := range t.chunks[from:to] {
			s.picked[k%blockSize] = uint8(from + i)
			k += uint(-s.sums[(chunk-first)%window]) >> 63 // a sum above 0
		}
		tfs := t.tfsOf(s.picked[:k])
		for _, i := range s.picked[:k] {
			i %= blockSize
			chunk := t.chunks[i]
			s.sums[(chunk-s.first)%window] += t.gain(tfs[i], t.segment.length(chunk))
		}
	}
	return nil
}

// lookUp adds what the term gives to each chunk that was found, unless the bound of its block tells that it cannot pass.
// left is what this term and those behind it can give in the window.
func (s *scan) lookUp(t *term, left int64) error {
	found := s.found[:s.n]
	slices.Sort(found) // so that no block is loaded twice
	block := t.ahead
	for _, at := range found {
		chunk := s.first + uint32(at)
		block = t.seek(block, chunk)
		if block == t.blocks {
			return nil
		}
		if sum := s.sums[at%window]; sum+left-t.inWindow+t.blockBound(block) <= s.least {
			continue // it is dropped with the next term, or when it is offered
		}
		gain, err := t.at(block, chunk)
		if err != nil {
			return err
		}
		s.sums[at%window] += gain
	}
	return nil
}

// offer what was found to the best, and leave the window empty.
func (s *scan) offer() {
	for _, at := range s.found[:s.n] {
		s.top.offer(s.sums[at%window], s.first+uint32(at))
		s.sums[at%window] = 0
	}
	s.n = 0
}

// boundWindow moves to the first block that reaches into the window, and finds the highest bound of those that do.
func (t *term) boundWindow(window int, first, last uint32) {
	t.inWindow = 0
	for t.ahead < t.blocks && t.last(t.ahead) < first {
		t.ahead++
	}
	if t.shares != nil {
		if share := t.shares[window]; share > 0 {
			t.inWindow = t.worth(share)
		}
		return
	}
	for block := t.ahead; t.reaches(block, last); block++ {
		t.inWindow = max(t.inWindow, t.blockBound(block))
	}
}

// postingsWithin is how many postings the blocks of the window hold, at most.
func (t *term) postingsWithin(last uint32) int {
	block := t.ahead
	for t.reaches(block, last) {
		block++
	}
	return (block - t.ahead) * blockSize
}

// blockBound is what no chunk of the block gains more than.
func (t *term) blockBound(block int) int64 {
	if t.boundOf != block {
		t.boundOf, t.bound = block, t.worth(t.saturation.ofBlock(t.heads[block*headSize:]))
	}
	return t.bound
}

// worth is what a share of the weight comes to.
func (t *term) worth(share float64) int64 { return max(1, toFixed(t.weight*share)) }

// ofBlock is the highest share that the impacts in the head of a block allow.
func (s *saturation) ofBlock(head []byte) (best float64) {
	head = head[:headSize]
	for i := range impacts {
		share := 1.0
		if tf := head[impactTFs+i]; tf != anyTF {
			share = s.of(uint32(tf), uint32(binary.LittleEndian.Uint16(head[impactLengths+2*i:])))
		}
		best = max(best, share)
	}
	return best
}

// within is the range of the loaded block's postings from chunk first to last.
func (t *term) within(first, last uint32) (from, to int) {
	from, to = 0, t.n
	if t.chunks[0] < first {
		from = t.before(first)
	}
	if t.head.last > last {
		to = t.before(last + 1)
	}
	return from, max(from, to)
}

// gains computes what postings from to to of the loaded block gain.
func (t *term) gains(out *[blockSize]int64, from, to int) {
	t.unpackTFs()
	chunks, tfs := t.chunks[from:to], t.tfs[from:to]
	segment, saturation, weight := t.segment, t.saturation, t.weight
	if loops.Gains(out, chunks, tfs, segment.short, weight, saturation.base, saturation.slope) {
		return
	}
	for i, chunk := range chunks {
		out[i%blockSize] = max(1, toFixed(weight*saturation.of(tfs[i], segment.length(chunk))))
	}
}
