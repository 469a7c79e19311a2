// Package bm25 ranks chunks by their words: analyzers, an immutable segment of postings, and scores whose every statistic
// (number of chunks, document frequency, average length) is that of the chunks which the asker may see.
package bm25

import (
	"encoding/binary"
	"slices"

	"quarry.dev/quarry/internal/segment/frame"
)

// The body of bm25.seg, little endian; every array starts where the one before ends:
//
//	chunks u32, terms u32, blocks u32, name length u32
//	bytes of all terms u64, bytes of all postings u64, sum of all lengths u64
//	analyzer name
//	chunks x u32       length of a chunk in terms
//	chunks x u16       the same (65535: as long or longer), for the cache's sake
//	(terms+1) x u64    start of a term among the bytes of all terms
//	(terms+1) x u32    first block of a term
//	terms x u32        document frequency
//	(terms+1) x u64    start of a term's postings
//	blocks x 24 bytes  block heads, see block.go
//	bytes of all terms, ascending
//	postings, then eight zero bytes, so that a reader may load a word at any byte
//
// Whoever opens a segment reads its header alone. A search reads the heads and blocks that it needs and checks what it reads,
// so that damage is an error of that search and never a wrong memory access.
var kind = frame.Kind{Name: "bm25.seg", Magic: [8]byte{'Q', 'R', 'Y', 'B', 'M', '2', '5', 0}, Version: 3}

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
func (b *Builder) Add(text string) { b.AddTerms(b.analyzer.Terms(text)) }

// AddTerms is Add for a text that was analyzed already.
func (b *Builder) AddTerms(terms []string) {
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
	le := binary.LittleEndian
	length := func(chunk uint32) uint32 { return b.lengths[chunk] }
	var frequencies, firstBlocks, termStarts, starts, heads, dictionary, postings []byte
	for _, term := range terms {
		list := b.postings[term]
		termStarts = le.AppendUint64(termStarts, uint64(len(dictionary)))
		firstBlocks = le.AppendUint32(firstBlocks, uint32(len(heads)/headSize))
		starts = le.AppendUint64(starts, uint64(len(postings)))
		frequencies = le.AppendUint32(frequencies, uint32(len(list)))
		dictionary = append(dictionary, term...)
		heads, postings = appendPostings(heads, postings, list, length)
	}
	termStarts = le.AppendUint64(termStarts, uint64(len(dictionary)))
	firstBlocks = le.AppendUint32(firstBlocks, uint32(len(heads)/headSize))
	starts = le.AppendUint64(starts, uint64(len(postings)))

	name, total := b.analyzer.Name(), uint64(0)
	var lengths, short []byte
	for _, n := range b.lengths {
		lengths = le.AppendUint32(lengths, n)
		short = le.AppendUint16(short, uint16(min(n, anyLength)))
		total += uint64(n)
	}
	var body []byte
	for _, v := range []int{len(b.lengths), len(terms), len(heads) / headSize, len(name)} {
		body = le.AppendUint32(body, uint32(v))
	}
	for _, v := range []uint64{uint64(len(dictionary)), uint64(len(postings)), total} {
		body = le.AppendUint64(body, v)
	}
	for _, part := range [][]byte{[]byte(name), lengths, short, termStarts, firstBlocks, frequencies, starts, heads, dictionary, postings, make([]byte, padding)} {
		body = append(body, part...)
	}
	return kind.Seal(body)
}
