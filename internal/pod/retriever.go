package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/search"
	"quarry.dev/quarry/internal/segment"
)

// Retriever runs a bm25 or hnsw pod until ctx ends.
func Retriever(ctx context.Context, role identity.Role, o Options) error {
	b, err := newBase(o, string(role))
	if err != nil {
		return err
	}
	ctx, stop, err := b.whileKeysLast(ctx, "public/gateway.pem")
	if err != nil {
		return err
	}
	defer stop()
	public, err := readFile(o.Etc, "public", "gateway.pem")
	if err != nil {
		return err
	}
	r := &search.Retriever{Index: b.config.Index, Overlays: b.overlays, Metrics: b.metrics, Log: o.Log}
	if r.Verifier, err = identity.NewInternalVerifier(b.stack, role, public); err != nil {
		return err
	}
	if err := b.process.Listen(o.AdminAddress, b.process.Admin(b.metrics, r.LastPlan), false); err != nil {
		return err
	}
	loaded, err := b.load(ctx, segment.Role(role))
	if err != nil {
		return ended(ctx, err)
	}
	defer loaded.Close()
	r.Table = loaded.Access
	if r.Ranker, err = newRanker(b, role, loaded); err != nil {
		return err
	}
	if err := b.selfQuery(ctx, role, r); err != nil {
		return ended(ctx, err)
	}
	go b.overlays.Run(ctx, search.PollInterval, o.Log)
	if err := b.process.Listen(o.Address, r.Handler(), true); err != nil {
		return err
	}
	b.process.SetReady()
	o.Log.Info("ready", "role", role, "index", b.config.Index, "epoch", b.overlays.Epoch())
	return b.process.Wait(ctx)
}

func newRanker(b *base, role identity.Role, loaded *segment.Loaded) (search.Ranker, error) {
	switch role {
	case identity.RoleBM25:
		return search.NewLexical(loaded.Numbers, loaded.BM25, b.config.Indexing.BM25)
	case identity.RoleHNSW:
		encoder, err := embed.Builtin(b.config.Indexing.Embedding.Model)
		if err != nil {
			return nil, err
		}
		return search.NewDense(loaded.Numbers, loaded.HNSW, encoder, loaded.Manifest.Attestation.EmbeddingModelDigest)
	}
	return nil, fmt.Errorf("role %q is no retriever: use bm25 or hnsw", role)
}

// selfQuery asks BM25 for words of the index's own passages, which are loaded for this alone; vectors answer any word.
func (b *base) selfQuery(ctx context.Context, role identity.Role, r *search.Retriever) error {
	if role != identity.RoleBM25 {
		return r.SelfQuery(slices.Values([]string{"readiness"}))
	}
	passages, err := b.load(ctx, segment.RoleGateway)
	if err != nil {
		return err
	}
	return errors.Join(r.SelfQuery(search.Texts(passages.Chunks)), passages.Close())
}
