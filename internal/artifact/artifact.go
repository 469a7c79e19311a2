// Package artifact is object storage as Quarry uses it: buckets behind one narrow interface, digests, the layout below
// the artifacts prefix, content-addressed caches and manifests. Files are immutable and named by their digest; only the
// CURRENT pointers move, by conditional writes.
package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

var (
	// ErrNotFound: there is no such object (in a bucket that exists).
	ErrNotFound = errors.New("object not found")
	// ErrPrecondition: the condition of a read or write does not hold; somebody else was there, or the object changed.
	ErrPrecondition = errors.New("the object is not in the expected state")
	// ErrTooLarge: the object is larger than the reader allows.
	ErrTooLarge = errors.New("object is too large")
	// ErrDigest: the bytes are not those that their name promises.
	ErrDigest = errors.New("digest does not match")
)

// Info is what a listing says of one object. Key is relative to the bucket's prefix; ETag is opaque and without quotes;
// Size is in bytes. VersionID and Metadata (lower-case names) are set where the server gives them.
type Info struct {
	Key       string
	ETag      string
	Size      int64
	Modified  time.Time
	VersionID string
	Metadata  map[string]string
}

// Condition of a write. The zero value writes always.
type Condition struct {
	// IfMatch is the ETag that the object must have now.
	IfMatch string
	// IfNoneMatch: the object must not exist.
	IfNoneMatch bool
}

// Read limits a read. The zero value reads the whole object.
type Read struct {
	// IfMatch is the ETag that the object must have, or ErrPrecondition.
	IfMatch string
	// Offset in bytes, and Length in bytes (0: to the end).
	Offset, Length int64
	// MaxBytes refuses larger objects with ErrTooLarge (0: no limit).
	MaxBytes int64
}

// Bucket is one prefix of object storage. Keys are exact bytes, relative to the prefix. Implementations are safe for
// concurrent use, and their errors never hold a credential.
type Bucket interface {
	// Get returns the whole object.
	Get(ctx context.Context, key string) ([]byte, Info, error)
	// Open returns a stream of the object; the caller closes it.
	Open(ctx context.Context, key string, r Read) (io.ReadCloser, Info, error)
	// Head returns what Get would say, without the bytes.
	Head(ctx context.Context, key string) (Info, error)
	// Put writes the object under the condition and returns its new ETag.
	Put(ctx context.Context, key string, body []byte, c Condition) (etag string, err error)
	// List yields every object whose key starts with prefix, ascending by the bytes of the key, following every page.
	// Any error ends it, also one of yield; what was yielded before is then incomplete.
	List(ctx context.Context, prefix string, yield func(Info) error) error
	// Delete removes the object; one that is absent is no error.
	Delete(ctx context.Context, key string) error
}

// ReadAll returns the bytes that r selects, and refuses more than r.MaxBytes of them.
func ReadAll(ctx context.Context, b Bucket, key string, r Read) ([]byte, Info, error) {
	body, info, err := b.Open(ctx, key, r)
	if err != nil {
		return nil, Info{}, err
	}
	data, err := drain(body, key, info.Size, r)
	if err != nil {
		return nil, Info{}, err
	}
	return data, info, nil
}

func drain(body io.ReadCloser, key string, size int64, r Read) ([]byte, error) {
	defer body.Close()
	if r.MaxBytes > 0 && size > r.MaxBytes && r.Length == 0 {
		return nil, fmt.Errorf("%q has %d bytes, at most %d are read: %w", key, size, r.MaxBytes, ErrTooLarge)
	}
	src := io.Reader(body)
	if r.MaxBytes > 0 {
		src = io.LimitReader(body, r.MaxBytes+1)
	}
	data, err := io.ReadAll(src)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	if r.MaxBytes > 0 && int64(len(data)) > r.MaxBytes {
		return nil, fmt.Errorf("%q has more than %d bytes: %w", key, r.MaxBytes, ErrTooLarge)
	}
	return data, nil
}

// window checks r against an object of that size and returns the selected bytes.
func (r Read) window(key string, data []byte) ([]byte, error) {
	size := int64(len(data))
	if r.Offset < 0 || r.Length < 0 || r.Offset > size || r.Length > size-r.Offset {
		return nil, fmt.Errorf("range %d+%d of %q passes its %d bytes", r.Offset, r.Length, key, size)
	}
	if r.Length > 0 {
		return data[r.Offset : r.Offset+r.Length], nil
	}
	return data[r.Offset:], nil
}

// Digest returns "sha256:<64 hex digits>".
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

const digestPrefix = "sha256:"

// DigestHex returns the hex digits of a digest for use in a key, and refuses anything else: a digest comes from
// objects and specs, and must not lead out of its folder.
func DigestHex(digest string) (string, error) {
	h, ok := strings.CutPrefix(digest, digestPrefix)
	if raw, err := hex.DecodeString(h); !ok || err != nil || len(raw) != sha256.Size || h != strings.ToLower(h) {
		return "", fmt.Errorf("digest %q: is not sha256: and 64 lower-case hex digits", digest)
	}
	return h, nil
}

// PutImmutable writes an object whose name follows from its content. One that exists already is left as it is.
func PutImmutable(ctx context.Context, b Bucket, key string, body []byte) error {
	if _, err := b.Put(ctx, key, body, Condition{IfNoneMatch: true}); err != nil && !errors.Is(err, ErrPrecondition) {
		return err
	}
	return nil
}

// GetVerified reads an object and checks its digest.
func GetVerified(ctx context.Context, b Bucket, key, digest string) ([]byte, error) {
	data, _, err := b.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if got := Digest(data); got != digest {
		return nil, fmt.Errorf("%q: is %s, expected %s: %w; delete the damaged object, or restore it", key, got, digest, ErrDigest)
	}
	return data, nil
}

func openBytes(data []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(data)) }
