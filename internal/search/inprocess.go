package search

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// InProcess is a transport without a network: requests go to the handler of their URL's host. A whole stack runs with it
// in one process, on the same path as in a cluster.
type InProcess map[string]http.Handler

// RoundTrip implements http.RoundTripper.
func (p InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, ok := p[r.URL.Host]
	if !ok {
		return nil, fmt.Errorf("no server named %q in this process", r.URL.Host)
	}
	w := &answer{header: http.Header{}, code: http.StatusOK}
	handler.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// SetTransport replaces how the gateway reaches its retrievers.
func (g *Gateway) SetTransport(t http.RoundTripper) { g.client.Transport = t }

// answer collects what a handler writes.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header            { return a.header }
func (a *answer) WriteHeader(code int)           { a.code = code }
func (a *answer) Write(data []byte) (int, error) { return a.body.Write(data) }
