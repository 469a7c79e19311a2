package bm25

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"quarry.dev/quarry/internal/bm25/kernel"
)

const (
	// blockSize postings are packed together; the last block of a term may hold fewer.
	blockSize = kernel.Block
	// headSize is the size of a block head in bytes:
	//
	//	u32     last chunk of the block
	//	u32     where its bytes start among the postings of the term
	//	u8, u8  bits of a difference of chunk numbers, bits of a tf minus 1
	//	u16     zero
	//	4 x u8  tf of each impact (255: as many or more)
	//	4 x u16 length of each impact (65535: as many or more)
	//
	// The impacts bound the block: for every posting one of them has a tf as high and a length as low. The bytes of a
	// block are the differences to the chunk before minus 1 (of the first: to the last chunk of the block before, or to
	// -1), then the tfs minus 1, each a stream of its width from the lowest bit up, filled up to a byte.
	headSize      = 24
	impacts       = 4
	impactTFs     = 12
	impactLengths = 16
	// padding lets a reader load eight bytes where the last value starts.
	padding = 8

	anyTF     = math.MaxUint8
	anyLength = math.MaxUint16
)

// head of a block.
type head struct {
	last, offset      uint32
	chunkBits, tfBits uint
	tf                [impacts]uint8
	length            [impacts]uint16
}

func readHead(b []byte) (h head) {
	_ = b[headSize-1]
	h.last, h.offset = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	h.chunkBits, h.tfBits = uint(b[8]), uint(b[9])
	for i := range impacts {
		h.tf[i] = b[impactTFs+i]
		h.length[i] = binary.LittleEndian.Uint16(b[impactLengths+2*i:])
	}
	return h
}

func (h head) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.last)
	b = binary.LittleEndian.AppendUint32(b, h.offset)
	b = append(b, byte(h.chunkBits), byte(h.tfBits), 0, 0)
	b = append(b, h.tf[:]...)
	for _, n := range h.length {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	return b
}

// bytes of a block of n postings, and where its tfs start.
func (h head) bytes(n int) (tfs, end int) {
	tfs = (n*int(h.chunkBits) + 7) / 8
	return tfs, tfs + (n*int(h.tfBits)+7)/8
}

// appendPostings packs the postings of one term.
func appendPostings(heads, out []byte, list []posting, length func(chunk uint32) uint32) (_, _ []byte) {
	start, previous := len(out), uint32(math.MaxUint32) // plus 1 is 0
	for block := range slices.Chunk(list, blockSize) {
		var deltas, tfs [blockSize]uint32
		var chunkOr, tfOr uint32
		for i, p := range block {
			deltas[i], tfs[i] = p.chunk-(previous+1), p.tf-1
			chunkOr, tfOr = chunkOr|deltas[i], tfOr|tfs[i]
			previous = p.chunk
		}
		h := head{last: previous, offset: uint32(len(out) - start), chunkBits: uint(bits.Len32(chunkOr)), tfBits: uint(bits.Len32(tfOr))}
		h.tf, h.length = impactsOf(block, length)
		heads = h.append(heads)
		out = pack(pack(out, deltas[:len(block)], h.chunkBits), tfs[:len(block)], h.tfBits)
	}
	return heads, out
}

// pack appends values as a stream of bits.
func pack(out []byte, values []uint32, width uint) []byte {
	var word uint64
	n := uint(0)
	for _, v := range values {
		word |= uint64(v) << n
		for n += width; n >= 8; n -= 8 {
			out = append(out, byte(word))
			word >>= 8
		}
	}
	if n > 0 {
		out = append(out, byte(word))
	}
	return out
}

// unpack returns value i of a stream; b needs eight readable bytes where it starts.
func unpack(b []byte, i int, width uint) uint32 {
	at := uint(i) * width
	return uint32(u64At(b, uint64(at/8)) >> (at % 8) & (1<<(width&63) - 1))
}

// impactsOf keeps of the postings those that no other one beats in both tf and length, at most four: where there are more,
// neighbours are joined to one that beats both.
func impactsOf(block []posting, length func(chunk uint32) uint32) (tf [impacts]uint8, lengths [impacts]uint16) {
	type pair struct {
		tf     uint8
		length uint16
	}
	const none = math.MaxUint32
	var shortest [anyTF + 1]uint32 // by tf
	for i := range shortest {
		shortest[i] = none
	}
	for _, p := range block {
		of := &shortest[min(p.tf, anyTF)]
		*of = min(*of, length(p.chunk), anyLength)
	}
	var room [blockSize]pair
	front, least := room[:0], uint32(none)
	for tf := anyTF; tf > 0; tf-- {
		if n := shortest[tf]; n < least {
			front, least = append(front, pair{uint8(tf), uint16(n)}), n
		}
	}
	for i := range impacts {
		// group i of the front, which has falling tfs and falling lengths
		from, to := i*len(front)/impacts, (i+1)*len(front)/impacts
		if from == to { // fewer than four: repeat one
			from = min(from, len(front)-1)
			to = from + 1
		}
		tf[i], lengths[i] = front[from].tf, front[to-1].length
	}
	return tf, lengths
}
