package rerank

import "context"

// encodeBatch passages are encoded between two looks at the deadline: enough to keep all cores busy, few enough that an
// answer which nobody waits for any more costs little.
const encodeBatch = 16

// passages computes a value of each passage once, as long as it is kept.
type passages[V any] struct {
	encode func([]string) []V
	kept   *cache[V]
	// turn is held by the one that encodes: requests that share the cores would all be late.
	turn chan struct{}
}

func newPassages[V any](encode func([]string) []V, size func(V) int, m *Metrics) *passages[V] {
	return &passages[V]{encode: encode, kept: newCache(cacheBytes, size, m), turn: make(chan struct{}, 1)}
}

// of returns the values of texts in their order. What was encoded before ctx ended is kept, for whoever asks again.
func (p *passages[V]) of(ctx context.Context, texts []string) ([]V, error) {
	keys := make([]contentKey, len(texts))
	for i, text := range texts {
		keys[i] = keyOf(text)
	}
	values, missing := p.kept.get(keys)
	if len(missing) == 0 {
		return values, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, contextFailure(ctx)
	}
	for len(missing) > 0 {
		if ctx.Err() != nil {
			return nil, contextFailure(ctx)
		}
		batch := missing[:min(encodeBatch, len(missing))]
		missing = missing[len(batch):]
		some := make([]string, len(batch))
		for i, at := range batch {
			some[i] = texts[at]
		}
		for i, value := range p.encode(some) {
			values[batch[i]] = value
			p.kept.put(keys[batch[i]], value)
		}
	}
	return values, nil
}
