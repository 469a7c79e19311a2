package bm25

import (
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// fewVisible: when at most one of so many postings is visible, a list of the visible ones alone saves more than it costs.
	fewVisible = 4
	// shortList is how many blocks are read again rather than remembered.
	shortList = 4
)

// find returns the number of a term. What was found is remembered here and not for all: nobody can tell from the time of an
// answer what others have asked for.
func (v *view) find(word string) (number uint32, ok bool, err error) {
	v.mu.Lock()
	number, ok = v.numbers[word]
	v.mu.Unlock()
	if ok {
		return number, true, nil
	}
	if number, ok, err = v.segment.find(word); !ok || err != nil {
		return 0, false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.numbers) >= keptNumbers {
		clear(v.numbers)
	}
	v.numbers[strings.Clone(word)] = number
	return number, true, nil
}

// visiblePostings of a term, whose own are all, and how many they are. With hidden ones among them, bits tells which are
// which; else it is nil.
func (v *view) visiblePostings(term uint32, all postings) (l postings, bits []uint64, frequency uint32, err error) {
	if v.bits == nil {
		return all, nil, all.frequency, nil
	}
	if all.blocks <= shortList {
		_, frequency, err = v.read(all, 0)
		return all, v.bits, frequency, err
	}
	if l, ok := v.segment.lists.get(listOf{v.number, term}); ok {
		return l, nil, l.frequency, nil
	}
	v.mu.Lock()
	frequency, ok := v.frequencies[term]
	v.mu.Unlock()
	most := all.frequency / fewVisible
	if ok && (frequency == 0 || frequency > most) {
		return all, v.bits, frequency, nil
	}
	list, frequency, err := v.read(all, most)
	if err != nil {
		return all, nil, 0, err
	}
	v.remember(term, frequency)
	if frequency == 0 || frequency > most {
		return all, v.bits, frequency, nil
	}
	l = v.segment.pack(term, list)
	v.segment.lists.add(listOf{v.number, term}, l)
	return l, nil, frequency, nil
}

func (v *view) remember(term, frequency uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.frequencies) >= keptTerms {
		clear(v.frequencies)
	}
	v.frequencies[term] = frequency
}

// read goes through the blocks that may hold a visible chunk, counts those, and returns the first ones, up to most.
func (v *view) read(all postings, most uint32) (list []posting, frequency uint32, err error) {
	c := newCursor(all)
	next := uint32(0)
	for block := range all.blocks {
		last := all.last(block)
		if last < next || last >= all.limit {
			return nil, 0, kind.Corrupt("the blocks of a term do not ascend")
		}
		if v.any(next, last) {
			if err := c.load(block); err != nil {
				return nil, 0, err
			}
			for i, chunk := range c.chunks[:c.n] {
				if v.bits[chunk/64]>>(chunk%64)&1 == 0 {
					continue
				}
				if frequency++; frequency <= most {
					list = append(list, posting{chunk, c.tf(i)})
				}
			}
		}
		next = last + 1
	}
	return list, frequency, nil
}

// pack writes postings in the form that a segment has.
func (s *Segment) pack(term uint32, list []posting) postings {
	heads, data := appendPostings(nil, nil, list, s.length)
	return postings{term: term, frequency: uint32(len(list)), blocks: len(heads) / headSize, limit: s.chunks, heads: heads, data: append(data, make([]byte, padding)...)}
}

// lists remembers the visible postings that were asked for last. They take no more memory than the segment's own.
type lists struct {
	mu     sync.Mutex
	byUse  *simplelru.LRU[listOf, postings]
	room   int // bytes that are left
	budget int
}

// listOf names what a view sees of a term.
type listOf struct {
	view uint64
	term uint32
}

func newLists(budget int) *lists {
	l := &lists{room: budget, budget: budget}
	byUse, err := simplelru.NewLRU(math.MaxInt32, func(_ listOf, gone postings) { l.room += gone.bytes() })
	if err != nil { // only for a size below 1
		panic(err)
	}
	l.byUse = byUse
	return l
}

// bytes that a list takes, with its place among the others.
func (l *postings) bytes() int { return 256 + len(l.heads) + len(l.data) }

func (l *lists) get(of listOf) (postings, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byUse.Get(of)
}

func (l *lists) add(of listOf, list postings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list.bytes() > l.budget || l.byUse.Contains(of) { // the latter by another search at the same time
		return
	}
	l.byUse.Add(of, list)
	for l.room -= list.bytes(); l.room < 0; {
		l.byUse.RemoveOldest()
	}
}
