package rerank

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"quarry.dev/quarry/api/v1alpha1"
)

const (
	defaultTimeout = 2 * time.Second
	// parallelBatches are asked at once where a server takes few passages at a time.
	parallelBatches = 4
	// answerBase and answerFactor bound an answer: some servers repeat the passages, escaped.
	answerBase   = 1 << 20
	answerFactor = 4
)

// Endpoint asks a server. It is a client that trusts nothing: the order of results, their number, their scores, and what
// a server writes of its errors, which may repeat the key.
type Endpoint struct {
	dialect dialect
	base    string
	model   string
	timeout time.Duration
	keyFile string
	client  *http.Client
	breaker *Breaker
	batches batchLimit
	metrics *Metrics
}

// NewEndpoint reads the certificates of o.CAFile now and the key of o.KeyFile whenever it asks, where the spec names them.
func NewEndpoint(spec v1alpha1.RerankEndpoint, o Options) (*Endpoint, error) {
	api := cmp.Or(spec.API, v1alpha1.RerankAPICohere)
	d, ok := dialects[api]
	if !ok {
		return nil, fmt.Errorf("rerank.endpoint.api is %q: use Cohere, TEI, Jina, VLLM or Infinity", spec.API)
	}
	if u, err := url.Parse(spec.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("rerank.endpoint.url is no http:// or https:// URL without keys in it")
	}
	caFile := ""
	if spec.CABundleRef != nil {
		caFile = o.CAFile
	}
	client, err := newClient(caFile)
	if err != nil {
		return nil, err
	}
	m := o.Metrics
	if m == nil {
		m = NewMetrics(nil)
	}
	e := &Endpoint{dialect: d, base: strings.TrimSuffix(spec.URL, "/"), model: spec.Model, client: client, metrics: m,
		timeout: cmp.Or(spec.Timeout.Duration, defaultTimeout),
		breaker: &Breaker{Changed: func(s BreakerState) { m.breaker.Set(float64(s)) }}}
	if spec.CredentialsRef != nil {
		e.keyFile = o.KeyFile
	}
	return e, nil
}

// Score implements Scorer. All of it takes at most the spec's timeout; while the breaker is open it takes no time.
func (e *Endpoint) Score(ctx context.Context, query string, passages []string) ([]float64, error) {
	authorization, err := e.authorization()
	if err != nil {
		return nil, err
	}
	if !e.breaker.Allow() {
		return nil, &Failure{Reason: ReasonOpen, Message: "the endpoint failed too often and is left alone for a while"}
	}
	limited, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	scores, err := e.score(limited, authorization, query, passages)
	outcome, rest := outcomeOf(err)
	if ctx.Err() != nil { // the caller's time, not that of the endpoint
		outcome = Neutral
	}
	e.breaker.Report(outcome, rest)
	if err != nil {
		return nil, err
	}
	return scores, nil
}

// outcomeOf tells the breaker about an error, and how long the server asked to be left alone.
func outcomeOf(err error) (Outcome, time.Duration) {
	var f *Failure
	switch {
	case err == nil:
		return Succeeded, 0
	case errors.As(err, &f) && (f.Reason == ReasonRefused || f.Reason == ReasonCancelled):
		return Neutral, 0
	case f != nil:
		return Failed, f.after
	}
	return Failed, 0
}

// score sends as many requests as the server needs; one that fails fails all.
func (e *Endpoint) score(ctx context.Context, authorization, query string, passages []string) ([]float64, error) {
	size := len(passages)
	if e.dialect.info {
		size = e.batches.get(ctx, func(ctx context.Context) (int, error) { return e.info(ctx, authorization) })
	}
	scores := make([]float64, len(passages))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelBatches)
	for from := 0; from < len(passages); from += size {
		part := passages[from:min(from+size, len(passages))]
		group.Go(func() error {
			some, err := e.ask(ctx, authorization, query, part)
			copy(scores[from:], some)
			return err
		})
	}
	err := group.Wait()
	var f *Failure
	if errors.As(err, &f) && f.Reason == ReasonRefused {
		e.batches.forget() // the server may take fewer than it said
	}
	return scores, err
}

// ask sends one request, again while that may help and the time allows it.
func (e *Endpoint) ask(ctx context.Context, authorization, query string, passages []string) ([]float64, error) {
	clipped := make([]string, len(passages))
	for i, p := range passages {
		clipped[i] = Clip(p)
	}
	body, err := json.Marshal(e.dialect.request(e.model, Clip(query), clipped))
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		scores, failure := e.once(ctx, authorization, body, len(passages))
		if failure == nil {
			return scores, nil
		}
		if !failure.again || attempt == maxRetries || !sleep(ctx, pauseBefore(attempt, failure.after)) {
			return nil, failure
		}
		e.metrics.retries.Inc()
	}
}

// once sends one request and judges its answer.
func (e *Endpoint) once(ctx context.Context, authorization string, body []byte, n int) ([]float64, *Failure) {
	response, data, failure := e.roundTrip(ctx, http.MethodPost, e.dialect.path, authorization, body)
	if failure != nil {
		return nil, failure
	}
	if failure := judge(response); failure != nil {
		return nil, failure
	}
	scores, err := e.dialect.decode(data, n)
	if err != nil {
		return nil, &Failure{Reason: ReasonAnswer, Message: "the endpoint's answer cannot be used: " + err.Error()}
	}
	return scores, nil
}

// roundTrip returns the whole answer, whatever its status.
func (e *Endpoint) roundTrip(ctx context.Context, method, path, authorization string, body []byte) (*http.Response, []byte, *Failure) {
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, &Failure{Reason: ReasonConnection, Message: "the endpoint's URL cannot be used"}
	}
	req.Header.Set("Accept", "application/json")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	// Without a value it is not sent; it tells the transport that the request may be repeated on a broken connection.
	req.Header["X-Idempotency-Key"] = nil
	response, err := e.client.Do(req)
	if err != nil {
		return nil, nil, transportFailure(ctx, err)
	}
	defer response.Body.Close()
	limit := answerBase + answerFactor*len(body)
	data, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err != nil {
		return nil, nil, transportFailure(ctx, err)
	}
	if len(data) > limit {
		return nil, nil, &Failure{Reason: ReasonAnswer, Message: fmt.Sprintf("the endpoint answers more than %d bytes", limit)}
	}
	return response, data, nil
}

// judge passes an answer that may hold scores. What else the server wrote is not looked at: it may repeat the key.
func judge(response *http.Response) *Failure {
	code := response.StatusCode
	switch {
	case code == http.StatusOK:
		if media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || media != "application/json" {
			return &Failure{Reason: ReasonAnswer, Message: "the endpoint answers no application/json: check its URL and API"}
		}
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusFailedDependency || code == http.StatusTooManyRequests || code >= 500:
		return &Failure{Reason: ReasonOverloaded, Message: fmt.Sprintf("the endpoint answers HTTP %d", code), again: true,
			after: retryAfter(response.Header.Get("Retry-After"), time.Now())}
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return &Failure{Reason: ReasonRefused, Message: fmt.Sprintf("the endpoint refuses the request with HTTP %d: check its model and its limits", code)}
	}
	return &Failure{Reason: ReasonStatus, Message: fmt.Sprintf("the endpoint answers HTTP %d: check its URL, its API and the key; redirects are not followed", code)}
}

// authorization reads the key, "" where the spec names none.
func (e *Endpoint) authorization() (string, error) {
	if e.keyFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(e.keyFile)
	if err != nil {
		return "", &Failure{Reason: ReasonKey, Message: "the API key cannot be read: " + err.Error()}
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &Failure{Reason: ReasonKey, Message: "the API key is empty or holds characters that no key has: check apiKey in the Secret"}
	}
	return "Bearer " + key, nil
}

// info asks how many passages the server takes at once.
func (e *Endpoint) info(ctx context.Context, authorization string) (int, error) {
	response, data, failure := e.roundTrip(ctx, http.MethodGet, "/info", authorization, nil)
	if failure != nil {
		return 0, failure
	}
	var info struct {
		MaxClientBatchSize int `json:"max_client_batch_size"`
	}
	if response.StatusCode != http.StatusOK || json.Unmarshal(data, &info) != nil || info.MaxClientBatchSize < 1 {
		return 0, errors.New("no batch size is told")
	}
	return info.MaxClientBatchSize, nil
}
