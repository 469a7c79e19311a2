package bm25

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// window is how many chunk numbers are looked at together: their sums stay in the first-level cache.
const window = 4096

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
	gain   [blockSize]int64 // of each of them
}

// positions in a block, all of them.
var positions = func() (all [blockSize]uint8) {
	for i := range all {
		all[i] = uint8(i)
	}
	return all
}()

// collect offers every visible chunk that may be among the best. It is MaxScore (Turtle and Flood 1995) with bounds per
// block (Ding and Suel 2011) over windows of chunk numbers: within a window, the terms whose bounds add up to no more than
// the worst of the best are only looked up for chunks that the other terms have found.
func (s *scan) collect(chunks uint32) error {
	for base := uint64(0); base < uint64(chunks); base += window {
		s.first, s.last = uint32(base), uint32(min(base+window, uint64(chunks)))-1
		if !s.view.any(s.first, s.last) {
			continue
		}
		s.least = s.top.least()
		essential, total := s.split()
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
func (s *scan) split() (essential int, total int64) {
	for _, t := range s.terms {
		t.boundWindow(s.first, s.last)
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

// find reads the essential terms, but for the blocks whose chunks gain too little even if all other terms gave their most.
// A chunk that no term before has found is worth remembering only if those behind can still lift it above least.
func (s *scan) find(essential int, total int64) error {
	behind := total
	for _, t := range s.terms[:essential] {
		behind -= t.inWindow
		short := s.least - (total - t.inWindow)
		for block := t.ahead; t.reaches(block, s.last); block++ {
			if t.blockBound(block) <= short {
				continue
			}
			picked, err := s.pick(t, block)
			if err != nil {
				return err
			}
			if s.add(t, picked, s.least-behind); s.n > window {
				return kind.Corrupt("the blocks of a term overlap")
			}
		}
	}
	return nil
}

// pick loads a block and returns the positions of visible chunks of the window in it; s.gain holds what they gain.
func (s *scan) pick(t *term, block int) ([]uint8, error) {
	if err := t.load(block); err != nil {
		return nil, err
	}
	from, to := t.within(s.first, s.last)
	if s.view.bits == nil {
		return t.gains(&s.gain, positions[from:to]), nil
	}
	k, visible := uint64(0), s.view.bits
	for i, chunk := range t.chunks[from:to] {
		s.picked[k%blockSize] = uint8(from + i)
		k += visible[chunk/64] >> (chunk % 64) & 1
	}
	return t.gains(&s.gain, s.picked[:k]), nil
}

// add the picked postings to the sums; one that gains no more than short is not remembered on its own.
func (s *scan) add(t *term, picked []uint8, short int64) {
	n := s.n
	for i, gain := range s.gain[:len(picked)] {
		at := (t.chunks[picked[i]%blockSize] - s.first) % window
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
	for _, t := range others {
		if s.drop(s.least - left); s.n == 0 || t.inWindow == 0 {
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
const lookUpWorth = 20

// drop what has no more than short.
func (s *scan) drop(short int64) {
	if short <= 0 {
		return
	}
	n := 0
	for _, at := range s.found[:s.n] {
		sum := s.sums[at%window]
		s.found[n] = at
		if sum <= short {
			sum = 0
		}
		if sum != 0 {
			n++
		}
		s.sums[at%window] = sum
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
		k := uint(0)
		for i, chunk := range t.chunks[from:to] {
			s.picked[k%blockSize] = uint8(from + i)
			if s.sums[(chunk-s.first)%window] != 0 {
				k++
			}
		}
		picked := t.gains(&s.gain, s.picked[:k])
		for i, gain := range s.gain[:len(picked)] {
			s.sums[(t.chunks[picked[i]%blockSize]-s.first)%window] += gain
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

// reaches says whether a block holds postings up to last.
func (t *term) reaches(block int, last uint32) bool {
	return block < t.blocks && (block == 0 || t.last(block-1) < last)
}

// boundWindow moves to the first block that reaches into the window, and finds the highest bound of those that do.
func (t *term) boundWindow(first, last uint32) {
	t.inWindow = 0
	for t.ahead < t.blocks && t.last(t.ahead) < first {
		t.ahead++
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
	if t.boundOf == block {
		return t.bound
	}
	head := t.heads[block*headSize : (block+1)*headSize]
	best := 0.0
	for i := range impacts {
		share := 1.0
		if tf := head[impactTFs+i]; tf != anyTF {
			share = t.saturation.of(uint32(tf), uint32(binary.LittleEndian.Uint16(head[impactLengths+2*i:])))
		}
		if share > best {
			best = share
		}
	}
	t.boundOf, t.bound = block, max(1, toFixed(t.weight*best))
	return t.bound
}

// within is the range of the loaded block's postings from chunk first to last.
func (t *term) within(first, last uint32) (from, to int) {
	from, to = 0, t.n
	if t.chunks[0] < first {
		from, _ = slices.BinarySearch(t.chunks[:t.n], first)
	}
	if t.head.last > last {
		to, _ = slices.BinarySearch(t.chunks[:t.n], last+1)
	}
	return from, max(from, to)
}

// gains computes what the picked postings of the loaded block gain, and returns them.
func (t *term) gains(out *[blockSize]int64, picked []uint8) []uint8 {
	tfs, chunks := t.tfsOf(picked), &t.chunks
	lengths, saturation, weight := t.segment.lengths, t.saturation, t.weight
	for j, i := range picked {
		i %= blockSize
		share := saturation.of(tfs[i], u32(lengths, chunks[i]))
		out[uint(j)%blockSize] = max(1, toFixed(weight*share))
	}
	return picked
}
