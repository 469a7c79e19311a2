package local

import (
	"context"
	"errors"
	"strings"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/identity"
)

// Eval asks every question of an eval set, and reports hit rate, recall, MRR and nDCG at k, and leaks.
func (s *Stack) Eval(ctx context.Context, documents string, set []byte, k int, progress func(done, total int)) (eval.Report, error) {
	questions, err := eval.ParseSet(set)
	if err != nil {
		return eval.Report{}, err
	}
	private, public, err := keyPair()
	if err != nil {
		return eval.Report{}, err
	}
	signer, err := identity.NewSigner(s.stack, private)
	if err != nil {
		return eval.Report{}, err
	}
	client, err := s.evalClient(public)
	if err != nil {
		return eval.Report{}, err
	}
	return eval.Run(ctx, eval.RunInput{
		Run: "local", Questions: questions, EvalSetDigest: artifact.Digest(set), Client: client, Progress: progress,
		Subject: eval.Gateway{Index: s.built.Config.Index, VersionDigest: s.stack.VersionDigest, URL: "http://gateway",
			Token: func(p eval.Principal) (string, error) {
				return signer.IssueEval(access.Identity{Tenant: s.stack.Tenant, User: p.User, Groups: p.Groups}, "local")
			}},
		Metrics:    []eval.Metric{{Name: eval.HitRate, K: k}, {Name: eval.Recall, K: k}, {Name: eval.MRR, K: k}, {Name: eval.NDCG, K: k}},
		InSnapshot: func(document string) bool { _, ok := s.loaded.Access.Find(document); return ok },
		Access: func(ctx context.Context) (eval.RawAccess, error) {
			return s.rawAccess(ctx, artifact.NewDir(documents))
		},
		AccessEpoch: s.Gateway.Overlays.Epoch(),
	})
}

// rawAccess reads rules and sidecars where they are written, past what Build made of them.
func (s *Stack) rawAccess(ctx context.Context, documents artifact.Bucket) (eval.RawAccess, error) {
	spec := s.built.Recipe.Access
	raw := eval.RawFromSpec(spec)
	err := documents.List(ctx, "", func(i artifact.Info) error {
		document, ok := strings.CutSuffix(i.Key, spec.SidecarSuffix)
		if !ok || spec.SidecarSuffix == "" {
			return nil
		}
		data, _, err := artifact.ReadAll(ctx, documents, i.Key, artifact.Read{MaxBytes: access.MaxSidecar})
		if errors.Is(err, artifact.ErrTooLarge) {
			data, err = nil, nil
		}
		raw.Sidecars[document] = eval.RawSidecar(data)
		return err
	})
	return raw, err
}
