// Package bm25 ranks chunks by their words: analyzers, an immutable segment of postings, and scores whose every statistic
// (number of chunks, document frequency, average length) is that of the chunks which the asker may see.
package bm25

import (
	"encoding/binary"
	"math"
	"slices"

	"quarry.dev/quarry/internal/segment/frame"
)

// The body of bm25.seg, little endian:
//
//	chunks u32, terms u32, name length u32, zero u32
//	bytes of all terms u64, bytes of all postings u64
//	analyzer name
//	chunks x u32   length of a chunk in terms
//	terms x u32    document frequency
//	terms x u32    length of the term
//	terms x u64    end of the postings; they start where those of the term before end
//	terms x u32    start of the term among the bytes of all terms
//	bytes of all terms, ascending
//	postings
//
// The postings of a term are blocks of 128 chunks, the last one shorter: a head of uvarints (last chunk minus the last
// chunk of the block before, largest tf, smallest length, bytes of the rest) and per chunk two uvarints (number minus the
// number before, tf). The first difference of all counts from -1. A reader skips a block by its head; the head's impacts
// bound every score within.
var kind = frame.Kind{Name: "bm25.seg", Magic: [8]byte{'Q', 'R', 'Y', 'B', 'M', '2', '5', 0}, Version: 1}

const blockSize = 128

type posting struct{ chunk, tf uint32 }

// Builder collects the texts of a segment. The number of a chunk is its position among the calls of Add.
type Builder struct {
	analyzer Analyzer
	lengths  []uint32
	postings map[string][]posting
}

// NewBuilder returns an empty builder.
func NewBuilder(a Analyzer) *Builder {
	return &Builder{analyzer: a, postings: map[string][]posting{}}
}

// Add appends one chunk. A text without terms is a chunk that no query finds.
func (b *Builder) Add(text string) {
	terms := b.analyzer.Terms(text)
	chunk := uint32(len(b.lengths))
	b.lengths = append(b.lengths, uint32(len(terms)))
	for _, term := range terms {
		list := b.postings[term]
		if n := len(list); n > 0 && list[n-1].chunk == chunk {
			list[n-1].tf++
			continue
		}
		b.postings[term] = append(list, posting{chunk, 1})
	}
}

// Bytes returns the segment. Equal texts give equal bytes.
func (b *Builder) Bytes() []byte {
	terms := make([]string, 0, len(b.postings))
	for term := range b.postings {
		terms = append(terms, term)
	}
	slices.Sort(terms)
	var frequencies, termLengths, ends, starts, dictionary, postings []byte
	for _, term := range terms {
		starts = binary.LittleEndian.AppendUint32(starts, uint32(len(dictionary)))
		dictionary = append(dictionary, term...)
		termLengths = binary.LittleEndian.AppendUint32(termLengths, uint32(len(term)))
		frequencies = binary.LittleEndian.AppendUint32(frequencies, uint32(len(b.postings[term])))
		postings = b.appendPostings(postings, b.postings[term])
		ends = binary.LittleEndian.AppendUint64(ends, uint64(len(postings)))
	}
	name := b.analyzer.Name()
	var body []byte
	for _, v := range []int{len(b.lengths), len(terms), len(name), 0} {
		body = binary.LittleEndian.AppendUint32(body, uint32(v))
	}
	body = binary.LittleEndian.AppendUint64(body, uint64(len(dictionary)))
	body = binary.LittleEndian.AppendUint64(body, uint64(len(postings)))
	body = append(body, name...)
	for _, n := range b.lengths {
		body = binary.LittleEndian.AppendUint32(body, n)
	}
	for _, part := range [][]byte{frequencies, termLengths, ends, starts, dictionary, postings} {
		body = append(body, part...)
	}
	return kind.Seal(body)
}

func (b *Builder) appendPostings(out []byte, list []posting) []byte {
	var rest []byte
	last := int64(-1) // the last chunk of the block before
	for block := range slices.Chunk(list, blockSize) {
		rest = rest[:0]
		previous, maxTF, minLength := last, uint32(0), uint32(math.MaxUint32)
		for _, p := range block {
			rest = binary.AppendUvarint(rest, uint64(int64(p.chunk)-previous))
			rest = binary.AppendUvarint(rest, uint64(p.tf))
			previous = int64(p.chunk)
			maxTF, minLength = max(maxTF, p.tf), min(minLength, b.lengths[p.chunk])
		}
		out = binary.AppendUvarint(out, uint64(previous-last))
		out = binary.AppendUvarint(out, uint64(maxTF))
		out = binary.AppendUvarint(out, uint64(minLength))
		out = binary.AppendUvarint(out, uint64(len(rest)))
		out = append(out, rest...)
		last = previous
	}
	return out
}
