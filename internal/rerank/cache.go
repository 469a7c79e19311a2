package rerank

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// cacheBytes bounds what is kept of passages: some 80,000 vectors, or the token vectors of some 1,500 long passages.
const cacheBytes = 128 << 20

// entryOverhead is what an entry takes beside its value, in bytes: map cell, list element and struct.
const entryOverhead = 192

// contentKey names a passage by its content.
type contentKey [sha256.Size]byte

func keyOf(text string) contentKey { return sha256.Sum256([]byte(text)) }

// cache keeps what was computed of passages, by content, and lets the least recently used go. Because equal texts have
// equal values, whoever asked for one first changes no answer of another. It is safe for concurrent use.
type cache[V any] struct {
	size    func(V) int
	limit   int
	metrics *Metrics

	mu      sync.Mutex
	entries map[contentKey]*list.Element
	recent  list.List // of *cacheEntry[V], the most recently used first
	bytes   int
}

type cacheEntry[V any] struct {
	key   contentKey
	value V
	bytes int
}

// newCache keeps values of at most limit bytes together, as size counts them.
func newCache[V any](limit int, size func(V) int, metrics *Metrics) *cache[V] {
	return &cache[V]{size: size, limit: limit, metrics: metrics, entries: map[contentKey]*list.Element{}}
}

// get returns the values of keys in their order, and the positions of those that are not kept.
func (c *cache[V]) get(keys []contentKey) (values []V, missing []int) {
	values = make([]V, len(keys))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		element, ok := c.entries[key]
		if !ok {
			missing = append(missing, i)
			continue
		}
		c.recent.MoveToFront(element)
		values[i] = element.Value.(*cacheEntry[V]).value
	}
	c.metrics.hits.Add(float64(len(keys) - len(missing)))
	c.metrics.misses.Add(float64(len(missing)))
	return values, missing
}

// put keeps a value, unless it alone would fill the cache.
func (c *cache[V]) put(key contentKey, value V) {
	bytes := c.size(value) + entryOverhead
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[key]; ok || bytes > c.limit {
		return
	}
	c.entries[key] = c.recent.PushFront(&cacheEntry[V]{key, value, bytes})
	for c.bytes += bytes; c.bytes > c.limit; {
		oldest := c.recent.Remove(c.recent.Back()).(*cacheEntry[V])
		delete(c.entries, oldest.key)
		c.bytes -= oldest.bytes
	}
	c.metrics.bytes.Set(float64(c.bytes))
}
