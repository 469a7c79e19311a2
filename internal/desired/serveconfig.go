package desired

import (
	"fmt"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/stage"
)

// ServeConfig is what the pods of a serving stack read. Everything in it is part of the version, the pipeline's access
// settings aside, whose change restarts the gateways in place.
func ServeConfig(p *v1alpha1.RetrievalPipeline, corpus *v1alpha1.Corpus, index *v1alpha1.Index) stage.Config {
	peer := func(part Part) string {
		return fmt.Sprintf("http://%s.%s.svc:%d", PartName(index.Name, part), index.Namespace, PortAPI)
	}
	config := stage.Config{
		Namespace: index.Namespace, Pipeline: p.Name, Tenant: index.Spec.Tenant, Corpus: corpus.Name, Index: index.Name,
		VersionDigest: index.Spec.VersionDigest, Snapshot: index.Spec.Snapshot.Digest,
		ContentDigest: ContentDigest(index), Image: index.Spec.Image,
		Artifacts: Location(corpus.Spec.Artifacts.S3.S3Location),
		Indexing:  index.Spec.Indexing, Retrieval: index.Spec.Retrieval,
		Identity: p.Spec.Access.Identity, MaxStaleness: p.Spec.Access.MaxStaleness.Duration,
		Peers: stage.Peers{BM25: peer(BM25Part), HNSW: peer(HNSWPart)},
	}
	if Reranks(index) {
		config.Peers.Reranker = peer(RerankerPart)
	}
	if s3 := corpus.Spec.Source.S3; s3 != nil {
		config.Source = Location(s3.S3Location)
	}
	if index.Status.Artifact != nil {
		config.ManifestDigest = index.Status.Artifact.Digest
	}
	return config
}

// Location is a bucket as the pods see it, without credentials.
func Location(l v1alpha1.S3Location) stage.Location {
	return stage.Location{Endpoint: l.Endpoint, Region: l.Region, Bucket: l.Bucket, Prefix: l.Prefix, Addressing: string(l.Addressing)}
}

// ContentDigest names what the Jobs make: it does not depend on retrieval, so a version that differs in that alone
// builds nothing.
func ContentDigest(index *v1alpha1.Index) string {
	return jsonDigest([]any{index.Spec.Snapshot.Digest, index.Spec.Indexing})
}
