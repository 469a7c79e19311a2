package artifact

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Bucket in memory, for tests. Its zero value is not usable; see NewMemory.
type Memory struct {
	// Fail, where set, is asked before each operation ("get", "head", "put", "list", "delete"); its error is returned.
	// A listing asks with the prefix at its start, and then as "list-next" with each key it is about to yield.
	Fail func(op, key string) error
	// Now is the clock of Modified.
	Now func() time.Time

	mu      sync.Mutex
	objects map[string]memoryObject
	ops     map[string]int
}

type memoryObject struct {
	info Info
	data []byte
}

// NewMemory returns an empty bucket.
func NewMemory() *Memory {
	return &Memory{objects: map[string]memoryObject{}, ops: map[string]int{}, Now: func() time.Time { return time.Now().UTC() }}
}

// Ops returns how many operations of that name were started.
func (m *Memory) Ops(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops[op]
}

// Keys returns all keys, sorted.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// SetMetadata gives an existing object user metadata and a new modification time, as a copy in place does.
func (m *Memory) SetMetadata(key string, metadata map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.info.Metadata, o.info.Modified = metadata, m.Now()
	m.objects[key] = o
}

func (m *Memory) begin(ctx context.Context, op, key string) error {
	m.mu.Lock()
	m.ops[op]++
	fail := m.Fail
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if fail != nil {
		return fail(op, key)
	}
	return nil
}

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, Info, error) {
	return ReadAll(ctx, m, key, Read{})
}

// Open implements Bucket.
func (m *Memory) Open(ctx context.Context, key string, r Read) (io.ReadCloser, Info, error) {
	if err := m.begin(ctx, "get", key); err != nil {
		return nil, Info{}, err
	}
	m.mu.Lock()
	o, ok := m.objects[key]
	m.mu.Unlock()
	if !ok {
		return nil, Info{}, fmt.Errorf("get %q: %w", key, ErrNotFound)
	}
	if r.IfMatch != "" && r.IfMatch != o.info.ETag {
		return nil, Info{}, fmt.Errorf("get %q: %w", key, ErrPrecondition)
	}
	data, err := r.window(key, o.data)
	return openBytes(data), o.info, err
}

// Head implements Bucket.
func (m *Memory) Head(ctx context.Context, key string) (Info, error) {
	if err := m.begin(ctx, "head", key); err != nil {
		return Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return Info{}, fmt.Errorf("head %q: %w", key, ErrNotFound)
	}
	return o.info, nil
}

// Put implements Bucket. The ETag follows from the content.
func (m *Memory) Put(ctx context.Context, key string, body []byte, c Condition) (string, error) {
	if err := m.begin(ctx, "put", key); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, exists := m.objects[key]
	if (c.IfNoneMatch && exists) || (c.IfMatch != "" && (!exists || old.info.ETag != c.IfMatch)) {
		return "", fmt.Errorf("put %q: %w", key, ErrPrecondition)
	}
	etag := Digest(body)[len(digestPrefix):][:32]
	m.objects[key] = memoryObject{data: slices.Clone(body), info: Info{Key: key, ETag: etag, Size: int64(len(body)), Modified: m.Now()}}
	return etag, nil
}

// List implements Bucket.
func (m *Memory) List(ctx context.Context, prefix string, yield func(Info) error) error {
	if err := m.begin(ctx, "list", prefix); err != nil {
		return err
	}
	for _, key := range m.Keys() {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := m.begin(ctx, "list-next", key); err != nil {
			return err
		}
		m.mu.Lock()
		o, ok := m.objects[key]
		m.mu.Unlock()
		if !ok {
			continue
		}
		info := o.info
		info.Metadata = nil // as S3: only Head and Get tell it
		if err := yield(info); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.begin(ctx, "delete", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}
