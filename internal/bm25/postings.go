package bm25

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"quarry.dev/quarry/internal/bm25/kernel"
)

// postings is where those of one term lie.
type postings struct {
	term      uint32
	frequency uint32
	blocks    int
	limit     uint32 // chunks of the segment
	heads     []byte // headSize per block
	data      []byte // with eight bytes more than the term's own
}

func (s *Segment) postingsOf(term uint32) (postings, error) {
	first, next := uint64(u32(s.firstBlocks, term)), uint64(u32(s.firstBlocks, term+1))
	start, end := u64(s.starts, term), u64(s.starts, term+1)
	l := postings{term: term, frequency: u32(s.frequencies, term), limit: s.chunks}
	switch {
	case first > next || next*headSize > uint64(len(s.heads)) || start > end || end > uint64(len(s.postings)-padding):
		return l, kind.Corrupt("the postings of term %d lie outside the file", term)
	case l.frequency == 0 || l.frequency > s.chunks || next-first != (uint64(l.frequency)+blockSize-1)/blockSize:
		return l, kind.Corrupt("term %d has %d postings in %d blocks", term, l.frequency, next-first)
	}
	l.blocks = int(next - first)
	l.heads, l.data = s.heads[first*headSize:next*headSize], s.postings[start:end+padding]
	return l, nil
}

func (l *postings) last(block int) uint32 {
	at := block * headSize
	return binary.LittleEndian.Uint32(l.heads[at : at+4 : at+4])
}

// reaches says whether there is such a block and it may hold postings up to last.
func (l *postings) reaches(block int, last uint32) bool {
	return block < l.blocks && (block == 0 || l.last(block-1) < last)
}

// size of a block.
func (l *postings) size(block int) int {
	return min(blockSize, int(l.frequency)-block*blockSize)
}

// cursor reads the postings of one term, a block at a time.
type cursor struct {
	postings
	head   head
	block  int // that is loaded; -1: none
	n      int // postings of it
	chunks [blockSize]uint32
	packed []byte // tfs
	tfs    [blockSize]uint32
	ready  bool // all tfs are unpacked
}

// loops are the fastest that this CPU runs.
var loops = kernel.Available()[0]

func newCursor(l postings) *cursor { return &cursor{postings: l, block: -1} }

// load unpacks the chunks of a block and checks that they ascend to where its head says.
func (c *cursor) load(block int) error {
	if c.block == block {
		return nil
	}
	c.block = -1
	h, n := readHead(c.heads[block*headSize:]), c.size(block)
	previous := uint32(math.MaxUint32)
	if block > 0 {
		previous = c.last(block - 1)
	}
	if h.chunkBits > 32 || h.tfBits > 32 || h.last >= c.limit {
		return fmt.Errorf("block %d: %w", block, kind.Corrupt("its head is out of range"))
	}
	tfs, end := h.bytes(n)
	if uint64(h.offset)+uint64(end)+padding > uint64(len(c.data)) {
		return fmt.Errorf("block %d: %w", block, kind.Corrupt("it ends outside its term"))
	}
	data := c.data[h.offset:]
	next := loops.Ascend(&c.chunks, data, h.chunkBits, n, uint64(previous+1))
	if next != uint64(h.last)+1 {
		return fmt.Errorf("block %d: %w", block, kind.Corrupt("it does not end where its head says"))
	}
	for i := n; i < blockSize; i++ {
		c.chunks[i] = math.MaxUint32 // for before
	}
	c.head, c.block, c.n, c.packed, c.ready = h, block, n, data[tfs:], false
	return nil
}

// before is how many postings of the loaded block come before a chunk that is not beyond its last. No branch depends on them,
// for none could be foreseen.
func (c *cursor) before(chunk uint32) (n int) {
	for step := uint(6); step < 7; step-- {
		less := (uint64(c.chunks[(n+1<<step-1)%blockSize]) - uint64(chunk)) >> 63
		n += int(less << step)
	}
	return n
}

// tf of posting i of the loaded block.
func (c *cursor) tf(i int) uint32 { return unpack(c.packed, i, c.head.tfBits) + 1 }

// tfsOf unpacks those of some postings of the loaded block, or all when that is as cheap.
func (c *cursor) tfsOf(picked []uint8) *[blockSize]uint32 {
	const few = blockSize / 8
	switch {
	case c.ready:
	case len(picked) < few:
		for _, i := range picked {
			c.tfs[i%blockSize] = c.tf(int(i))
		}
	default:
		c.unpackTFs()
	}
	return &c.tfs
}

func (c *cursor) unpackTFs() {
	if !c.ready {
		loops.Values(&c.tfs, c.packed, c.head.tfBits, c.n)
		c.ready = true
	}
}

// seek returns the first block from on whose last chunk is at least chunk, or blocks.
func (l *postings) seek(from int, chunk uint32) int {
	step := 1
	low := from
	for low+step < l.blocks && l.last(low+step) < chunk {
		low += step
		step *= 2
	}
	high := min(low+step, l.blocks)
	return low + sort.Search(high-low, func(i int) bool { return l.last(low+i) >= chunk })
}
