package pod

import (
	"context"
	"path/filepath"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/rerank"
	"quarry.dev/quarry/internal/search"
)

// Reranker runs a reranker pod until ctx ends. It reads the configuration and a public key and, for an endpoint, the API
// key in <etc>/rerank/apiKey and certificates in <etc>/rerank-ca/ca.crt; it has no index, no access data and no keys of a
// bucket.
func Reranker(ctx context.Context, o Options) error {
	b, err := newPlainBase(o)
	if err != nil {
		return err
	}
	b.metrics = search.NewMetrics("reranker", nil)
	ctx, stop, err := b.whileKeysLast(ctx, "public/gateway.pem")
	if err != nil {
		return err
	}
	defer stop()
	public, err := readFile(o.Etc, "public", "gateway.pem")
	if err != nil {
		return err
	}
	r := &search.Reranker{Index: b.config.Index, Metrics: b.metrics, Scoring: rerank.NewMetrics(b.metrics.Labelled), Log: o.Log}
	if r.Verifier, err = identity.NewInternalVerifier(b.stack, identity.RoleReranker, public); err != nil {
		return err
	}
	if err := b.process.Listen(o.AdminAddress, b.process.Admin(b.metrics, nil), false); err != nil {
		return err
	}
	spec := b.config.Retrieval.Rerank
	r.Scorer, err = rerank.New(spec, rerank.Options{Metrics: r.Scoring,
		KeyFile: filepath.Join(o.Etc, "rerank", "apiKey"), CAFile: filepath.Join(o.Etc, "rerank-ca", "ca.crt")})
	if err != nil {
		return err
	}
	// An endpoint that is down makes answers worse; it must not keep this pod, which says so, from starting.
	if spec.Type != v1alpha1.RerankTypeEndpoint {
		if err := r.SelfQuery(ctx); err != nil {
			return ended(ctx, err)
		}
	}
	if err := b.process.Listen(o.Address, r.Handler(), true); err != nil {
		return err
	}
	b.process.SetReady()
	o.Log.Info("ready", "role", "reranker", "index", b.config.Index, "type", spec.Type)
	return b.process.Wait(ctx)
}
