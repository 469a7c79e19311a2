package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
)

// Location is one bucket, without its credentials.
type Location struct {
	Endpoint   string `json:"endpoint"`
	Region     string `json:"region"`
	Bucket     string `json:"bucket"`
	Prefix     string `json:"prefix,omitempty"`
	Addressing string `json:"addressing,omitempty"`
}

// Config is the content of config.json, which the operator writes and every pod of an Index mounts.
type Config struct {
	Namespace string `json:"namespace"`
	Pipeline  string `json:"pipeline"`
	Tenant    string `json:"tenant"`
	Corpus    string `json:"corpus"`
	Index     string `json:"index"`
	// VersionDigest identifies the version; it is the audience of every internal token.
	VersionDigest string `json:"versionDigest"`
	// Snapshot is the digest of the listing; ContentDigest that of snapshot and indexing, where the manifest lies.
	Snapshot      string `json:"snapshot"`
	ContentDigest string `json:"contentDigest"`
	Image         string `json:"image"`
	// Shards is the number of completions of the sharded stages.
	Shards    int      `json:"shards,omitempty"`
	Source    Location `json:"source,omitzero"`
	Artifacts Location `json:"artifacts"`

	Indexing  v1alpha1.IndexingSpec  `json:"indexing"`
	Retrieval v1alpha1.RetrievalSpec `json:"retrieval"`

	// The rest is set for serving only. ManifestDigest is what the manifest must hash to.
	ManifestDigest string                `json:"manifestDigest,omitempty"`
	Identity       v1alpha1.IdentitySpec `json:"identity,omitzero"`
	// MaxStaleness is the age of access data above which nothing is answered.
	MaxStaleness time.Duration `json:"maxStaleness,omitempty"`
	Peers        Peers         `json:"peers,omitzero"`
}

// Peers are the base URLs of the retrievers that a gateway asks.
type Peers struct {
	BM25 string `json:"bm25,omitempty"`
	HNSW string `json:"hnsw,omitempty"`
}

// ReadConfig reads config/config.json below etc, the root of all that a pod mounts.
func ReadConfig(etc string) (Config, error) {
	path := filepath.Join(etc, "config", "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration that the operator mounts: %w", err)
	}
	var c Config
	if err := json.Unmarshal(text, &c); err != nil {
		return Config{}, fmt.Errorf("%s is not the configuration of a stage: %w", path, err)
	}
	return c, nil
}
