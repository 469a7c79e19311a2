package rerank

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
)

var apis = []v1alpha1.RerankAPI{v1alpha1.RerankAPICohere, v1alpha1.RerankAPITEI, v1alpha1.RerankAPIJina, v1alpha1.RerankAPIVLLM, v1alpha1.RerankAPIInfinity}

func keyFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "apiKey")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func manyPassages(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("passage %d %s", i, strings.Repeat("e", i*7%n))
	}
	return out
}

func TestDialects(t *testing.T) {
	for _, api := range apis {
		s, e := newServer(t, api)
		passages := manyPassages(100)
		passages[3] = strings.Repeat("e", MaxText+100) // longer than any server takes whole
		scores, err := e.Score(t.Context(), "how long is parental leave", passages)
		if err != nil {
			t.Errorf("%s: %v", api, err)
			continue
		}
		for i, p := range passages {
			if scores[i] != scoreOf(Clip(p)) {
				t.Errorf("%s: passage %d has score %v, want %v", api, i, scores[i], scoreOf(p))
			}
		}
		want := 1
		if api == v1alpha1.RerankAPITEI {
			want = 4
		}
		if requests := s.asked(); len(requests) != want || requests[0]["query"] != "how long is parental leave" {
			t.Errorf("%s: %d requests, want %d", api, len(requests), want)
		}
	}
}

// TestBatchesOfTEI: a server that takes less than it said is asked again what it takes; one that does not tell gets the default.
func TestBatchesOfTEI(t *testing.T) {
	s, e := newServer(t, v1alpha1.RerankAPITEI)
	passages := manyPassages(40)
	if _, err := e.Score(t.Context(), "q", passages); err != nil {
		t.Fatal(err)
	}
	s.limit = 8
	if _, err := e.Score(t.Context(), "q", passages); reasonOf(err) != ReasonRefused {
		t.Errorf("got %v", err)
	}
	if _, err := e.Score(t.Context(), "q", passages); err != nil {
		t.Errorf("it was not asked again: %v", err)
	}
	var b batchLimit
	if got := b.get(t.Context(), func(context.Context) (int, error) { return 0, io.EOF }); got != defaultBatch {
		t.Errorf("a batch has %d", got)
	}
}

// TestFaults: whatever a server does instead of answering, there is a reason and no score; retried tells whether it is asked again.
func TestFaults(t *testing.T) {
	write := func(code int, media, body string) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	answer := func(body string) func(http.ResponseWriter, *http.Request, int) bool {
		return write(200, "application/json", body)
	}
	item := func(index, score string) string { return `{"index":` + index + `,"relevance_score":` + score + `}` }
	results := func(items ...string) string { return `{"results":[` + strings.Join(items, ",") + `]}` }
	good := item("1", "0.5")
	for name, c := range map[string]struct {
		fault   func(http.ResponseWriter, *http.Request, int) bool
		want    Reason
		retried bool
	}{
		"index too large":     {answer(results(good, item("2", "0.1"))), ReasonAnswer, false},
		"index below 0":       {answer(results(good, item("-1", "0.1"))), ReasonAnswer, false},
		"index with fraction": {answer(results(good, item("0.5", "0.1"))), ReasonAnswer, false},
		"index twice":         {answer(results(good, good)), ReasonAnswer, false},
		"one missing":         {answer(results(good)), ReasonAnswer, false},
		"one too many":        {answer(results(good, item("0", "1"), item("0", "1"))), ReasonAnswer, false},
		"no results":          {answer(`{"results":null}`), ReasonAnswer, false},
		"no index":            {answer(results(good, `{"relevance_score":1}`)), ReasonAnswer, false},
		"no score":            {answer(results(good, `{"index":0}`)), ReasonAnswer, false},
		"score of TEI":        {answer(results(good, `{"index":0,"score":1}`)), ReasonAnswer, false},
		"null":                {answer(results(good, item("0", "null"))), ReasonAnswer, false},
		"NaN":                 {answer(results(good, item("0", "NaN"))), ReasonAnswer, false},
		"NaN as text":         {answer(results(good, item("0", `"NaN"`))), ReasonAnswer, false},
		"infinite":            {answer(results(good, item("0", "1e999"))), ReasonAnswer, false},
		"out of all measure":  {answer(results(good, item("0", "-1e300"))), ReasonAnswer, false},
		"bare array":          {answer(`[` + good + `]`), ReasonAnswer, false},
		"empty":               {answer(""), ReasonAnswer, false},
		"cut off":             {answer(results(good)[:20]), ReasonAnswer, false},
		"two answers":         {answer(results(good, item("0", "1")) + results()), ReasonAnswer, false},
		"huge":                {answer(results(good, item("0", "1")) + strings.Repeat(" ", 2*answerBase)), ReasonAnswer, false},
		"HTML page":           {write(200, "text/html", "<html>sign in</html>"), ReasonAnswer, false},
		"wrong content type":  {write(200, "text/plain", results(good, item("0", "1"))), ReasonAnswer, false},
		"no content type":     {write(200, "", results(good, item("0", "1"))), ReasonAnswer, false},
		"400":                 {write(400, "application/json", testKey), ReasonRefused, false},
		"413":                 {write(413, "text/html", testKey), ReasonRefused, false},
		"422":                 {write(422, "application/json", testKey), ReasonRefused, false},
		"401":                 {write(401, "application/json", testKey), ReasonStatus, false},
		"404":                 {write(404, "text/html", "<html>"+testKey), ReasonStatus, false},
		"204":                 {write(204, "", ""), ReasonStatus, false},
		"408":                 {write(408, "", testKey), ReasonOverloaded, true},
		"424":                 {write(424, "", testKey), ReasonOverloaded, true},
		"429":                 {write(429, "", testKey), ReasonOverloaded, true},
		"500":                 {write(500, "", testKey), ReasonOverloaded, true},
		"503":                 {write(503, "text/html", testKey), ReasonOverloaded, true},
		"connection reset": {func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return true
		}, ReasonConnection, true},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "Authorization: Bearer "+testKey+"\r\n\r\n")
				conn.Close()
			}
			return true
		}, ReasonConnection, true},
		"body cut off": {func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, results(good))
			return true
		}, ReasonConnection, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := newServer(t, v1alpha1.RerankAPICohere)
			s.fault = c.fault
			_, err := e.Score(t.Context(), "parental leave", []string{"the first passage", "the second passage"})
			if reasonOf(err) != c.want {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if n := len(s.asked()); (n > 1) != c.retried || n > maxRetries+1 {
				t.Errorf("%d requests", n)
			}
			for _, secret := range []string{testKey, "parental", "passage 1", "first"} {
				if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
					t.Errorf("the error tells %q: %v", secret, err)
				}
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer target.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		s, e := newServer(t, v1alpha1.RerankAPIJina)
		s.fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, target.URL, code)
			return true
		}
		if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonStatus || strings.Contains(err.Error(), target.URL) {
			t.Errorf("HTTP %d: %v", code, err)
		}
	}
	if followed {
		t.Error("a redirect was followed, with the key")
	}
}

func TestRetriesSucceed(t *testing.T) {
	for name, fault := range map[string]func(w http.ResponseWriter){
		"500": func(w http.ResponseWriter) { w.WriteHeader(500) },
		"429 with a date": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.WriteHeader(429)
		},
		"429 without a sensible": func(w http.ResponseWriter) { w.Header().Set("Retry-After", "soon"); w.WriteHeader(429) },
	} {
		s, e := newServer(t, v1alpha1.RerankAPIVLLM)
		s.fault = func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
			if attempt <= 2 {
				fault(w)
			}
			return attempt <= 2
		}
		if scores, err := e.Score(t.Context(), "q", []string{"eee"}); err != nil || scores[0] != scoreOf("eee") || len(s.asked()) != 3 {
			t.Errorf("%s: %v, %v after %d requests", name, scores, err, len(s.asked()))
		}
	}
}

// TestRetryAfterIsHonoured: a wait that does not fit into the time is not begun, and one that fits is not cut short.
func TestRetryAfterIsHonoured(t *testing.T) {
	s, e := newServer(t, v1alpha1.RerankAPICohere)
	wait := "60"
	s.fault = func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
		w.Header().Set("Retry-After", wait)
		if wait != "" {
			w.WriteHeader(429)
		}
		return wait != ""
	}
	start := time.Now()
	if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonOverloaded || len(s.asked()) != 1 || time.Since(start) > 4*time.Second {
		t.Errorf("%v after %d requests and %v", err, len(s.asked()), time.Since(start))
	}
	s2, e2 := newServer(t, v1alpha1.RerankAPICohere)
	var first time.Time
	s2.fault = func(w http.ResponseWriter, _ *http.Request, attempt int) bool {
		if attempt == 1 {
			first = time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
		} else if time.Since(first) < time.Second {
			t.Errorf("asked again after %v", time.Since(first))
		}
		return attempt == 1
	}
	if _, err := e2.Score(t.Context(), "q", []string{"p"}); err != nil {
		t.Error(err)
	}
	now := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "86400": maxRetryAfter, "99999999999999999999": 0, "x": 0,
		now.Add(5 * time.Second).Format(http.TimeFormat): 5 * time.Second, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", header, got, want)
		}
	}
}

// TestASlowEndpoint is given up at the timeout of the spec; after a few of these it is not asked.
func TestASlowEndpoint(t *testing.T) {
	s, e := newServer(t, v1alpha1.RerankAPIInfinity)
	s.fault = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		select { // a server that never answers, and goes away with its client
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
		return true
	}
	e.timeout = 30 * time.Millisecond
	for range breakerRow {
		if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonTimeout {
			t.Fatal(err)
		}
	}
	asked := len(s.asked())
	if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonOpen || len(s.asked()) != asked {
		t.Errorf("%v after %d more requests", err, len(s.asked())-asked)
	}
}

// TestCallersAreNotTheServersFault: neither one who goes away, nor one whose question is refused, opens the breaker.
func TestCallersAreNotTheServersFault(t *testing.T) {
	s, e := newServer(t, v1alpha1.RerankAPICohere)
	refuse := true
	s.fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if refuse {
			w.WriteHeader(422)
		}
		return refuse
	}
	for range 3 * breakerWindow {
		if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonRefused {
			t.Fatal(err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range breakerRow {
		if _, err := e.Score(gone, "q", []string{"p"}); reasonOf(err) != ReasonCancelled {
			t.Fatal(err)
		}
	}
	refuse = false
	if _, err := e.Score(t.Context(), "q", []string{"p"}); err != nil {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	_, e := newServer(t, v1alpha1.RerankAPICohere)
	path := e.keyFile
	for content, want := range map[string]Reason{"": ReasonKey, "two words": ReasonKey, "line\nbreak": ReasonKey, "é": ReasonKey, "another": ReasonStatus, testKey: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := e.Score(t.Context(), "q", []string{"p"})
		if reasonOf(err) != want || err != nil && content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("key %q: %v, want %q", content, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonKey {
		t.Errorf("without a key: %v", err)
	}
}

// TestCertificates: a server is trusted by the bundle that the spec names, and by nothing else.
func TestCertificates(t *testing.T) {
	s := &server{t: t, api: v1alpha1.RerankAPICohere}
	listening := httptest.NewUnstartedServer(s)
	listening.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	listening.StartTLS()
	defer listening.Close()
	bundle := keyFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw})))
	spec := v1alpha1.RerankEndpoint{URL: listening.URL + "/prefix", Model: "m", CredentialsRef: &v1alpha1.SecretRef{Name: "key"}, Timeout: metav1.Duration{Duration: 5 * time.Second}}
	o := Options{KeyFile: keyFile(t, testKey), CAFile: bundle}
	stranger, err := NewEndpoint(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonConnection || !strings.Contains(err.Error(), "caBundleRef") {
		t.Errorf("without the bundle: %v", err)
	}
	spec.CABundleRef = &v1alpha1.KeyRef{Name: "ca", Key: "ca.crt"}
	trusting, err := NewEndpoint(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trusting.Score(t.Context(), "q", []string{"p"}); err != nil {
		t.Errorf("with the bundle: %v", err)
	}
	for _, content := range []string{"", "no certificate"} {
		o.CAFile = keyFile(t, content)
		if _, err := NewEndpoint(spec, o); err == nil || !strings.Contains(err.Error(), "caBundleRef") {
			t.Errorf("bundle %q: %v", content, err)
		}
	}
	o.CAFile += ".gone"
	if _, err := NewEndpoint(spec, o); err == nil {
		t.Error("a missing bundle was accepted")
	}
}

func TestADeadEndpoint(t *testing.T) {
	listening := httptest.NewServer(http.NotFoundHandler())
	listening.Close()
	e, err := NewEndpoint(v1alpha1.RerankEndpoint{URL: listening.URL, Model: "m", Timeout: metav1.Duration{Duration: 5 * time.Second}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Score(t.Context(), "q", []string{"p"}); reasonOf(err) != ReasonConnection || !strings.Contains(err.Error(), "reached") {
		t.Error(err)
	}
}
