package testenv

import (
	"context"
	"sync"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
)

// Buckets keeps two buckets in memory per Corpus, in place of object storage.
type Buckets struct {
	mu      sync.Mutex
	buckets map[string]*artifact.Memory
	fail    map[string]error
}

// Source is the bucket of the documents.
func (b *Buckets) Source(_ context.Context, c *v1alpha1.Corpus) (artifact.Bucket, error) {
	return b.open(c.Namespace + "/" + c.Name + "/source")
}

// Artifacts is the bucket of everything that Quarry writes. Corpora with equal prefixes share it.
func (b *Buckets) Artifacts(_ context.Context, c *v1alpha1.Corpus) (artifact.Bucket, error) {
	return b.open(c.Namespace + "/" + c.Spec.Artifacts.S3.Prefix + "/artifacts")
}

// SourceOf and ArtifactsOf are the same buckets, for a test to fill and to look at.
func (b *Buckets) SourceOf(c *v1alpha1.Corpus) *artifact.Memory {
	return b.of(c.Namespace + "/" + c.Name + "/source")
}

// ArtifactsOf is the bucket that Artifacts opens.
func (b *Buckets) ArtifactsOf(c *v1alpha1.Corpus) *artifact.Memory {
	return b.of(c.Namespace + "/" + c.Spec.Artifacts.S3.Prefix + "/artifacts")
}

// FailSource makes opening the source of the Corpus fail, until it is called with nil.
func (b *Buckets) FailSource(c *v1alpha1.Corpus, err error) {
	b.setFail(c.Namespace+"/"+c.Name+"/source", err)
}

// FailArtifacts makes opening the artifacts of the Corpus fail, until it is called with nil.
func (b *Buckets) FailArtifacts(c *v1alpha1.Corpus, err error) {
	b.setFail(c.Namespace+"/"+c.Spec.Artifacts.S3.Prefix+"/artifacts", err)
}

func (b *Buckets) setFail(key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail == nil {
		b.fail = map[string]error{}
	}
	b.fail[key] = err
}

func (b *Buckets) open(key string) (artifact.Bucket, error) {
	b.mu.Lock()
	err := b.fail[key]
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.of(key), nil
}

func (b *Buckets) of(key string) *artifact.Memory {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buckets == nil {
		b.buckets = map[string]*artifact.Memory{}
	}
	if b.buckets[key] == nil {
		b.buckets[key] = artifact.NewMemory()
	}
	return b.buckets[key]
}
