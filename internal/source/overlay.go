package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
)

// ErrConflict: another writer moved CURRENT meanwhile. Nothing is lost; the next sync starts from what it wrote.
var ErrConflict = errors.New("another writer published an overlay meanwhile: the next sync starts from it")

// Current is the one pointer that moves: it names the overlay that holds, the listing that the newest index should hold,
// and the ledger that the next sync compares with.
type Current struct {
	Epoch int64 `json:"epoch"`
	// Digest of the bytes of overlay/<epoch>.json.
	Digest string `json:"digest"`
	// VerifiedAt is when the last whole listing that led here began: how fresh the access data is.
	VerifiedAt time.Time `json:"verifiedAt"`
	Snapshot   string    `json:"snapshot,omitempty"`
	Ledger     string    `json:"ledger,omitempty"`
}

// BuildOverlay compares the published documents with the listings that live indexes were built of (each sorted by key).
// For every key that a live index holds with other content or access it says the present access, or Gone.
func BuildOverlay(current []Entry, live [][]Entry, epoch int64) access.Overlay {
	o := access.Overlay{Epoch: epoch, Entries: map[string]access.OverlayEntry{}}
	for _, l := range live {
		walk(l, current, func(built, now *Entry) {
			switch {
			case built == nil: // no live index of this listing holds it
			case now == nil:
				o.Entries[built.Key] = access.OverlayEntry{Gone: true, Allow: access.Nobody()}
			case built.ETag != now.ETag || built.Size != now.Size || !built.Allow.Equal(now.Allow):
				o.Entries[now.Key] = access.OverlayEntry{Allow: append(access.Allow{}, now.Allow...)}
			}
		})
	}
	return o
}

// ReadCurrent returns the pointer and its ETag, or artifact.ErrNotFound before the first sync.
func ReadCurrent(ctx context.Context, b artifact.Bucket) (Current, string, error) {
	data, info, err := b.Get(ctx, artifact.CurrentKey)
	if err != nil {
		return Current{}, "", err
	}
	var c Current
	if err := json.Unmarshal(data, &c); err != nil {
		return Current{}, "", fmt.Errorf("%s: is damaged (%w): delete it, and the next sync writes it anew", artifact.CurrentKey, err)
	}
	if _, err := artifact.DigestHex(c.Digest); err != nil || c.Epoch < 1 {
		return Current{}, "", fmt.Errorf("%s: epoch %d or digest %q is invalid: delete it, and the next sync writes it anew", artifact.CurrentKey, c.Epoch, c.Digest)
	}
	return c, info.ETag, nil
}

// ReadOverlay returns the overlay that holds now, verified by digest, and the ETag of CURRENT: while that is the same,
// nothing changed, the time of verification included.
func ReadOverlay(ctx context.Context, b artifact.Bucket) (access.Overlay, string, error) {
	c, etag, err := ReadCurrent(ctx, b)
	if err != nil {
		return access.Overlay{}, "", err
	}
	o, err := readOverlayOf(ctx, b, c)
	return o, etag, err
}

func readOverlayOf(ctx context.Context, b artifact.Bucket, c Current) (access.Overlay, error) {
	data, err := artifact.GetVerified(ctx, b, artifact.OverlayKey(c.Epoch), c.Digest)
	if err != nil {
		return access.Overlay{}, err
	}
	var o access.Overlay
	if err := json.Unmarshal(data, &o); err != nil {
		return access.Overlay{}, fmt.Errorf("overlay %d: %w", c.Epoch, err)
	}
	if o.Epoch != c.Epoch {
		return access.Overlay{}, fmt.Errorf("overlay %d: says that it is of epoch %d", c.Epoch, o.Epoch)
	}
	for key, e := range o.Entries {
		if _, err := access.NewAllow(e.Allow...); err != nil {
			return access.Overlay{}, fmt.Errorf("overlay %d: %q: %w", c.Epoch, key, err)
		}
	}
	o.VerifiedAt = c.VerifiedAt
	return o, nil
}

// WriteOverlay stores the overlay and moves CURRENT to it, if CURRENT still has prevETag ("": it does not exist). An
// epoch that a crashed writer used up is skipped. It returns what CURRENT now says, with next's snapshot and ledger.
func WriteOverlay(ctx context.Context, b artifact.Bucket, prevETag string, o access.Overlay, next Current) (Current, error) {
	for range overlayAttempts {
		body, err := json.Marshal(o)
		if err != nil {
			return Current{}, err
		}
		next.Epoch, next.Digest = o.Epoch, artifact.Digest(body)
		_, err = b.Put(ctx, artifact.OverlayKey(o.Epoch), body, artifact.Condition{IfNoneMatch: true})
		if errors.Is(err, artifact.ErrPrecondition) {
			if _, err = artifact.GetVerified(ctx, b, artifact.OverlayKey(o.Epoch), next.Digest); errors.Is(err, artifact.ErrDigest) {
				o.Epoch++
				continue
			}
		}
		if err != nil {
			return Current{}, err
		}
		return next, writeCurrent(ctx, b, prevETag, next)
	}
	return Current{}, fmt.Errorf("overlay: epochs up to %d are taken: %w", o.Epoch, ErrConflict)
}

const overlayAttempts = 100

func writeCurrent(ctx context.Context, b artifact.Bucket, prevETag string, c Current) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, artifact.CurrentKey, append(body, '\n'), artifact.Condition{IfMatch: prevETag, IfNoneMatch: prevETag == ""})
	if errors.Is(err, artifact.ErrPrecondition) {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}
