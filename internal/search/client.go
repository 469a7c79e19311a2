package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/identity"
)

// Peer is a retriever or reranker as the gateway asks it.
type Peer struct {
	// URL without a path, such as http://name:8080.
	URL  string
	Role identity.Role
}

// newClient lets idle connections go before a retriever ends them.
func newClient() *http.Client {
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second, ResponseHeaderTimeout: requestTimeout,
		},
		// A retriever never redirects, and a token must not follow one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errTransient: asking again, with the newest access data, may help.
var errTransient = errors.New("retriever not ready")

// retrieve asks one retriever, as id. The answer is of the asked index and epoch, and complete.
func (g *Gateway) retrieve(ctx context.Context, peer Peer, id access.Identity, epoch int64, in retrieveRequest) (*retrieveResponse, error) {
	status, data, err := g.post(ctx, peer, "/v1/retrieve", id, http.Header{epochHeader: {strconv.FormatInt(epoch, 10)}}, in)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", peer.Role, errors.Join(errTransient, err))
	case status == http.StatusConflict || status == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%s: HTTP %d: %w", peer.Role, status, errTransient)
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s: HTTP %d", peer.Role, status)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s: answers more than %d bytes", peer.Role, maxAnswer)
	}
	var out retrieveResponse
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("%s: answers no JSON: %w", peer.Role, err)
	}
	return &out, g.checkAnswer(peer, epoch, in, out)
}

// post sends in to a peer, with a token of id for its role, and returns the status and at most maxAnswer+1 bytes.
func (g *Gateway) post(ctx context.Context, peer Peer, path string, id access.Identity, header http.Header, in any) (status int, data []byte, err error) {
	token, err := g.Signer.Issue(id, peer.Role)
	if err != nil {
		return 0, nil, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(peer.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	// Without a value it is not sent; it tells the transport that the request may be repeated on a broken connection.
	req.Header["X-Idempotency-Key"] = nil
	response, err := g.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	return response.StatusCode, data, err
}

func (g *Gateway) checkAnswer(peer Peer, epoch int64, in retrieveRequest, out retrieveResponse) error {
	switch {
	case out.Index != g.Index:
		return fmt.Errorf("%s: serves index %q, not %q", peer.Role, out.Index, g.Index)
	case out.Epoch != epoch:
		return fmt.Errorf("%s: has access epoch %d, not %d: %w", peer.Role, out.Epoch, epoch, errTransient)
	case out.Hits == nil || len(out.Hits) > in.K || len(out.Also) != len(in.Also):
		return fmt.Errorf("%s: answers %d hits and %d scores, asked for %d and %d", peer.Role, len(out.Hits), len(out.Also), in.K, len(in.Also))
	}
	return nil
}
