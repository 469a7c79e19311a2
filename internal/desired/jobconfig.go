package desired

import (
	"encoding/json"
	"fmt"

	"quarry.dev/quarry/internal/stage"
)

// jobConfig is config.json of the Jobs: what they read and write, and by which recipe. It holds no credentials, and
// nothing that changes while the Jobs of one Index run.
func jobConfig(in JobsInput) ([]byte, error) {
	spec := in.Index.Spec
	config := stage.Config{
		Namespace: in.Index.Namespace, Pipeline: spec.PipelineRef.Name, Tenant: spec.Tenant, Corpus: spec.CorpusRef.Name,
		Index: in.Index.Name, VersionDigest: spec.VersionDigest, Snapshot: spec.Snapshot.Digest,
		ContentDigest: ContentDigest(in.Index), Image: spec.Image, Shards: in.Shards, Parent: in.Parent,
		Artifacts: Location(in.Corpus.Spec.Artifacts.S3.S3Location),
		Indexing:  spec.Indexing, Retrieval: spec.Retrieval,
	}
	if s3 := in.Corpus.Spec.Source.S3; s3 != nil {
		config.Source = Location(s3.S3Location)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("configuration of Index %q: %w", in.Index.Name, err)
	}
	return append(text, '\n'), nil
}
