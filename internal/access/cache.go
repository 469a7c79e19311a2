package access

import (
	"container/list"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

const (
	defaultCacheEntries = 1024
	defaultCacheBytes   = 64 << 20
	entryOverhead       = 256
)

type allowKey struct {
	principals string
	epoch      int64
}

// allowCache keeps the allow sets used last, bounded by count and by bytes. Sets of an older epoch go when a newer
// one is stored: nobody asks for them again.
type allowCache struct {
	mu         sync.Mutex
	maxEntries int
	maxBytes   uint64
	bytes      uint64
	epoch      int64
	order      *list.List
	byKey      map[allowKey]*list.Element
}

type cached struct {
	key  allowKey
	set  *roaring.Bitmap
	size uint64
}

func newAllowCache(maxEntries int, maxBytes uint64) *allowCache {
	return &allowCache{maxEntries: maxEntries, maxBytes: maxBytes, epoch: -1, order: list.New(), byKey: map[allowKey]*list.Element{}}
}

func (c *allowCache) get(key allowKey) *roaring.Bitmap {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).set
}

func (c *allowCache) put(key allowKey, set *roaring.Bitmap) {
	size := set.GetSizeInBytes() + uint64(len(key.principals)) + entryOverhead
	c.mu.Lock()
	defer c.mu.Unlock()
	if key.epoch < c.epoch || size > c.maxBytes {
		return
	}
	if key.epoch > c.epoch {
		c.order.Init()
		clear(c.byKey)
		c.bytes, c.epoch = 0, key.epoch
	}
	if _, ok := c.byKey[key]; ok {
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key: key, set: set, size: size})
	c.bytes += size
	for len(c.byKey) > c.maxEntries || c.bytes > c.maxBytes {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.byKey, last.key)
		c.bytes -= last.size
	}
}
