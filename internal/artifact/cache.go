package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// packLimit is the size at which a writer flushes a pack: one checkpoint of a stage, in bytes.
const packLimit = 64 << 20

// packsInMemory bounds what a reader holds.
const packsInMemory = 2

// Cache holds the results of one stage under one digest of settings, packed into few objects:
// cache/<stage>/<settings>/<digest>.pack holds values end to end, and .idx beside it, written last, says what is where.
// It is safe for concurrent use.
type Cache struct {
	bucket Bucket
	folder string

	mu    sync.Mutex
	where map[string]slot
	packs map[string][]byte
	order []string // of packs, least recently used first
}

type slot struct {
	pack           string
	offset, length int64
}

type packIndex struct {
	Entries []packEntry `json:"entries"`
}

type packEntry struct {
	Key    string `json:"key"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
}

// OpenCache lists the packs of a stage. Packs that others write later are not seen: open again.
func OpenCache(ctx context.Context, b Bucket, stage, settingsDigest string) (*Cache, error) {
	h, err := DigestHex(settingsDigest)
	if err != nil {
		return nil, fmt.Errorf("cache settings: %w", err)
	}
	if stage == "" || strings.Contains(stage, "/") {
		return nil, fmt.Errorf("cache stage %q: is no plain name", stage)
	}
	c := &Cache{bucket: b, folder: "cache/" + stage + "/" + h + "/", where: map[string]slot{}, packs: map[string][]byte{}}
	var found []string
	err = b.List(ctx, c.folder, func(i Info) error {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(i.Key, c.folder), ".idx"); ok {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, name := range found {
		if err := c.addIndex(ctx, name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cache) addIndex(ctx context.Context, name string) error {
	data, _, err := c.bucket.Get(ctx, c.folder+name+".idx")
	if err != nil {
		return err
	}
	var idx packIndex
	if err := json.Unmarshal(data, &idx); err != nil {
		return fmt.Errorf("%s%s.idx: %w; delete the damaged object", c.folder, name, err)
	}
	for _, e := range idx.Entries {
		// The first pack in name order wins, so that every reader sees the same value of a key.
		if _, ok := c.where[e.Key]; !ok {
			c.where[e.Key] = slot{pack: name, offset: e.Offset, length: e.Length}
		}
	}
	return nil
}

// Len returns the number of keys.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.where)
}

// Has tells whether Get would find the key, without reading its pack.
func (c *Cache) Has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.where[key]
	return ok
}

// Get returns a copy of the value of key. It is quickest when keys are asked in the order in which they were added.
func (c *Cache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.where[key]
	if !ok {
		return nil, false, nil
	}
	pack, err := c.load(ctx, s.pack)
	if err != nil {
		return nil, false, err
	}
	if s.offset < 0 || s.length < 0 || s.offset > int64(len(pack)) || s.length > int64(len(pack))-s.offset {
		return nil, false, fmt.Errorf("%s%s.idx: value of %q passes the pack's end: delete the damaged object", c.folder, s.pack, key)
	}
	return slices.Clone(pack[s.offset : s.offset+s.length]), true, nil
}

func (c *Cache) load(ctx context.Context, name string) ([]byte, error) {
	if pack, ok := c.packs[name]; ok {
		i := slices.Index(c.order, name)
		c.order = append(slices.Delete(c.order, i, i+1), name)
		return pack, nil
	}
	pack, err := GetVerified(ctx, c.bucket, c.folder+name+".pack", digestPrefix+name)
	if err != nil {
		return nil, err
	}
	if len(c.order) >= packsInMemory {
		delete(c.packs, c.order[0])
		c.order = c.order[1:]
	}
	c.packs[name], c.order = pack, append(c.order, name)
	return pack, nil
}

// Writer collects new values; what it flushed is visible in its Cache. It is not safe for concurrent use.
type Writer struct {
	cache *Cache
	limit int
	buf   bytes.Buffer
	idx   packIndex
}

// NewWriter returns a writer that flushes by itself at 64 MiB.
func (c *Cache) NewWriter() *Writer { return &Writer{cache: c, limit: packLimit} }

// Add stores a value. Nothing is durable before Flush, or before 64 MiB came together.
func (w *Writer) Add(ctx context.Context, key string, data []byte) error {
	w.idx.Entries = append(w.idx.Entries, packEntry{Key: key, Offset: int64(w.buf.Len()), Length: int64(len(data))})
	w.buf.Write(data)
	if w.buf.Len() >= w.limit {
		return w.Flush(ctx)
	}
	return nil
}

// Flush writes what came together as one pack: first the values, then the index that makes them visible.
func (w *Writer) Flush(ctx context.Context) error {
	if len(w.idx.Entries) == 0 {
		return nil
	}
	body := w.buf.Bytes() // the bucket may keep it
	idx, err := json.Marshal(w.idx)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(Digest(body), digestPrefix)
	if err := PutImmutable(ctx, w.cache.bucket, w.cache.folder+name+".pack", body); err != nil {
		return err
	}
	// The index is not immutable in the same sense: equal values under other keys give the same pack.
	if err := w.putIndex(ctx, name, idx); err != nil {
		return err
	}
	w.cache.mu.Lock()
	for _, e := range w.idx.Entries {
		w.cache.where[e.Key] = slot{pack: name, offset: e.Offset, length: e.Length}
	}
	w.cache.mu.Unlock()
	w.buf, w.idx = bytes.Buffer{}, packIndex{}
	return nil
}

// putIndex adds our entries to the index of a pack, which another set of keys with equal values may have written.
func (w *Writer) putIndex(ctx context.Context, name string, idx []byte) error {
	key := w.cache.folder + name + ".idx"
	_, err := w.cache.bucket.Put(ctx, key, idx, Condition{IfNoneMatch: true})
	for range indexAttempts {
		if !errors.Is(err, ErrPrecondition) {
			return err
		}
		old, info, getErr := w.cache.bucket.Get(ctx, key)
		if getErr != nil {
			return getErr
		}
		merged, changed, mergeErr := mergeIndex(old, w.idx)
		if mergeErr != nil || !changed {
			return mergeErr
		}
		_, err = w.cache.bucket.Put(ctx, key, merged, Condition{IfMatch: info.ETag})
	}
	return err
}

const indexAttempts = 5

func mergeIndex(old []byte, add packIndex) (merged []byte, changed bool, err error) {
	var idx packIndex
	if err := json.Unmarshal(old, &idx); err != nil {
		return nil, false, fmt.Errorf("pack index: %w; delete the damaged object", err)
	}
	known := map[string]bool{}
	for _, e := range idx.Entries {
		known[e.Key] = true
	}
	for _, e := range add.Entries {
		if !known[e.Key] {
			idx.Entries, changed = append(idx.Entries, e), true
		}
	}
	merged, err = json.Marshal(idx)
	return merged, changed, err
}

// Each reads the values of keys that the cache holds, pack by pack, so that no pack is fetched twice whatever the order
// of keys. yield gets the position in keys and the bytes, which it may not keep. Keys that are absent are left out.
func (c *Cache) Each(ctx context.Context, keys []string, yield func(i int, value []byte) error) error {
	byPack := map[string][]int{}
	c.mu.Lock()
	for i, key := range keys {
		if s, ok := c.where[key]; ok {
			byPack[s.pack] = append(byPack[s.pack], i)
		}
	}
	c.mu.Unlock()
	for _, pack := range slices.Sorted(maps.Keys(byPack)) {
		for _, i := range byPack[pack] {
			value, ok, err := c.Get(ctx, keys[i])
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := yield(i, value); err != nil {
				return err
			}
		}
	}
	return nil
}
