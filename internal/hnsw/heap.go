package hnsw

import (
	"cmp"
	"math"
)

// key packs a similarity and a node into one number: a greater key is more similar, and of equal ones the lower node.
// Heaps and sorts then compare one word.
type key uint64

func pack(similarity float32, node uint32) key {
	b := math.Float32bits(similarity)
	if b>>31 != 0 {
		b = ^b
	} else {
		b |= 1 << 31
	}
	return key(b)<<32 | key(^node)
}

func (k key) node() uint32 { return ^uint32(k) }

func (k key) similarity() float32 {
	b := uint32(k >> 32)
	if b>>31 != 0 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}

// heap is a binary heap, the least first.
type heap[T cmp.Ordered] []T

func (h *heap[T]) push(x T) {
	s := append(*h, x)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent] <= x {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = x
	*h = s
}

// replace takes the least out and x in.
func (h heap[T]) replace(x T) {
	i, n := 0, len(h)
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h[child+1] < h[child] {
			child++
		}
		if x <= h[child] {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = x
}

func (h *heap[T]) pop() T {
	s := *h
	least, last := s[0], s[len(s)-1]
	*h = s[:len(s)-1]
	if len(*h) > 0 {
		h.replace(last)
	}
	return least
}
