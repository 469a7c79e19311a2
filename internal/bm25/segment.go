package bm25

import (
	"bytes"
	"encoding/binary"
	"math"
	"sort"
	"sync"

	"quarry.dev/quarry/internal/segment/frame"
)

// Segment is an open bm25.seg. It shares the bytes that it was opened on, which must not change; it is safe for
// concurrent use.
type Segment struct {
	analyzer      Analyzer
	chunks, terms uint32
	total         uint64 // sum of all lengths
	lengths       []byte // u32 per chunk
	frequencies   []byte // u32 per term, as are the next two
	termLengths   []byte
	termStarts    []byte
	ends          []byte // u64 per term
	dictionary    []byte
	postings      []byte
	scratch       sync.Pool // *scratch
}

// Open checks every byte of the file that a search may read, so that a search cannot fail on it. The error wraps
// frame.ErrCorrupt, or says that this build does not know the analyzer or the version.
func Open(file []byte) (*Segment, error) {
	body, err := kind.Open(file)
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
	for i := range s.chunks {
		s.total += uint64(s.length(i))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.scratch.New = func() any { return newScratch(s.chunks) }
	return s, nil
}

// layout cuts the body into its arrays; what they hold is not yet checked.
func layout(body []byte) (*Segment, string, error) {
	in := frame.NewCursor(body)
	s := &Segment{chunks: in.Uint32(), terms: in.Uint32()}
	nameLength, zero := in.Uint32(), in.Uint32()
	dictionary, postings := in.Uint64(), in.Uint64()
	name := in.Bytes(uint64(nameLength))
	s.lengths = in.Bytes(4 * uint64(s.chunks))
	s.frequencies = in.Bytes(4 * uint64(s.terms))
	s.termLengths = in.Bytes(4 * uint64(s.terms))
	s.ends = in.Bytes(8 * uint64(s.terms))
	s.termStarts = in.Bytes(4 * uint64(s.terms))
	s.dictionary = in.Bytes(dictionary)
	s.postings = in.Bytes(postings)
	if in.Bad() || in.Len() != 0 || zero != 0 {
		return nil, "", kind.Corrupt("its arrays do not fill the file")
	}
	return s, string(name), nil
}

// check walks the dictionary and all postings.
func (s *Segment) check() error {
	nextTerm, nextPostings, tokens := uint64(0), uint64(0), uint64(0)
	var previous []byte
	for t := range s.terms {
		start, length, end := uint64(u32(s.termStarts, t)), uint64(u32(s.termLengths, t)), s.end(t)
		if start != nextTerm || length == 0 || length > maxTermBytes || start+length > uint64(len(s.dictionary)) ||
			end < nextPostings || end > uint64(len(s.postings)) {
			return kind.Corrupt("term %d lies outside the dictionary or its postings outside the file", t)
		}
		term := s.dictionary[start : start+length]
		if t > 0 && bytes.Compare(previous, term) >= 0 {
			return kind.Corrupt("term %d is not in order", t)
		}
		sum, ok := s.checkPostings(s.postings[nextPostings:end], u32(s.frequencies, t))
		if !ok {
			return kind.Corrupt("the postings of term %d cannot be decoded", t)
		}
		previous, nextTerm, nextPostings, tokens = term, start+length, end, tokens+sum
	}
	if nextTerm != uint64(len(s.dictionary)) || nextPostings != uint64(len(s.postings)) || tokens != s.total {
		return kind.Corrupt("terms, postings and lengths do not add up")
	}
	return nil
}

// checkPostings decodes the postings of one term and returns the sum of their frequencies.
func (s *Segment) checkPostings(b []byte, frequency uint32) (sum uint64, ok bool) {
	in, last := frame.NewCursor(b), int64(-1)
	for left := frequency; left > 0; left -= min(left, blockSize) {
		lastDelta, maxTF, minLength := in.Uvarint(), in.Uvarint(), in.Uvarint()
		block := frame.NewCursor(in.Bytes(in.Uvarint()))
		previous, seenTF, seenLength := last, uint64(0), uint64(math.MaxUint32)
		for range min(left, blockSize) {
			delta, tf := block.Uvarint(), block.Uvarint()
			if block.Bad() || delta == 0 || delta > uint64(s.chunks) || tf == 0 {
				return 0, false
			}
			if previous += int64(delta); previous >= int64(s.chunks) {
				return 0, false
			}
			length := uint64(s.length(uint32(previous)))
			if tf > length {
				return 0, false
			}
			sum += tf
			seenTF, seenLength = max(seenTF, tf), min(seenLength, length)
		}
		if in.Bad() || block.Len() != 0 || lastDelta != uint64(previous-last) || maxTF != seenTF || minLength != seenLength {
			return 0, false
		}
		last = previous
	}
	return sum, in.Len() == 0
}

// Chunks is the number of chunks, visible or not: never tell a user.
func (s *Segment) Chunks() uint32 { return s.chunks }

// Analyzer is what made the terms of this segment.
func (s *Segment) Analyzer() Analyzer { return s.analyzer }

func u32(b []byte, i uint32) uint32 { return binary.LittleEndian.Uint32(b[4*uint64(i):]) }

func (s *Segment) length(chunk uint32) uint32 { return u32(s.lengths, chunk) }

func (s *Segment) end(term uint32) uint64 { return binary.LittleEndian.Uint64(s.ends[8*uint64(term):]) }

// find returns the postings of a term, nil when no chunk holds it, and in how many chunks it stands.
func (s *Segment) find(term string) (postings []byte, frequency uint32) {
	at := func(i uint32) []byte {
		start := u32(s.termStarts, i)
		return s.dictionary[start : start+u32(s.termLengths, i)]
	}
	i := uint32(sort.Search(int(s.terms), func(i int) bool { return string(at(uint32(i))) >= term }))
	if i == s.terms || string(at(i)) != term {
		return nil, 0
	}
	start := uint64(0)
	if i > 0 {
		start = s.end(i - 1)
	}
	return s.postings[start:s.end(i)], u32(s.frequencies, i)
}
