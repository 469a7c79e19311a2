// Package source follows the documents of a corpus: it lists them whole, compares the listing with the last one, guards
// against mass deletions, and publishes the result as an immutable snapshot (what an index is built of) and as an
// overlay (who may read what now). A listing that fails changes nothing.
package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
)

// Entry is one document of a listing. Key is relative to the source's prefix, ETag is opaque, Size is in bytes.
type Entry struct {
	Key       string       `json:"key"`
	ETag      string       `json:"etag"`
	Size      int64        `json:"size"`
	Modified  time.Time    `json:"modified"`
	VersionID string       `json:"versionId,omitempty"`
	Allow     access.Allow `json:"allow"`

	// Sidecar and Metadata are what Allow was resolved from; nil where there is none. An unreadable one is empty.
	Sidecar  *access.Allow `json:"sidecar,omitempty"`
	Metadata *access.Allow `json:"metadata,omitempty"`
	// SidecarETag is the version of the sidecar that was read; empty where it must be read again.
	SidecarETag string `json:"sidecarETag,omitempty"`
	// MetadataRead tells that the object's metadata was asked for at this ETag and modification time.
	MetadataRead bool `json:"metadataRead,omitempty"`
	// AccessError says why the sidecar or the metadata could not be read; nobody may then read the document.
	AccessError string `json:"accessError,omitempty"`
}

// Snapshot is a sorted listing. Its digest covers keys, ETags and sizes only: a change of access never re-indexes.
type Snapshot struct {
	Digest  string
	Entries []Entry
}

// Bytes is the sum of all sizes.
func (s Snapshot) Bytes() (total int64) {
	for _, e := range s.Entries {
		total += e.Size
	}
	return total
}

// ContentDigest is the digest of a snapshot of these entries, which are sorted by key.
func ContentDigest(entries []Entry) string {
	return digestOf(entries, func(e Entry) []string { return []string{e.Key, e.ETag, fmt.Sprint(e.Size)} })
}

// listingDigest covers the sidecars too: consent to deletions is consent to exactly what was listed.
func listingDigest(entries []Entry) string {
	return digestOf(entries, func(e Entry) []string { return []string{e.Key, e.ETag, fmt.Sprint(e.Size), e.SidecarETag} })
}

func digestOf(entries []Entry, fields func(Entry) []string) string {
	h := sha256.New()
	for _, e := range entries {
		for _, f := range fields(e) {
			fmt.Fprintf(h, "%d:%s", len(f), f)
		}
		io.WriteString(h, "\n")
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// WriteSnapshot stores the listing where it is absent and returns its digest. One that is there keeps the access that
// it was written with: indexes may have been built of it, and the overlay knows the difference.
func WriteSnapshot(ctx context.Context, b artifact.Bucket, entries []Entry) (string, error) {
	body, err := encode(entries)
	if err != nil {
		return "", err
	}
	digest := ContentDigest(entries)
	key, err := artifact.SnapshotKey(digest)
	if err != nil {
		return "", err
	}
	return digest, artifact.PutImmutable(ctx, b, key, body)
}

// ReadSnapshot reads a listing and verifies its order and digest.
func ReadSnapshot(ctx context.Context, b artifact.Bucket, digest string) (Snapshot, error) {
	key, err := artifact.SnapshotKey(digest)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	entries, _, err := readEntries(ctx, b, key)
	if err != nil {
		return Snapshot{}, err
	}
	if got := ContentDigest(entries); got != digest {
		return Snapshot{}, fmt.Errorf("snapshot %q: is %s: %w", key, got, artifact.ErrDigest)
	}
	return Snapshot{Digest: digest, Entries: entries}, nil
}

// writeLedger stores all that is known of the documents, access included, and returns the digest of it.
func writeLedger(ctx context.Context, b artifact.Bucket, entries []Entry) (string, error) {
	lines, err := marshal(entries)
	if err != nil {
		return "", err
	}
	body, err := compress(lines)
	if err != nil {
		return "", err
	}
	digest := artifact.Digest(lines)
	key, err := artifact.LedgerKey(digest)
	if err != nil {
		return "", err
	}
	return digest, artifact.PutImmutable(ctx, b, key, body)
}

// ReadLedger returns the documents as the last sync published them, with what their access was resolved from: what a guard
// withholds is still among them. It is artifact.ErrNotFound before the first sync.
func ReadLedger(ctx context.Context, b artifact.Bucket) ([]Entry, error) {
	current, _, err := ReadCurrent(ctx, b)
	if err != nil {
		return nil, err
	}
	return readLedger(ctx, b, current.Ledger)
}

func readLedger(ctx context.Context, b artifact.Bucket, digest string) ([]Entry, error) {
	key, err := artifact.LedgerKey(digest)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	entries, lines, err := readEntries(ctx, b, key)
	if err == nil && lines != digest {
		err = fmt.Errorf("ledger %q: is %s: %w", key, lines, artifact.ErrDigest)
	}
	return entries, err
}

func marshal(entries []Entry) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), nil
}

func encode(entries []Entry) ([]byte, error) {
	lines, err := marshal(entries)
	if err != nil {
		return nil, err
	}
	return compress(lines)
}

// Whoever reads a listing must know what it may unpack to, or a few bytes could fill the memory: at most unpackedTimes its size
// and unpackedBase bytes beside it. A listing usually unpacks to five times its size; one that repeats long lists of readers to
// much more, and is padded.
const (
	unpackedTimes = 32
	unpackedBase  = 64 << 10
	// listingWindow is that of the encoder: how far back a listing refers to itself, in bytes.
	listingWindow = 8 << 20
)

func compress(lines []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(listingWindow))
	if err != nil {
		return nil, err
	}
	_, err = w.Write(lines)
	err = errors.Join(err, w.Close())
	return pad(buf.Bytes(), (len(lines)-unpackedBase+unpackedTimes-1)/unpackedTimes), err
}

// pad makes a file at least that long, by a frame that every decoder skips (RFC 8878, 3.1.2): magic word, length, zeros.
func pad(file []byte, least int) []byte {
	missing := least - len(file)
	if missing <= 0 {
		return file
	}
	file = append(file, 0x50, 0x2a, 0x4d, 0x18)
	file = binary.LittleEndian.AppendUint32(file, uint32(missing))
	return append(file, make([]byte, missing)...)
}

// readEntries streams the lines of a listing, checks that they are sorted, and returns the digest of the lines too.
func readEntries(ctx context.Context, b artifact.Bucket, key string) (entries []Entry, digest string, err error) {
	body, info, err := b.Open(ctx, key, artifact.Read{})
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(listingWindow))
	if err != nil {
		return nil, "", fmt.Errorf("listing %q: %w", key, err)
	}
	defer z.Close()
	h := sha256.New()
	unpacked := &io.LimitedReader{R: z, N: unpackedTimes*info.Size + unpackedBase + 1}
	dec := json.NewDecoder(bufio.NewReader(io.TeeReader(unpacked, h)))
	for {
		if len(entries) == cap(entries) {
			entries = slices.Grow(entries, 64+len(entries)) // twice, where append takes a quarter more and copies more often
		}
		n := len(entries)
		entries = append(entries, Entry{})
		err := dec.Decode(&entries[n])
		if unpacked.N <= 0 {
			return nil, "", fmt.Errorf("listing %q: %d bytes unpack to more than a sync writes: delete it, and the next sync writes it anew", key, info.Size)
		}
		if errors.Is(err, io.EOF) {
			return entries[:n], "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("listing %q: %w", key, err)
		}
		if n > 0 && strings.Compare(entries[n-1].Key, entries[n].Key) >= 0 {
			return nil, "", fmt.Errorf("listing %q: is not sorted at %q", key, entries[n].Key)
		}
	}
}
