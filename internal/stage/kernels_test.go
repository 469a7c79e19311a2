package stage

import (
	"testing"

	"quarry.dev/quarry/internal/artifact"
)

func manifestOf(t *testing.T, b *bench, build Report) artifact.Manifest {
	t.Helper()
	m, err := artifact.ReadManifest(ctx, b.art, b.env.Config.ContentDigest, build.ManifestDigest)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A version tells of every set of kernels that made one of its vectors, those of reused ones included.
func TestKernelsOfReusedVectorsAreAttested(t *testing.T) {
	b := newBench(t, 6)
	b.sync()
	if _, _, build := b.run(); manifestOf(t, b, build).Attestation.EmbeddingKernels != "exact" {
		t.Fatalf("attestation %+v", manifestOf(t, b, build).Attestation)
	}
	b.put("d03.md", "# Topic 3\n\nAnother node made the vector of this.\n")
	b.sync()
	b.env.Config.Index = "support-acme-2"
	for shard := range b.env.shards() {
		if _, err := Chunk(ctx, b.env, shard); err != nil {
			t.Fatal(err)
		}
	}
	embedElsewhere(t, b, "d03.md", "avx2")
	if _, embeds, build := b.run(); manifestOf(t, b, build).Attestation.EmbeddingKernels != "avx2,exact" || embeds.Reused != embeds.Chunks {
		t.Fatalf("attestation %+v, embed stage %+v", manifestOf(t, b, build).Attestation, embeds)
	}
}

// embedElsewhere stores vectors for one document as a node with those kernels would.
func embedElsewhere(t *testing.T, b *bench, key, kernels string) {
	t.Helper()
	s, err := b.env.settings()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := artifact.OpenCache(ctx, b.art, NameEmbed, s.embed)
	if err != nil {
		t.Fatal(err)
	}
	w := cache.NewWriter()
	for shard := range b.env.shards() {
		docs, err := b.env.documents(ctx, shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			if d.Key != key {
				continue
			}
			if err := w.Add(ctx, cacheKey(d), encodeVectors(kernels, s.encoder.Encode([]string{key}))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedVectorsAreRefused(t *testing.T) {
	whole := encodeVectors("avx-vnni", [][]float32{{1, 2}, {3, 4}})
	got, err := decodeVectors(2)(whole)
	if err != nil || got.kernels != "avx-vnni" || len(got.vectors) != 2 || got.vectors[1][0] != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, n := range []int{0, 1, 5, len(whole) - 1} {
		if _, err := decodeVectors(2)(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for vectors", n, len(whole))
		}
	}
}
