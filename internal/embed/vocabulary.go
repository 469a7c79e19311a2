package embed

import (
	_ "embed" // the vocabulary is part of the binary
	"fmt"
	"strings"
	"sync"
)

// vocabularyText is that of both builtin models.
//
//go:embed models/vocab.txt
var vocabularyText string

var sharedVocabulary = sync.OnceValues(func() (*vocabulary, error) { return newVocabulary(vocabularyText) })

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
	// longestPiece bounds the pieces of a vocabulary in bytes.
	longestPiece = 64
)

// pieces is a hash table from the bytes of a piece to its number. A word's prefixes are hashed in one pass, so the
// greedy search for the longest piece costs a probe per prefix and no allocation.
type pieces struct {
	mask    uint64
	slots   []slot
	longest int
}

type slot struct {
	hash uint64
	text string
	id   int32
}

// vocabulary is a WordPiece vocabulary: pieces that begin a word and, without their "##", those that go on.
type vocabulary struct {
	start, next pieces
	size        int
	// numbers of [UNK], and of the marks at the ends of a sequence, [CLS] and [SEP]
	unknown, begin, end int32
}

// newVocabulary reads a vocab.txt, one piece a line; the number of a piece is its line.
func newVocabulary(text string) (*vocabulary, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	v := &vocabulary{start: newPieces(len(lines)), next: newPieces(len(lines)), size: len(lines), unknown: -1, begin: -1, end: -1}
	for i, s := range lines {
		s = strings.TrimSuffix(s, "\r")
		if len(s) > longestPiece {
			return nil, fmt.Errorf("vocabulary line %d: piece of %d bytes, at most %d", i+1, len(s), longestPiece)
		}
		switch s {
		case "[UNK]":
			v.unknown = int32(i)
		case "[CLS]":
			v.begin = int32(i)
		case "[SEP]":
			v.end = int32(i)
		}
		if c, ok := strings.CutPrefix(s, "##"); ok && c != "" {
			v.next.add(c, int32(i))
		} else {
			v.start.add(s, int32(i))
		}
	}
	if min(v.unknown, v.begin, v.end) < 0 {
		return nil, fmt.Errorf("vocabulary lacks [UNK], [CLS] or [SEP]")
	}
	return v, nil
}

// newPieces makes a table of at least twice n slots.
func newPieces(n int) pieces {
	size := 2
	for size < 2*n {
		size *= 2
	}
	return pieces{mask: uint64(size - 1), slots: make([]slot, size)}
}

func (p *pieces) add(text string, id int32) {
	h := uint64(fnvOffset)
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	p.longest = max(p.longest, len(text))
	i := mix(h) & p.mask
	for p.slots[i].hash != 0 {
		i = (i + 1) & p.mask
	}
	p.slots[i] = slot{h, text, id}
}

// get returns the number of the piece w whose hash is h, or -1.
func (p *pieces) get(h uint64, w []byte) int32 {
	for i := mix(h) & p.mask; ; i = (i + 1) & p.mask {
		s := &p.slots[i]
		if s.hash == h && s.text == string(w) {
			return s.id
		}
		if s.hash == 0 {
			return -1
		}
	}
}

// mix brings the high bits, the better ones of FNV, to where the mask looks.
func mix(h uint64) uint64 { return h ^ h>>32 }

// word appends the greedy longest pieces of w, or the unknown one.
func (v *vocabulary) word(ids []int32, w []byte) []int32 {
	n, dict := len(ids), &v.start
	var hash [longestPiece]uint64
	for len(w) > 0 {
		most := min(len(w), dict.longest)
		h := uint64(fnvOffset)
		for i, c := range w[:most] {
			h = (h ^ uint64(c)) * fnvPrime
			hash[i] = h
		}
		end := most
		for ; end > 0; end-- {
			if id := dict.get(hash[end-1], w[:end]); id >= 0 {
				ids = append(ids, id)
				break
			}
		}
		if end == 0 {
			return append(ids[:n], v.unknown)
		}
		w, dict = w[end:], &v.next
	}
	return ids
}
