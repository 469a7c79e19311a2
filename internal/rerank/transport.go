package rerank

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// maxRetries of one request; the deadline may allow fewer.
	maxRetries = 3
	// Pauses between them: full jitter below firstPause, doubling up to maxPause.
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
	// maxRetryAfter caps what a server may ask for.
	maxRetryAfter = time.Minute
	dialTimeout   = 2 * time.Second
	// defaultBatch holds where a server does not tell, and batchMemory how long what it told is believed.
	defaultBatch = 32
	batchMemory  = 5 * time.Minute
)

// newClient trusts the certificates of caFile, or those of the system. It follows no redirect, because a key must not, and
// no proxy of the environment.
func newClient(caFile string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		bundle, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("rerank.endpoint.caBundleRef: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("rerank.endpoint.caBundleRef: holds no certificate in PEM")
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// transportFailure says what happened in words of ours: an error of the transport may quote what the server wrote.
func transportFailure(ctx context.Context, err error) *Failure {
	var certificate *tls.CertificateVerificationError
	var dial *net.OpError
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return contextFailure(ctx)
	case errors.As(err, &certificate):
		return &Failure{Reason: ReasonConnection, Message: "the endpoint's certificate is not trusted: name its issuer in caBundleRef"}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &Failure{Reason: ReasonConnection, Message: "the endpoint cannot be reached", again: true}
	case errors.As(err, &network) && network.Timeout():
		return &Failure{Reason: ReasonTimeout, Message: "the endpoint took too long"}
	}
	return &Failure{Reason: ReasonConnection, Message: "the connection to the endpoint broke", again: true}
}

// pauseBefore a retry: random, so that many clients do not come back at once, and not before the server wants it.
func pauseBefore(attempt int, after time.Duration) time.Duration {
	return max(after, rand.N(min(firstPause<<attempt, maxPause)))
}

// sleep waits, or tells at once that the time that is left does not allow it.
func sleep(ctx context.Context, pause time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// retryAfter reads seconds or a date, at most maxRetryAfter; 0 for anything else.
func retryAfter(header string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		d = date.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// batchLimit remembers how many passages a server takes at once. The zero value knows nothing.
type batchLimit struct {
	mu    sync.Mutex
	size  int
	until time.Time
}

// get asks where nothing is remembered; a server that does not tell is taken to take defaultBatch.
func (b *batchLimit) get(ctx context.Context, ask func(context.Context) (int, error)) int {
	b.mu.Lock()
	size, fresh := b.size, time.Now().Before(b.until)
	b.mu.Unlock()
	if fresh {
		return size
	}
	size, err := ask(ctx)
	if err != nil {
		size = defaultBatch
	}
	size = min(size, MaxPassages)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size, b.until = size, time.Now().Add(batchMemory)
	return size
}

func (b *batchLimit) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Time{}
}
