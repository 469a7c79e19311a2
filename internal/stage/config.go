// Package stage holds the bodies of the Jobs that make an index: chunk, contextualize, embed and build. They know no
// Kubernetes: settings and keys are files, results are objects below the artifacts prefix, and what is told to the
// operator is one report object per shard, named in the termination message by its digest.
//
// Every result is stored under the document's content and the settings of its stage, so that an unchanged document is
// never chunked or embedded twice. A document that cannot be read is reported and left out; it never stops the others.
package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/segment"
)

// DefaultEtc is where settings and keys are mounted.
const DefaultEtc = "/etc/quarry"

// Location is a bucket without its credentials.
type Location struct {
	Endpoint   string `json:"endpoint"`
	Region     string `json:"region,omitempty"`
	Bucket     string `json:"bucket"`
	Prefix     string `json:"prefix,omitempty"`
	Addressing string `json:"addressing,omitempty"`
}

// Peers are base URLs of the other parts of a serving stack.
type Peers struct {
	BM25     string `json:"bm25,omitempty"`
	HNSW     string `json:"hnsw,omitempty"`
	Reranker string `json:"reranker,omitempty"`
}

// Config is <etc>/config/config.json: what the Jobs and the serving pods of one Index read. It holds no secret. Fields
// that a newer operator adds are ignored, since a version keeps the image that it was built with.
type Config struct {
	Namespace string `json:"namespace"`
	Pipeline  string `json:"pipeline"`
	Tenant    string `json:"tenant"`
	Corpus    string `json:"corpus"`
	Index     string `json:"index"`

	VersionDigest string `json:"versionDigest"`
	// Snapshot is the digest of the listing, ContentDigest that of the listing under the indexing settings.
	Snapshot      string `json:"snapshot"`
	ContentDigest string `json:"contentDigest"`
	Image         string `json:"image"`
	Shards        int32  `json:"shards,omitempty"`
	// Parent is the index whose segments the build keeps; it is set for the Jobs only.
	Parent Parent `json:"parent,omitzero"`

	Source    Location `json:"source"`
	Artifacts Location `json:"artifacts"`

	Indexing  v1alpha1.IndexingSpec  `json:"indexing"`
	Retrieval v1alpha1.RetrievalSpec `json:"retrieval"`

	// ManifestDigest is set for serving only, as are those below it. MaxStaleness is in nanoseconds.
	ManifestDigest string                `json:"manifestDigest,omitempty"`
	Identity       v1alpha1.IdentitySpec `json:"identity,omitzero"`
	MaxStaleness   time.Duration         `json:"maxStaleness,omitempty"`
	Peers          Peers                 `json:"peers,omitzero"`

	etc string
}

// ReadConfig reads <etc>/config/config.json; the bucket keys are read from beside it when a bucket is opened.
func ReadConfig(etc string) (Config, error) {
	path := filepath.Join(etc, "config", "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("settings: %w: mount the ConfigMap of the Index", err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("settings %s: %w", path, err)
	}
	c.etc = etc
	return c, c.validate()
}

func (c Config) validate() error {
	for field, value := range map[string]string{"index": c.Index, "snapshot": c.Snapshot, "contentDigest": c.ContentDigest} {
		if value == "" {
			return fmt.Errorf("settings: %s is empty", field)
		}
	}
	if strings.ContainsAny(c.Index, "/\\") {
		return fmt.Errorf("settings: index %q: is no name of an Index", c.Index)
	}
	return nil
}

// OpenSource opens the documents' bucket with the keys in <etc>/source.
func (c Config) OpenSource() (artifact.Bucket, error) { return c.open("source", c.Source) }

// OpenArtifacts opens the artifacts' bucket with the keys in <etc>/artifacts.
func (c Config) OpenArtifacts() (artifact.Bucket, error) { return c.open("artifacts", c.Artifacts) }

func (c Config) open(name string, l Location) (artifact.Bucket, error) {
	s3 := artifact.S3Config{Endpoint: l.Endpoint, Region: l.Region, Bucket: l.Bucket, Prefix: l.Prefix, Addressing: l.Addressing}
	var errs [4]error
	s3.AccessKeyID, errs[0] = readFile(c.etc, name, "accessKeyID")
	s3.SecretAccessKey, errs[1] = readFile(c.etc, name, "secretAccessKey")
	s3.SessionToken, errs[2] = readFile(c.etc, name, "sessionToken")
	var bundle string
	bundle, errs[3] = readFile(c.etc, name+"-ca", "ca.crt")
	s3.CABundle = []byte(bundle)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b, err := artifact.OpenS3(s3)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// readFile returns a file without blank ends, or "" where there is none: OpenS3 says what is missing.
func readFile(parts ...string) (string, error) {
	data, err := os.ReadFile(filepath.Join(parts...))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// LoadServing downloads what role needs of the configured index into dir, and verifies every digest.
func LoadServing(ctx context.Context, c Config, dir string, role segment.Role) (*segment.Loaded, error) {
	b, err := c.OpenArtifacts()
	if err != nil {
		return nil, err
	}
	return segment.Load(ctx, b, c.ContentDigest, c.ManifestDigest, dir, role)
}
