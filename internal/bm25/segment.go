package bm25

import (
	"bytes"
	"encoding/binary"
	"sort"
	"sync/atomic"

	"quarry.dev/quarry/internal/segment/frame"
)

// Segment is an open bm25.seg. It shares the bytes that it was opened on, which must not change; it is safe for
// concurrent use.
type Segment struct {
	analyzer      Analyzer
	chunks, terms uint32
	total         uint64 // sum of all lengths
	lengths       []byte // u32 per chunk
	short         []byte // u16 per chunk
	termStarts    []byte // u64 per term and one more, as are starts
	firstBlocks   []byte // u32 per term and one more
	frequencies   []byte // u32 per term
	starts        []byte
	heads         []byte
	dictionary    []byte
	postings      []byte // with the padding
	views         *views
	viewsMade     atomic.Uint64
	lists         *lists
}

// Open reads the header alone, so that it takes the same time for a file of any size; the file's digest is its reader's to
// verify. The error wraps frame.ErrCorrupt, or says that this build does not know the analyzer or the version.
func Open(file []byte) (*Segment, error) {
	body, err := kind.Body(file)
	if err != nil {
		return nil, err
	}
	s, name, err := layout(body)
	if err != nil {
		return nil, err
	}
	if s.analyzer, err = NewAnalyzer(name); err != nil {
		return nil, err
	}
	return s, nil
}

// layout cuts the body into its arrays; what they hold is checked by those who read them.
func layout(body []byte) (*Segment, string, error) {
	in := frame.NewCursor(body)
	s := &Segment{chunks: in.Uint32(), terms: in.Uint32(), views: newViews()}
	blocks, nameLength := uint64(in.Uint32()), uint64(in.Uint32())
	dictionary, postings := in.Uint64(), in.Uint64()
	s.total = in.Uint64()
	if dictionary > uint64(len(body)) || postings > uint64(len(body)) {
		return nil, "", kind.Corrupt("its arrays do not fill the file")
	}
	name := in.Bytes(nameLength)
	s.lengths = in.Bytes(4 * uint64(s.chunks))
	s.short = in.Bytes(2 * uint64(s.chunks))
	s.termStarts = in.Bytes(8 * (uint64(s.terms) + 1))
	s.firstBlocks = in.Bytes(4 * (uint64(s.terms) + 1))
	s.frequencies = in.Bytes(4 * uint64(s.terms))
	s.starts = in.Bytes(8 * (uint64(s.terms) + 1))
	s.heads = in.Bytes(headSize * blocks)
	s.dictionary = in.Bytes(dictionary)
	s.postings = in.Bytes(postings + padding)
	if in.Bad() || in.Len() != 0 {
		return nil, "", kind.Corrupt("its arrays do not fill the file")
	}
	s.lists = newLists(len(s.heads) + len(s.postings))
	return s, string(name), nil
}

// Check reads the whole file: its checksum, that terms ascend, and that every block holds what its head says. It is for
// those who have just written a segment, and takes as long as reading it does.
func Check(file []byte) error {
	if _, err := kind.Open(file); err != nil {
		return err
	}
	s, err := Open(file)
	if err != nil {
		return err
	}
	tokens, lengths := uint64(0), uint64(0)
	for i := range s.chunks {
		n := u32(s.lengths, i)
		if uint32(u16(s.short, i)) != min(n, anyLength) {
			return kind.Corrupt("chunk %d has two lengths", i)
		}
		lengths += uint64(n)
	}
	var previous []byte
	for t := range s.terms {
		term, err := s.term(t)
		if err != nil {
			return err
		}
		if t > 0 && bytes.Compare(previous, term) >= 0 {
			return kind.Corrupt("term %d is not in order", t)
		}
		previous = term
		sum, err := s.checkTerm(t)
		if err != nil {
			return err
		}
		tokens += sum
	}
	if tokens != s.total || lengths != s.total {
		return kind.Corrupt("terms, postings and lengths do not add up")
	}
	return nil
}

// checkTerm returns the sum of the term's frequencies.
func (s *Segment) checkTerm(t uint32) (sum uint64, err error) {
	list, err := s.postingsOf(t)
	if err != nil {
		return 0, err
	}
	c := newCursor(list)
	for block := range list.blocks {
		if err := c.load(block); err != nil {
			return 0, err
		}
		for i := range c.n {
			chunk, tf := c.chunks[i], c.tf(i)
			length := s.length(chunk)
			if tf > length || !c.head.bounds(tf, length) {
				return 0, kind.Corrupt("a posting of term %d is above the bounds of its block", t)
			}
			sum += uint64(tf)
		}
	}
	return sum, nil
}

// bounds tells whether an impact stands for a posting.
func (h head) bounds(tf, length uint32) bool {
	for i := range impacts {
		if (tf <= uint32(h.tf[i]) || h.tf[i] == anyTF) && length >= uint32(h.length[i]) {
			return true
		}
	}
	return false
}

// Chunks is the number of chunks, visible or not: never tell a user.
func (s *Segment) Chunks() uint32 { return s.chunks }

// Analyzer is what made the terms of this segment.
func (s *Segment) Analyzer() Analyzer { return s.analyzer }

func u32(b []byte, i uint32) uint32 {
	at := 4 * uint64(i)
	return binary.LittleEndian.Uint32(b[at : at+4 : at+4])
}

func u16(b []byte, i uint32) uint16 {
	at := 2 * uint64(i)
	return binary.LittleEndian.Uint16(b[at : at+2 : at+2])
}

func u64(b []byte, i uint32) uint64 { return u64At(b, 8*uint64(i)) }

// u64At says where the slice ends, so that the compiler makes one check of it and no more.
func u64At(b []byte, at uint64) uint64 { return binary.LittleEndian.Uint64(b[at : at+8 : at+8]) }

func (s *Segment) length(chunk uint32) uint32 {
	if n := u16(s.short, chunk); n < anyLength {
		return uint32(n)
	}
	return u32(s.lengths, chunk)
}

func (s *Segment) term(i uint32) ([]byte, error) {
	start, end := u64(s.termStarts, i), u64(s.termStarts, i+1)
	if start >= end || end > uint64(len(s.dictionary)) {
		return nil, kind.Corrupt("term %d lies outside the dictionary", i)
	}
	return s.dictionary[start:end], nil
}

// find returns the number of a term.
func (s *Segment) find(term string) (number uint32, ok bool, err error) {
	i := uint32(sort.Search(int(s.terms), func(i int) bool {
		at, bad := s.term(uint32(i))
		if bad != nil {
			err = bad
		}
		return string(at) >= term
	}))
	if err != nil || i == s.terms {
		return 0, false, err
	}
	at, err := s.term(i)
	return i, string(at) == term, err
}
