// Package pod is what the pods of a serving stack and of an evaluation run: it reads what is mounted, loads and verifies
// the artifact, and starts the servers of internal/search.
package pod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/search"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/source"
	"quarry.dev/quarry/internal/stage"
)

// Options of a serving process.
type Options struct {
	// Etc is the root of all mounted files; Data a folder to keep the artifact in.
	Etc, Data string
	// Addresses to listen on: the API, health and metrics, and the evaluation port (gateways only).
	Address, AdminAddress, EvalAddress string
	Log                                *slog.Logger

	// bucket replaces the configured object storage in tests.
	bucket artifact.Bucket
	// keysInterval and rerankerPatience replace the constants in tests.
	keysInterval, rerankerPatience time.Duration
}

// retryPause is the time between two tries to reach the object storage.
const retryPause = 2 * time.Second

// base is what every role needs; overlays and bucket are nil where a role has no index.
type base struct {
	options  Options
	config   stage.Config
	stack    identity.Stack
	process  *search.Process
	overlays *search.Overlays
	metrics  *search.Metrics
	bucket   artifact.Bucket
}

// newBase is for the roles that have the index.
func newBase(o Options, role string) (*base, error) {
	b, err := newPlainBase(o)
	if err != nil {
		return nil, err
	}
	if b.bucket = o.bucket; b.bucket == nil {
		if b.bucket, err = b.config.OpenArtifacts(); err != nil {
			return nil, err
		}
	}
	b.overlays = search.NewOverlays(OverlayReader(b.bucket), b.config.MaxStaleness)
	b.metrics = search.NewMetrics(role, b.overlays)
	return b, nil
}

// newPlainBase reads the configuration, and opens nothing.
func newPlainBase(o Options) (*base, error) {
	config, err := stage.ReadConfig(o.Etc)
	if err != nil {
		return nil, err
	}
	if config.ManifestDigest == "" || config.Tenant == "" || config.VersionDigest == "" {
		return nil, fmt.Errorf("settings: manifestDigest %q, tenant %q or versionDigest %q is empty: mount the serving ConfigMap of the Index",
			config.ManifestDigest, config.Tenant, config.VersionDigest)
	}
	return &base{
		options: o, config: config, process: search.NewProcess(o.Log),
		stack: identity.Stack{Tenant: config.Tenant, VersionDigest: config.VersionDigest},
	}, nil
}

// OverlayReader reads the overlay that CURRENT names, and its body only where the epoch is another than last time. The
// returned function is not for concurrent use; search.Overlays calls it one at a time.
func OverlayReader(b artifact.Bucket) search.ReadOverlay {
	var last access.Overlay
	return func(ctx context.Context) (access.Overlay, error) {
		current, _, err := source.ReadCurrent(ctx, b)
		if err != nil {
			return access.Overlay{}, err
		}
		if last.Entries != nil && current.Epoch == last.Epoch {
			last.VerifiedAt = current.VerifiedAt
			return last, nil
		}
		overlay, _, err := source.ReadOverlay(ctx, b)
		if err != nil {
			return access.Overlay{}, err
		}
		if overlay.Entries == nil {
			overlay.Entries = map[string]access.OverlayEntry{}
		}
		last = overlay
		return overlay, nil
	}
}

// load fetches the artifact and the newest access data; while the storage does not answer it tries again. Bytes that are
// not what their digest says end the process: trying again would hide the damage.
func (b *base) load(ctx context.Context, role segment.Role) (*segment.Loaded, error) {
	var loaded *segment.Loaded
	err := b.retry(ctx, "load the index", func() (err error) {
		loaded, err = segment.Load(ctx, b.bucket, b.config.ContentDigest, b.config.ManifestDigest, b.options.Data, role)
		return err
	})
	if err != nil {
		return nil, err
	}
	return loaded, b.retry(ctx, "load the access data", func() error { return b.overlays.Refresh(ctx) })
}

func (b *base) retry(ctx context.Context, what string, try func() error) error {
	last := ""
	for {
		err := try()
		if err == nil || errors.Is(err, artifact.ErrDigest) {
			return err
		}
		if text := err.Error(); text != last && ctx.Err() == nil {
			last = text
			b.options.Log.Warn("cannot "+what+" yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

// ended turns the end of ctx while still starting into a normal end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func readFile(parts ...string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return nil, fmt.Errorf("read a mounted file: %w", err)
	}
	return data, nil
}
