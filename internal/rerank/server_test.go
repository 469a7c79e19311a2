package rerank

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
)

const testKey = "sk-very-secret-key"

// server speaks one dialect as its original does: it refuses what that refuses, and sorts its results by score.
type server struct {
	t   *testing.T
	api v1alpha1.RerankAPI
	// limit of TEI's batches; longest text in bytes, above which vLLM and TEI refuse what may not be cut.
	limit, longest int

	mu       sync.Mutex
	requests []map[string]any
	fault    func(w http.ResponseWriter, r *http.Request, attempt int) (handled bool)
}

// scoreOf is what every server thinks of a passage: its share of the letter e.
func scoreOf(text string) float64 { return float64(strings.Count(text, "e")) / float64(len(text)+1) }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		s.refuse(w, http.StatusUnauthorized, "no key")
		return
	}
	path := map[v1alpha1.RerankAPI]string{"Cohere": "/v2/rerank", "TEI": "/rerank", "Jina": "/v1/rerank", "VLLM": "/v1/rerank", "Infinity": "/rerank"}[s.api]
	if s.api == "TEI" && r.Method == http.MethodGet && r.URL.Path == "/prefix/info" {
		s.write(w, http.StatusOK, map[string]any{"model_id": "bge", "max_client_batch_size": s.limit, "auto_truncate": true})
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/prefix"+path {
		s.refuse(w, http.StatusNotFound, "no such path")
		return
	}
	var body map[string]any
	data, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(data, &body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		s.refuse(w, http.StatusBadRequest, "no JSON")
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, body)
	attempt := len(s.requests)
	s.mu.Unlock()
	if s.fault != nil && s.fault(w, r, attempt) {
		return
	}
	s.rerank(w, body)
}

func (s *server) rerank(w http.ResponseWriter, body map[string]any) {
	known := map[v1alpha1.RerankAPI][]string{
		"Cohere": {"model", "query", "documents"}, "Jina": {"model", "query", "documents", "return_documents"},
		"Infinity": {"model", "query", "documents", "return_documents"}, "VLLM": {"model", "query", "documents", "truncate_prompt_tokens"},
		"TEI": {"query", "texts", "raw_scores", "return_text", "truncate"},
	}[s.api]
	for field := range body {
		if !slices.Contains(known, field) {
			s.refuse(w, http.StatusUnprocessableEntity, "unknown field")
			return
		}
	}
	documents, _ := body["documents"].([]any)
	if s.api == "TEI" {
		documents, _ = body["texts"].([]any)
		if len(documents) > s.limit {
			s.refuse(w, http.StatusUnprocessableEntity, "batch size")
			return
		}
	}
	cuts := s.api != "TEI" && s.api != "VLLM" || body["truncate"] == true || body["truncate_prompt_tokens"] == -1.0
	var results []map[string]any
	for i, d := range documents {
		text := d.(string)
		if len(text) > s.longest && !cuts {
			s.refuse(w, http.StatusBadRequest, "too long")
			return
		}
		results = append(results, s.item(i, text))
	}
	slices.SortStableFunc(results, func(a, b map[string]any) int {
		return int(1e9 * (b[s.scoreField()].(float64) - a[s.scoreField()].(float64)))
	})
	switch s.api {
	case "TEI":
		s.write(w, http.StatusOK, results)
	case "Cohere":
		s.write(w, http.StatusOK, map[string]any{"id": "1", "results": results, "meta": map[string]any{"api_version": map[string]any{"version": "2"}}})
	default:
		s.write(w, http.StatusOK, map[string]any{"model": body["model"], "results": results, "usage": map[string]any{"total_tokens": 7}})
	}
}

func (s *server) scoreField() string {
	if s.api == "TEI" {
		return "score"
	}
	return "relevance_score"
}

func (s *server) item(i int, text string) map[string]any {
	item := map[string]any{"index": i, s.scoreField(): scoreOf(text)}
	if s.api == "VLLM" { // repeats the text, asked or not
		item["document"] = map[string]any{"text": text}
	}
	return item
}

func (s *server) write(w http.ResponseWriter, code int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

// refuse repeats the key and whatever else it was sent, as some servers do.
func (s *server) refuse(w http.ResponseWriter, code int, message string) {
	s.write(w, code, map[string]any{"error": message + " " + testKey, "message": testKey})
}

// asked returns the bodies of all requests.
func (s *server) asked() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// newServer starts a server, and a client of it with a short timeout.
func newServer(t *testing.T, api v1alpha1.RerankAPI) (*server, *Endpoint) {
	t.Helper()
	s := &server{t: t, api: api, limit: 32, longest: 500}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	e, err := NewEndpoint(v1alpha1.RerankEndpoint{URL: listening.URL + "/prefix/", Model: "bge-reranker", API: api,
		Timeout: metav1.Duration{Duration: 5 * time.Second}, CredentialsRef: &v1alpha1.SecretRef{Name: "key"}}, Options{KeyFile: keyFile(t, testKey+"\n")})
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}
