package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
)

const (
	// attempts per question: a gateway says 503 while it loads newer access data, or while a pod is replaced.
	attempts = 6
	// firstPause doubles with each attempt: 0.2 s to 3.2 s, about 6 s in all.
	firstPause = 200 * time.Millisecond
	// maxAnswerBytes bounds what is read of one answer.
	maxAnswerBytes = 16 << 20
)

// searchRequest and searchAnswer are the parts of the public API that an evaluation needs.
type searchRequest struct {
	Query string `json:"query"`
	TopK  int    `json:"topK"`
}

type searchAnswer struct {
	Index    string `json:"index"`
	Reranked bool   `json:"reranked"`
	Hits     []Hit  `json:"hits"`
}

// errNotReranked: the reranker failed, and what answered is another recipe than the one that is judged.
var errNotReranked = errors.New("the answer says reranked: false, but this version reranks: look at its reranker")

// search asks a gateway one question. The returned hits are never nil when the error is.
func (g Gateway) search(ctx context.Context, client *http.Client, q Question, depth int) ([]Hit, time.Duration, error) {
	body, err := json.Marshal(searchRequest{Query: q.Question, TopK: depth})
	if err != nil {
		return nil, 0, err
	}
	pause := cmp.Or(g.pause, firstPause)
	for attempt := 1; ; attempt++ {
		start := time.Now()
		hits, retry, err := g.once(ctx, client, q, depth, body)
		if err == nil {
			return hits, time.Since(start), nil
		}
		if !retry || attempt == attempts {
			return nil, 0, fmt.Errorf("%w (attempt %d of %d)", err, attempt, attempts)
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// once sends one request. Retry tells whether asking again may help.
func (g Gateway) once(ctx context.Context, client *http.Client, q Question, depth int, body []byte) (hits []Hit, retry bool, err error) {
	if g.Ask != nil {
		hits, err = g.Ask(ctx, q, depth)
		return append([]Hit{}, hits...), false, err
	}
	token, err := g.Token(q.As)
	if err != nil {
		return nil, false, fmt.Errorf("mint a token: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(g.URL, "/")+"/v1/search", bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, ctx.Err() == nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, true, fmt.Errorf("read the answer: %w", err)
	}
	if len(data) > maxAnswerBytes {
		return nil, false, fmt.Errorf("the answer is longer than %d bytes", maxAnswerBytes)
	}
	if response.StatusCode != http.StatusOK {
		retry := response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusTooManyRequests
		return nil, retry, problem(response.StatusCode, data)
	}
	hits, err = g.decode(data)
	return hits, errors.Is(err, errNotReranked), err
}

// decode reads an answer and refuses one that cannot be judged: no hit list, another version, a score that is no number.
func (g Gateway) decode(data []byte) ([]Hit, error) {
	var answer searchAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("the answer is not the JSON of a search: %w", err)
	}
	if answer.Hits == nil {
		return nil, fmt.Errorf("the answer has no list of hits")
	}
	if g.Index != "" && answer.Index != g.Index {
		return nil, fmt.Errorf("index %q answered instead of %q", clip(answer.Index), g.Index)
	}
	if g.Reranks && !answer.Reranked && len(answer.Hits) > 0 {
		return nil, errNotReranked
	}
	for _, h := range answer.Hits {
		if h.Document == "" || math.IsNaN(h.Score) || math.IsInf(h.Score, 0) || h.Start < 0 || h.End < h.Start {
			return nil, fmt.Errorf("hit of document %q has score %v and offsets %d to %d, which cannot be judged", clip(h.Document), h.Score, h.Start, h.End)
		}
	}
	return answer.Hits, nil
}

// problem is the error of an RFC 9457 problem document; whatever else came is cut short.
func problem(status int, data []byte) error {
	var document struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(data, &document) == nil && document.Title+document.Detail != "" {
		return fmt.Errorf("HTTP %d: %s", status, clip(strings.TrimSpace(document.Title+" "+document.Detail)))
	}
	return fmt.Errorf("HTTP %d: %s", status, clip(string(data)))
}
