package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
)

// SyncInput is all that one sync needs. Nothing else is remembered between two syncs but what lies in Artifacts.
type SyncInput struct {
	Source, Artifacts artifact.Bucket
	Owner             artifact.Owner
	Include, Exclude  []string
	Policy            access.Policy
	Guard             GuardSpec
	// Live are the snapshot digests of every Index that serves, or may come to serve: active, previous, preview, building.
	Live []string
	// MinEpoch is the highest epoch ever seen; a lost CURRENT pointer must not make epochs start again.
	MinEpoch int64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// InputFromSpec takes over globs, access rules and guard from a Corpus; buckets, owner and live digests are the caller's.
func InputFromSpec(spec v1alpha1.CorpusSpec) SyncInput {
	in := SyncInput{Policy: access.FromSpec(spec.Access)}
	if spec.Source.S3 != nil {
		in.Include, in.Exclude = spec.Source.S3.Include, spec.Source.S3.Exclude
	}
	in.Guard = GuardSpec{MaxPercent: spec.Sync.DeletionGuard.MaxPercent, MaxDocuments: spec.Sync.DeletionGuard.MaxDocuments}
	if a := spec.Sync.ApproveDeletions; a != nil {
		in.Guard.Approval = &Approval{Max: a.Max, ListingDigest: a.ListingDigest, Expires: a.Expires.Time}
	}
	return in
}

// SyncOutput is the outcome of one sync. Its digests are equal when nothing changed.
type SyncOutput struct {
	// Snapshot names the listing that the newest index should hold, with its size.
	Snapshot         string
	Documents, Bytes int64
	// Changes against what was published before; withheld deletions are not in Deleted but in Guarded.
	Changes Changes
	Guarded Guarded
	// Failures: unreadable sidecars, metadata and keys, all of them, sorted by document.
	Failures []Failure
	// Current is the pointer as it stands after this sync.
	Current Current
	// OverlayChanged tells that the epoch grew.
	OverlayChanged bool
	// LedgerKey is the object that lists all documents with their access.
	LedgerKey string
}

// Sync lists the source once and publishes the outcome. When it returns an error, what was published before still holds,
// unchanged; its VerifiedAt grows old, and serving refuses once that is older than maxStaleness.
func Sync(ctx context.Context, in SyncInput) (SyncOutput, error) {
	now := in.Now
	if now == nil {
		now = time.Now
	}
	started := now().UTC()
	if err := artifact.ClaimPrefix(ctx, in.Artifacts, in.Owner); err != nil {
		return SyncOutput{}, err
	}
	previous, err := readPrevious(ctx, in)
	if err != nil {
		return SyncOutput{}, err
	}
	listing, err := List(ctx, in.Source, Options{Include: in.Include, Exclude: in.Exclude, Policy: in.Policy, Previous: previous.entries})
	if err != nil {
		return SyncOutput{}, err
	}
	out := SyncOutput{Guarded: Guard(previous.entries, listing.Entries, in.Guard, started)}
	entries := out.Guarded.Entries
	Resolve(entries, in.Policy)
	out.Changes = Diff(previous.entries, entries)
	out.Documents, out.Bytes = int64(len(entries)), Snapshot{Entries: entries}.Bytes()
	out.Failures = append(listing.Failures, accessFailures(entries)...)
	slices.SortStableFunc(out.Failures, func(a, b Failure) int { return strings.Compare(a.Document, b.Document) })
	err = publish(ctx, in, previous, entries, started, &out)
	return out, err
}

// published is what the last sync left.
type published struct {
	entries []Entry
	current Current
	etag    string // of CURRENT; "" where there is none
	overlay access.Overlay
}

// readPrevious falls back to a live index's snapshot where CURRENT is lost, so that the guard still has a number to compare.
func readPrevious(ctx context.Context, in SyncInput) (published, error) {
	var p published
	var err error
	p.current, p.etag, err = ReadCurrent(ctx, in.Artifacts)
	if errors.Is(err, artifact.ErrNotFound) {
		if len(in.Live) == 0 {
			return published{}, nil
		}
		s, err := ReadSnapshot(ctx, in.Artifacts, in.Live[0])
		return published{entries: s.Entries}, err
	}
	if err != nil {
		return published{}, err
	}
	if p.overlay, err = readOverlayOf(ctx, in.Artifacts, p.current); err != nil {
		return published{}, err
	}
	p.entries, err = readLedger(ctx, in.Artifacts, p.current.Ledger)
	return p, err
}

// publish writes in an order in which a crash leaves only objects that nothing names yet: CURRENT moves last.
func publish(ctx context.Context, in SyncInput, prev published, entries []Entry, started time.Time, out *SyncOutput) error {
	next := Current{Epoch: prev.current.Epoch, Digest: prev.current.Digest, VerifiedAt: started}
	var err error
	if next.Snapshot, err = ensureSnapshot(ctx, in.Artifacts, prev, entries); err != nil {
		return err
	}
	if next.Ledger, err = ensureLedger(ctx, in.Artifacts, prev, entries); err != nil {
		return err
	}
	live, err := readLive(ctx, in, prev.current.Snapshot, next.Snapshot)
	if err != nil {
		return err
	}
	o := BuildOverlay(entries, live, max(prev.current.Epoch, in.MinEpoch)+1)
	if prev.etag != "" && prev.current.Epoch >= in.MinEpoch && maps.EqualFunc(o.Entries, prev.overlay.Entries, sameEntry) {
		err = writeCurrent(ctx, in.Artifacts, prev.etag, next)
	} else {
		out.OverlayChanged = true
		next, err = WriteOverlay(ctx, in.Artifacts, prev.etag, o, next)
	}
	if err != nil {
		return err
	}
	out.Snapshot, out.Current = next.Snapshot, next
	out.LedgerKey, err = artifact.LedgerKey(next.Ledger)
	return err
}

func sameEntry(a, b access.OverlayEntry) bool { return a.Gone == b.Gone && a.Allow.Equal(b.Allow) }

func ensureSnapshot(ctx context.Context, b artifact.Bucket, prev published, entries []Entry) (string, error) {
	if digest := ContentDigest(entries); digest == prev.current.Snapshot {
		return digest, nil
	}
	return WriteSnapshot(ctx, b, entries)
}

func ensureLedger(ctx context.Context, b artifact.Bucket, prev published, entries []Entry) (string, error) {
	lines, err := marshal(entries)
	if err != nil {
		return "", err
	}
	if digest := artifact.Digest(lines); digest == prev.current.Ledger {
		return digest, nil
	}
	return writeLedger(ctx, b, entries)
}

// readLive reads the listings that an index may be built of: those of the live indexes, the one published before (an
// index of it may have been created since the caller looked), and the new one, which may have been written long ago
// with other access.
func readLive(ctx context.Context, in SyncInput, also ...string) ([][]Entry, error) {
	digests := slices.Concat(in.Live, also)
	slices.Sort(digests)
	var live [][]Entry
	for _, digest := range slices.Compact(digests) {
		if digest == "" {
			continue
		}
		s, err := ReadSnapshot(ctx, in.Artifacts, digest)
		if err != nil {
			return nil, fmt.Errorf("snapshot %s: %w: restore the object, or delete the Indexes that were built of it", digest, err)
		}
		live = append(live, s.Entries)
	}
	return live, nil
}
