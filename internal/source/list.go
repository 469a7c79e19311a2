package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sync/errgroup"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
)

// MetadataKey is the user metadata (x-amz-meta-quarry-allow) that may hold a document's access, written as a sidecar is.
const MetadataKey = "quarry-allow"

// Reasons of a Failure.
const (
	ReasonSidecarUnreadable  = "SidecarUnreadable"
	ReasonMetadataUnreadable = "MetadataUnreadable"
	ReasonInvalidKey         = "InvalidKey"
)

// accessReads is the number of sidecars and heads that are read at a time.
const accessReads = 16

// Failure is one document that a sync could not take as it is.
type Failure struct {
	Document string `json:"document"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// Options of a listing. Globs are relative to the prefix, ** matches any number of folders; Exclude wins. An empty
// Include takes every object. Previous is the last published listing: what it knows is not read again.
type Options struct {
	Include, Exclude []string
	Policy           access.Policy
	Previous         []Entry
}

// Listing is a whole source, sorted by key.
type Listing struct {
	Entries  []Entry
	Failures []Failure
}

// List pages through the whole source and resolves who may read each document. Any error means that nothing is known.
// Markers (keys that end in a slash) are skipped; empty objects are documents. An unreadable sidecar is no error: nobody
// may read its document, and it is a Failure.
func List(ctx context.Context, src artifact.Bucket, o Options) (Listing, error) {
	for field, globs := range map[string][]string{"include": o.Include, "exclude": o.Exclude} {
		for _, g := range globs {
			if !doublestar.ValidatePattern(g) {
				return Listing{}, fmt.Errorf("%s: %q is no valid glob: write for instance **/*.md, and escape [ and { with \\", field, g)
			}
		}
	}
	var out Listing
	sidecars := map[string]string{} // document -> ETag of its sidecar
	err := src.List(ctx, "", func(i artifact.Info) error {
		if strings.HasSuffix(i.Key, "/") {
			return nil
		}
		if document, ok := o.Policy.IsSidecar(i.Key); ok {
			sidecars[document] = i.ETag
			return nil
		}
		if !o.wants(i.Key) {
			return nil
		}
		if !utf8.ValidString(i.Key) {
			out.Failures = append(out.Failures, Failure{Document: strings.ToValidUTF8(i.Key, "\uFFFD"), Reason: ReasonInvalidKey,
				Message: "the key is not valid UTF-8: rename the object"})
			return nil
		}
		out.Entries = append(out.Entries, Entry{Key: i.Key, ETag: i.ETag, Size: i.Size, Modified: i.Modified.UTC(), VersionID: i.VersionID})
		return nil
	})
	if err != nil {
		return Listing{}, fmt.Errorf("list the source: %w", err)
	}
	if err := readAccess(ctx, src, out.Entries, sidecars, o); err != nil {
		return Listing{}, err
	}
	Resolve(out.Entries, o.Policy)
	return out, nil
}

func (o Options) wants(key string) bool {
	return (len(o.Include) == 0 || matches(o.Include, key)) && !matches(o.Exclude, key)
}

func matches(globs []string, key string) bool {
	for _, g := range globs {
		if doublestar.MatchUnvalidated(g, key) {
			return true
		}
	}
	return false
}

// Resolve sets Allow of each entry from the policy and from what was read of its sidecar and metadata.
func Resolve(entries []Entry, p access.Policy) {
	for i := range entries {
		e := &entries[i]
		e.Allow = p.Resolve(e.Key, e.Sidecar, e.Metadata)
	}
}

// accessFailures are those of the published entries, in key order.
func accessFailures(entries []Entry) (out []Failure) {
	for _, e := range entries {
		if e.AccessError == "" {
			continue
		}
		reason := ReasonMetadataUnreadable
		if e.Sidecar != nil {
			reason = ReasonSidecarUnreadable
		}
		out = append(out, Failure{Document: e.Key, Reason: reason, Message: e.AccessError + "; nobody can read the document until it is corrected"})
	}
	return out
}

// readAccess fills in sidecars and metadata: from Previous where nothing changed, else from the source.
func readAccess(ctx context.Context, src artifact.Bucket, entries []Entry, sidecars map[string]string, o Options) error {
	var stale []*Entry
	walk(o.Previous, entries, func(old, now *Entry) {
		if now == nil {
			return
		}
		if old != nil && old.MetadataRead && old.ETag == now.ETag && old.Modified.Equal(now.Modified) {
			now.Metadata, now.MetadataRead = old.Metadata, true
			if old.Sidecar == nil {
				now.AccessError = old.AccessError
			}
		}
		etag, has := sidecars[now.Key]
		known := !has
		if has && old != nil && old.Sidecar != nil && old.SidecarETag == etag && etag != "" {
			now.Sidecar, now.SidecarETag, now.AccessError, known = old.Sidecar, etag, old.AccessError, true
		}
		if !known || !now.MetadataRead {
			stale = append(stale, now)
		}
	})
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(accessReads)
	for _, e := range stale {
		g.Go(func() error {
			if !e.MetadataRead {
				if err := readMetadata(ctx, src, e); err != nil {
					return err
				}
			}
			if etag, has := sidecars[e.Key]; has && e.Sidecar == nil {
				return readSidecar(ctx, src, e, e.Key+o.Policy.SidecarSuffix, etag)
			}
			return nil
		})
	}
	return g.Wait()
}

// readSidecar never returns an error that is a property of the sidecar: those make the document unreadable for all.
func readSidecar(ctx context.Context, src artifact.Bucket, e *Entry, key, etag string) error {
	nobody := access.Nobody()
	e.Sidecar, e.SidecarETag, e.AccessError = &nobody, etag, ""
	data, info, err := artifact.ReadAll(ctx, src, key, artifact.Read{MaxBytes: access.MaxSidecar})
	switch {
	case err == nil && info.ETag != etag:
		e.SidecarETag = "" // it changed meanwhile; the next sync reads it again
	case errors.Is(err, artifact.ErrTooLarge):
		e.AccessError = fmt.Sprintf("the sidecar %q is larger than %d bytes: use groups", key, access.MaxSidecar)
		return nil
	case errors.Is(err, artifact.ErrNotFound), artifact.ReasonOf(err) == artifact.ReasonAccessDenied:
		e.SidecarETag, e.AccessError = "", fmt.Sprintf("the sidecar %q cannot be read: %v", key, err)
		return nil
	case err != nil:
		return fmt.Errorf("read sidecar %q: %w", key, err)
	}
	allow, err := access.ParseSidecar(data)
	if err != nil {
		e.AccessError = fmt.Sprintf("the sidecar %q is not valid: %v", key, err)
		return nil
	}
	e.Sidecar = &allow
	return nil
}

func readMetadata(ctx context.Context, src artifact.Bucket, e *Entry) error {
	nobody := access.Nobody()
	info, err := src.Head(ctx, e.Key)
	switch {
	case errors.Is(err, artifact.ErrNotFound), artifact.ReasonOf(err) == artifact.ReasonAccessDenied:
		e.Metadata, e.AccessError = &nobody, fmt.Sprintf("the object's metadata cannot be read: %v", err)
		return nil
	case err != nil:
		return fmt.Errorf("read metadata of %q: %w", e.Key, err)
	}
	e.MetadataRead = true
	text, ok := info.Metadata[MetadataKey]
	if !ok {
		return nil
	}
	allow, err := access.ParseSidecar([]byte(text))
	if err != nil {
		e.Metadata, e.AccessError = &nobody, fmt.Sprintf("the metadata %s is not valid: %v", MetadataKey, err)
		return nil
	}
	e.Metadata = &allow
	return nil
}
