package pod

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/search"
	"quarry.dev/quarry/internal/segment"
)

// Gateway runs a gateway pod until ctx ends.
func Gateway(ctx context.Context, o Options) error {
	b, err := newBase(o, "gateway")
	if err != nil {
		return err
	}
	g := &search.Gateway{Tenant: b.config.Tenant, Index: b.config.Index, Overlays: b.overlays, Metrics: b.metrics, Log: o.Log}
	if err := g.SetRecipe(b.config.Retrieval, b.config.Indexing.Embedding, search.Peers(b.config.Peers)); err != nil {
		return err
	}
	ctx, stop, err := b.whileKeysLast(ctx, "keys/private.pem", "public/eval.pem")
	if err != nil {
		return err
	}
	defer stop()
	private, err := readFile(o.Etc, "keys", "private.pem")
	if err != nil {
		return err
	}
	if g.Signer, err = identity.NewSigner(b.stack, private); err != nil {
		return err
	}
	users, err := b.users(ctx)
	if err != nil {
		return err
	}
	evalPublic, err := readFile(o.Etc, "public", "eval.pem")
	if err != nil {
		return err
	}
	evals, err := identity.NewInternalVerifier(b.stack, identity.RoleEval, evalPublic)
	if err != nil {
		return err
	}
	if err := b.process.Listen(o.AdminAddress, b.process.Admin(b.metrics, nil), false); err != nil {
		return err
	}
	loaded, err := b.load(ctx, segment.RoleGateway)
	if err != nil {
		return ended(ctx, err)
	}
	defer loaded.Close()
	g.Table, g.Chunks = loaded.Access, loaded.Chunks
	go b.overlays.Run(ctx, search.PollInterval, o.Log)
	if err := b.retry(ctx, "reach both retrievers", func() error { return g.SelfQuery(ctx) }); err != nil {
		return ended(ctx, err)
	}
	if err := b.awaitReranker(ctx, g); err != nil {
		return ended(ctx, err)
	}
	err = errors.Join(
		b.process.Listen(o.Address, g.Handler(users.Verify), true),
		b.process.Listen(o.EvalAddress, g.Handler(evals.Verify), true))
	if err != nil {
		return err
	}
	b.process.SetReady()
	o.Log.Info("ready", "role", "gateway", "index", b.config.Index, "epoch", b.overlays.Epoch())
	return b.process.Wait(ctx)
}

// rerankerPatience is how long a gateway that starts waits for its reranker.
const rerankerPatience = time.Minute

// awaitReranker keeps a new version from being judged by its fused order while its reranker starts. A reranker that does
// not come, or whose endpoint is down, must not keep a serving version from starting again, so the wait has an end.
func (b *base) awaitReranker(ctx context.Context, g *search.Gateway) error {
	patience := cmp.Or(b.options.rerankerPatience, rerankerPatience)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := b.retry(limited, "reach the reranker", func() error { return g.RerankerReady(limited) })
	if err != nil && ctx.Err() == nil {
		b.options.Log.Warn("starting without the reranker: answers keep the fused order until it scores", "waited", patience)
		return nil
	}
	return err
}

// users verifies end users' tokens with the issuer that the pipeline names.
func (b *base) users(ctx context.Context) (*identity.Verifier, error) {
	spec := b.config.Identity.JWT
	if spec == nil {
		return nil, errors.New("identity.jwt is missing: say which tokens to accept")
	}
	keys, err := b.userKeys(ctx, spec)
	if err != nil {
		return nil, err
	}
	return identity.NewVerifier(identity.Config{
		Issuer: spec.Issuer, Audiences: spec.Audiences, Tenant: b.config.Tenant,
		UserClaim: spec.UserClaim, GroupsClaim: spec.GroupsClaim, TenantClaim: spec.TenantClaim,
	}, keys)
}

func (b *base) userKeys(ctx context.Context, spec *v1alpha1.JWTSpec) (identity.Keys, error) {
	if spec.JWKSRef != nil {
		return identity.KeysFromFile(filepath.Join(b.options.Etc, "jwks", "jwks.json")), nil
	}
	if spec.JWKSURL == "" {
		return nil, errors.New("identity.jwt has neither jwksRef nor jwksURL: set one")
	}
	return identity.KeysFromURL(ctx, spec.JWKSURL, b.options.Log)
}
