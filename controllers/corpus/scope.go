package corpus

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/source"
)

// scope holds the facts of one reconcile.
type scope struct {
	corpus *v1alpha1.Corpus
	// before is the Corpus as it was read; the status patch is the difference to it.
	before *v1alpha1.Corpus
	key    types.NamespacedName
	memory *memory
	now    time.Time
	// live are the snapshots of every Index that is there, the newest Index first.
	live    []string
	requeue time.Duration
}

// outcome is what a background task found.
type outcome struct {
	// generation of the spec that it was given.
	generation int64
	sync       source.SyncOutput
	err        error
	took       time.Duration
}

// memory is what this process knows of one Corpus. Losing it costs one more listing and no write.
type memory struct {
	uid types.UID
	// started, generation and live tell what the last task was given.
	started    time.Time
	generation int64
	live       string
	// last is the newest outcome, nil before the first.
	last *outcome
	// failures in a row.
	failures int
}

// memories are those of all Corpora.
type memories struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*memory
}

// of returns the memory of this very object: one that was deleted and made again starts anew.
func (m *memories) of(key types.NamespacedName, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[types.NamespacedName]*memory{}
	}
	found := m.byKey[key]
	if found == nil || found.uid != uid {
		found = &memory{uid: uid}
		m.byKey[key] = found
	}
	return found
}

func (m *memories) drop(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}
