package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"quarry.dev/quarry/internal/access"
)

// PollInterval is how often a serving process looks for newer access data.
const PollInterval = 2 * time.Second

// DefaultMaxStaleness holds where a configuration gives none.
const DefaultMaxStaleness = 15 * time.Minute

// readTimeout bounds one look at the object storage.
const readTimeout = 5 * time.Second

// ReadOverlay returns the newest overlay of the corpus.
type ReadOverlay func(ctx context.Context) (access.Overlay, error)

// Overlays holds the newest access data. The epoch never goes back, whatever the storage says.
type Overlays struct {
	read         ReadOverlay
	maxStaleness time.Duration
	now          func() time.Time

	refreshing sync.Mutex
	current    atomic.Pointer[access.Overlay]
}

// NewOverlays returns a holder that has nothing yet. A maxStaleness of 0 means DefaultMaxStaleness.
func NewOverlays(read ReadOverlay, maxStaleness time.Duration) *Overlays {
	if maxStaleness <= 0 {
		maxStaleness = DefaultMaxStaleness
	}
	return &Overlays{read: read, maxStaleness: maxStaleness, now: time.Now}
}

// Refresh reads the newest overlay. On any error the one at hand stays, and grows older.
func (o *Overlays) Refresh(ctx context.Context) error {
	o.refreshing.Lock()
	defer o.refreshing.Unlock()
	return o.refresh(ctx)
}

func (o *Overlays) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := o.read(ctx)
	if err != nil {
		return fmt.Errorf("read the access overlay: %w", err)
	}
	if have := o.current.Load(); have != nil {
		if found.Epoch < have.Epoch {
			return fmt.Errorf("the access overlay in storage has epoch %d, older than %d that is served: restore the newer one", found.Epoch, have.Epoch)
		}
		if found.Epoch == have.Epoch {
			// One epoch is one overlay: only the time of its verification may be newer.
			if !found.VerifiedAt.After(have.VerifiedAt) {
				return nil
			}
			found = access.Overlay{Epoch: have.Epoch, VerifiedAt: found.VerifiedAt, Entries: have.Entries}
		}
	}
	o.current.Store(&found)
	return nil
}

// Run polls until ctx ends.
func (o *Overlays) Run(ctx context.Context, interval time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := o.Refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			log.Error("access data is not refreshed", "error", err)
		}
		if err == nil && failing {
			log.Info("access data is refreshed again", "epoch", o.Epoch())
		}
		failing = err != nil
	}
}

// Epoch is that of the overlay at hand, -1 without one.
func (o *Overlays) Epoch() int64 {
	if have := o.current.Load(); have != nil {
		return have.Epoch
	}
	return -1
}

// Age of the access data at hand: how long ago its source was last listed whole.
func (o *Overlays) Age() time.Duration {
	if have := o.current.Load(); have != nil {
		return o.now().Sub(have.VerifiedAt)
	}
	return 0
}

// errBehind: this side cannot reach the epoch that the other side has.
var errBehind = errors.New("access data is behind")

// Fresh returns the overlay to answer with, or a Problem where it is absent or too old.
func (o *Overlays) Fresh() (*access.Overlay, error) {
	have := o.current.Load()
	if have == nil {
		return nil, unavailable("access data is not loaded yet")
	}
	// A time far ahead of this clock proves no freshness either.
	if age := o.now().Sub(have.VerifiedAt); age > o.maxStaleness || age < -o.maxStaleness {
		return nil, problem(http.StatusServiceUnavailable, "AccessStale", "access data was last verified more than %v ago; no answer is given until it is verified again", o.maxStaleness)
	}
	return have, nil
}

// AtLeast returns a fresh overlay of that epoch or a newer one, and reads it first where it is not at hand.
func (o *Overlays) AtLeast(ctx context.Context, epoch int64) (*access.Overlay, error) {
	if o.Epoch() < epoch {
		o.refreshing.Lock()
		var err error
		if o.Epoch() < epoch { // not read by another request meanwhile
			err = o.refresh(ctx)
		}
		o.refreshing.Unlock()
		if err != nil || o.Epoch() < epoch {
			return nil, errBehind
		}
	}
	return o.Fresh()
}
