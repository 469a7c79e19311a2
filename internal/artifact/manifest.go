package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// FormatVersion of the segments and manifests that this release writes; it reads no other.
const FormatVersion = "3"

// FileRef names one file by its digest.
type FileRef struct {
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// SegmentRef is one immutable part of an index. Files maps a file's name, such as bm25.seg, to its digest.
type SegmentRef struct {
	Digest    string             `json:"digest"`
	Files     map[string]FileRef `json:"files"`
	Documents uint32             `json:"documents"`
	Chunks    uint32             `json:"chunks"`
	// Tombstones name the dead of the segment: documents that a later segment replaces, or that left the source. It is nil
	// where all of them live.
	Tombstones *Tombstones `json:"tombstones,omitempty"`
}

// Tombstones are a file beside those of the segment, and how much of the segment it takes away.
type Tombstones struct {
	FileRef
	Documents uint32 `json:"documents"`
	Chunks    uint32 `json:"chunks"`
}

// Objects are all files of the segment by their keys, tombstones included.
func (s SegmentRef) Objects() (map[string]FileRef, error) {
	out := map[string]FileRef{}
	for name, file := range s.Files {
		key, err := SegmentKey(s.Digest, name)
		if err != nil {
			return nil, err
		}
		out[key] = file
	}
	if s.Tombstones != nil {
		key, err := TombstonesKey(s.Digest, s.Tombstones.Digest)
		if err != nil {
			return nil, err
		}
		out[key] = s.Tombstones.FileRef
	}
	return out, nil
}

// Attestation says what the vectors and terms were made with.
type Attestation struct {
	EmbeddingModelDigest string `json:"embeddingModelDigest"`
	// EmbeddingKernels are the sets of CPU instructions whose roundings the vectors carry, sorted, with commas between them.
	EmbeddingKernels string `json:"embeddingKernels"`
	Dimensions       int32  `json:"dimensions"`
	Analyzer         string `json:"analyzer"`
	FormatVersion    string `json:"formatVersion"`
}

// Counts of an index. They are facts of its content, never of how much work a build spared.
type Counts struct {
	Documents       int64 `json:"documents"`
	FailedDocuments int64 `json:"failedDocuments"`
	Chunks          int64 `json:"chunks"`
	Tokens          int64 `json:"tokens"`
}

// Manifest is the table of contents of an index: equal inputs give equal bytes.
type Manifest struct {
	FormatVersion string `json:"formatVersion"`
	Snapshot      string `json:"snapshot"`
	// IndexingDigest covers the settings and the versions of the stages: segments of equal ones may lie in one index.
	IndexingDigest string `json:"indexingDigest"`
	// Parent is the digest of the manifest whose segments were kept; empty where every segment was written anew.
	Parent      string       `json:"parent,omitempty"`
	Segments    []SegmentRef `json:"segments"`
	Attestation Attestation  `json:"attestation"`
	Counts      Counts       `json:"counts"`
}

// Bytes is the sum over all files.
func (m Manifest) Bytes() (total int64) {
	for _, s := range m.Segments {
		for _, f := range s.Files {
			total += f.Bytes
		}
		if s.Tombstones != nil {
			total += s.Tombstones.Bytes
		}
	}
	return total
}

// SegmentDigest names a segment by its files: sha256 over the sorted names and digests.
func SegmentDigest(files map[string]FileRef) (string, error) {
	body, err := json.Marshal(files) // keys are sorted
	return Digest(body), err
}

// WriteManifest stores m as indexes/<contentDigest>/manifest.json. Where another manifest has that name already, because
// a document could not be read then or now, the new one goes beside it under its own digest: a serving stack may need
// the old one. It returns the key and the digest of the bytes.
func WriteManifest(ctx context.Context, b Bucket, contentDigest string, m Manifest) (key, digest string, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return "", "", err
	}
	digest = Digest(body)
	keys, err := manifestKeys(contentDigest, digest)
	if err != nil {
		return "", "", err
	}
	for _, key := range keys {
		_, err = b.Put(ctx, key, body, Condition{IfNoneMatch: true})
		if err == nil {
			return key, digest, nil
		}
		if !errors.Is(err, ErrPrecondition) {
			return "", "", err
		}
		if _, err = GetVerified(ctx, b, key, digest); err == nil {
			return key, digest, nil
		}
		if !errors.Is(err, ErrDigest) {
			return "", "", err
		}
	}
	return "", "", err
}

// ErrFormat: the manifest is whole, but of a format that this release does not read.
var ErrFormat = errors.New("the manifest is of another format")

// ReadManifest returns the manifest of that content and digest, and checks both the digest and the format version.
func ReadManifest(ctx context.Context, b Bucket, contentDigest, digest string) (Manifest, error) {
	keys, err := manifestKeys(contentDigest, digest)
	if err != nil {
		return Manifest{}, err
	}
	var body []byte
	for _, key := range keys {
		body, err = GetVerified(ctx, b, key, digest)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrDigest) && !errors.Is(err, ErrNotFound) {
			return Manifest{}, err
		}
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest %s: %w", digest, err)
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return Manifest{}, fmt.Errorf("manifest %s: %w: %w", digest, ErrFormat, err)
	}
	if m.FormatVersion != FormatVersion {
		return Manifest{}, fmt.Errorf("manifest %s: %w: formatVersion is %q, this release reads %q: serve it with the image that built it, or build again",
			digest, ErrFormat, m.FormatVersion, FormatVersion)
	}
	return m, nil
}

func manifestKeys(contentDigest, digest string) ([]string, error) {
	plain, err := named("indexes/", contentDigest, "/manifest.json")
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	h, err := DigestHex(digest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	own, err := named("indexes/", contentDigest, "/manifest-"+h+".json")
	return []string{plain, own}, err
}

// FindManifest returns the manifest of that content, its key and its digest, or ErrNotFound: what was built before need
// not be built again.
func FindManifest(ctx context.Context, b Bucket, contentDigest string) (m Manifest, key, digest string, err error) {
	if key, err = named("indexes/", contentDigest, "/manifest.json"); err != nil {
		return Manifest{}, "", "", fmt.Errorf("content: %w", err)
	}
	body, _, err := b.Get(ctx, key)
	if err != nil {
		return Manifest{}, "", "", err
	}
	digest = Digest(body)
	m, err = ReadManifest(ctx, b, contentDigest, digest)
	return m, key, digest, err
}
