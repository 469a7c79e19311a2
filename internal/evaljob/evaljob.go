// Package evaljob is the body of the evaluation Job: it reads what the operator mounted, asks the subject and the baseline
// through their evaluation ports, and leaves a report in the artifacts bucket. It computes no verdict.
package evaljob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/source"
	"quarry.dev/quarry/internal/stage"
)

// lag is what a revocation may take beyond the sync interval: listing, overlay, and the gateways' polling.
const lag = 15 * time.Second

// Options of the Job's process.
type Options struct {
	// Etc is the root of what is mounted.
	Etc string
	// TerminationLog gets {"report","digest"} or, after an error, its sentence. Empty for nowhere.
	TerminationLog string
	Out            io.Writer
	// Artifacts is the bucket to read and to report to; nil means the one of the mounted configuration.
	Artifacts artifact.Bucket
}

// Run measures, writes evals/<run>/report.json and report.html, and leaves the termination message.
func Run(ctx context.Context, o Options) error {
	key, digest, err := measure(ctx, o)
	message, encodeErr := json.Marshal(map[string]string{"report": key, "digest": digest})
	if err = errors.Join(err, encodeErr); err != nil {
		message = []byte(err.Error())
	}
	if o.TerminationLog == "" {
		return err
	}
	const maxMessage = 4096 // Kubernetes keeps no more
	return errors.Join(err, os.WriteFile(o.TerminationLog, message[:min(len(message), maxMessage)], 0o644))
}

func measure(ctx context.Context, o Options) (key, digest string, err error) {
	config, err := stage.ReadConfig(o.Etc)
	if err != nil {
		return "", "", err
	}
	plan, err := readPlan(o.Etc)
	if err != nil {
		return "", "", err
	}
	artifacts := o.Artifacts
	if artifacts == nil {
		if artifacts, err = config.OpenArtifacts(); err != nil {
			return "", "", err
		}
	}
	in, err := input(ctx, o, config, plan, artifacts)
	if err != nil {
		return "", "", err
	}
	report, err := eval.Run(ctx, in)
	if err != nil {
		return "", "", err
	}
	fmt.Fprintln(o.Out, report.Text())
	return leave(ctx, artifacts, plan.Run, report)
}

func readPlan(etc string) (eval.Plan, error) {
	var plan eval.Plan
	text, err := os.ReadFile(filepath.Join(etc, "config", "eval.json"))
	if err != nil {
		return plan, fmt.Errorf("read the plan that the operator mounts: %w", err)
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return plan, fmt.Errorf("config/eval.json is not a plan: %w", err)
	}
	return plan, nil
}

func input(ctx context.Context, o Options, c stage.Config, plan eval.Plan, artifacts artifact.Bucket) (eval.RunInput, error) {
	set, err := readSet(ctx, o.Etc, plan, artifacts)
	if err != nil {
		return eval.RunInput{}, err
	}
	questions, err := eval.ParseSet(set)
	if err != nil {
		return eval.RunInput{}, err
	}
	snapshot, err := source.ReadSnapshot(ctx, artifacts, c.Snapshot)
	if err != nil {
		return eval.RunInput{}, err
	}
	held := make(map[string]bool, len(snapshot.Entries))
	for _, entry := range snapshot.Entries {
		held[entry.Key] = true
	}
	current, _, err := source.ReadCurrent(ctx, artifacts)
	if err != nil {
		return eval.RunInput{}, err
	}
	subject, err := gateway(o.Etc, "subject", c.Tenant, plan, plan.Subject)
	if err != nil {
		return eval.RunInput{}, err
	}
	in := eval.RunInput{
		Run: plan.Run, Subject: subject, Questions: questions, EvalSetDigest: plan.EvalSetDigest,
		Metrics:     eval.MetricsOf(plan.Metrics),
		InSnapshot:  func(document string) bool { return held[document] },
		Access:      func(ctx context.Context) (eval.RawAccess, error) { return rawAccess(ctx, plan, artifacts, snapshot) },
		Grace:       plan.SyncInterval + lag,
		AccessEpoch: current.Epoch,
		Progress:    func(done, total int) { progress(o.Out, done, total) },
	}
	if plan.Baseline != nil {
		baseline, err := gateway(o.Etc, "baseline", c.Tenant, plan, *plan.Baseline)
		if err != nil {
			return eval.RunInput{}, err
		}
		in.Baseline = &baseline
	}
	return in, nil
}

// readSet returns the questions, and refuses those that are not the ones which the plan names by digest.
func readSet(ctx context.Context, etc string, plan eval.Plan, artifacts artifact.Bucket) (set []byte, err error) {
	if plan.EvalSetObject != "" {
		set, _, err = artifacts.Get(ctx, plan.EvalSetObject)
	} else {
		set, err = os.ReadFile(filepath.Join(etc, "config", "eval.jsonl"))
	}
	if err != nil {
		return nil, fmt.Errorf("read the eval set: %w", err)
	}
	if got := artifact.Digest(set); got != plan.EvalSetDigest {
		return nil, fmt.Errorf("the eval set has digest %s, not %s as the run asks for: create a new run", got, plan.EvalSetDigest)
	}
	return set, nil
}

// gateway asks as any principal of the tenant: the key that it signs with is mounted in this Job alone.
func gateway(etc, name, tenant string, plan eval.Plan, target eval.Target) (eval.Gateway, error) {
	key, err := os.ReadFile(filepath.Join(etc, "eval", name, "private.pem"))
	if err != nil {
		return eval.Gateway{}, fmt.Errorf("read the evaluation key of the %s: %w", name, err)
	}
	signer, err := identity.NewSigner(identity.Stack{Tenant: tenant, VersionDigest: target.VersionDigest}, key)
	if err != nil {
		return eval.Gateway{}, fmt.Errorf("evaluation key of the %s: %w", name, err)
	}
	return eval.Gateway{
		Index: target.Index, VersionDigest: target.VersionDigest, URL: target.URL, Reranks: target.Reranks,
		Token: func(p eval.Principal) (string, error) {
			return signer.IssueEval(access.Identity{Tenant: tenant, User: p.User, Groups: p.Groups}, plan.RunUID)
		},
	}, nil
}

// rawAccess states who may read what as the last sync published it: its sidecars and metadata, under the rules of the
// Corpus, and without the documents that it no longer holds. The source itself would say too much: what a guard withholds
// rightly still answers. The servers' own lists, which those were resolved to, are not looked at, so that one fault cannot
// hide on both sides.
func rawAccess(ctx context.Context, plan eval.Plan, artifacts artifact.Bucket, built source.Snapshot) (eval.RawAccess, error) {
	published, err := source.ReadLedger(ctx, artifacts)
	if err != nil {
		return eval.RawAccess{}, err
	}
	raw := eval.RawFromSpec(plan.Access)
	for _, entry := range built.Entries {
		raw.Gone[entry.Key] = true
	}
	for _, entry := range published {
		delete(raw.Gone, entry.Key)
		if entry.Sidecar != nil {
			raw.Sidecars[entry.Key] = rawAllow(*entry.Sidecar)
		}
		if entry.Metadata != nil {
			raw.Metadata[entry.Key] = rawAllow(*entry.Metadata)
		}
	}
	return raw, nil
}

func rawAllow(allow access.Allow) []eval.RawPrincipal {
	raw := []eval.RawPrincipal{}
	for _, p := range allow {
		raw = append(raw, eval.RawPrincipal{Type: string(p.Type), Name: p.Name})
	}
	return raw
}

// leave writes the report for people, then the one that counts.
func leave(ctx context.Context, b artifact.Bucket, run string, report eval.Report) (key, digest string, err error) {
	var page bytes.Buffer
	if err := report.HTML(&page); err != nil {
		return "", "", err
	}
	if _, err := b.Put(ctx, "evals/"+run+"/report.html", page.Bytes(), artifact.Condition{}); err != nil {
		return "", "", err
	}
	body, err := json.Marshal(report)
	if err != nil {
		return "", "", err
	}
	key = "evals/" + run + "/report.json"
	_, err = b.Put(ctx, key, body, artifact.Condition{})
	return key, artifact.Digest(body), err
}

func progress(out io.Writer, done, total int) {
	if done%25 == 0 || done == total {
		fmt.Fprintf(out, "Progress eval: %d of %d questions\n", done, total)
	}
}
