//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// hit and answer are what an application reads of the search API.
type hit struct {
	Document string `json:"document"`
	Chunk    int    `json:"chunk"`
	Text     string `json:"text"`
}

type answer struct {
	Status int    `json:"-"`
	Tenant string `json:"tenant"`
	Index  string `json:"index"`
	Hits   []hit  `json:"hits"`
	// Reranked tells whether the order is the reranker's.
	Reranked bool `json:"reranked"`
	// Title and Detail are those of a problem document.
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (a answer) String() string {
	if a.Status != http.StatusOK {
		return fmt.Sprintf("HTTP %d %s: %s", a.Status, a.Title, a.Detail)
	}
	return fmt.Sprintf("HTTP 200 of %s: %s", a.Index, strings.Join(a.documents(), ", "))
}

// documents are those of the hits, each once, the best first.
func (a answer) documents() []string {
	var out []string
	for _, h := range a.Hits {
		if !slices.Contains(out, h.Document) {
			out = append(out, h.Document)
		}
	}
	return out
}

func (a answer) holds(document string) bool { return slices.Contains(a.documents(), document) }

// first is the best passage, which may be of any document.
func (a answer) first() hit {
	if len(a.Hits) == 0 {
		return hit{}
	}
	return a.Hits[0]
}

// searcher asks one tenant's Service.
type searcher struct {
	url  string
	http *http.Client
}

// at finds the Service of a tenant of the pipeline that most specs use.
func at(ctx context.Context, tenant string) searcher {
	GinkgoHelper()
	return serviceOf(ctx, pipeline, tenant)
}

// serviceOf finds a tenant's Service. Its address stays the same for the life of the Service.
func serviceOf(ctx context.Context, pipeline, tenant string) searcher {
	GinkgoHelper()
	service, err := tenantService(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	return searcher{"http://" + service.Spec.ClusterIP + "/v1/search", &http.Client{Timeout: 12 * time.Second, Transport: &http.Transport{}}}
}

// freshConnections is the same for a client that connects anew for each request.
func (s searcher) freshConnections() searcher {
	return searcher{s.url, &http.Client{Timeout: 12 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// impatient is the same for a client that gives up after a second, to try anew.
func (s searcher) impatient() searcher {
	return searcher{s.url, &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// ask sends a question; an empty token sends none. An error means that there was no HTTP answer at all, or no JSON in it.
func (s searcher) ask(ctx context.Context, token, question string, topK int) (answer, error) {
	body, err := json.Marshal(map[string]any{"query": question, "topK": topK})
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or useless
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	out := answer{Status: response.StatusCode}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("HTTP %d is no JSON: %w: %.200s", response.StatusCode, err, text)
	}
	return out, nil
}

// mustAsk fails the spec unless there is an answer with status 200.
func (s searcher) mustAsk(ctx context.Context, who person, question string, topK int) answer {
	GinkgoHelper()
	got, err := s.ask(ctx, who.token(), question, topK)
	Expect(err).NotTo(HaveOccurred(), "%s of tenant %s asks %q", who.user, who.tenant, question)
	Expect(got.Status).To(Equal(http.StatusOK), "%s of tenant %s asks %q: %s", who.user, who.tenant, question, got)
	return got
}

// expectVisible waits until the person finds the document.
func (s searcher) expectVisible(ctx context.Context, who person, t topic, limit time.Duration) {
	GinkgoHelper()
	await(ctx, limit, fmt.Sprintf("%s of tenant %s finds %s", who.user, who.tenant, t.key), func() error {
		got, err := s.ask(ctx, who.token(), t.question, 5)
		if err == nil && !got.holds(t.key) {
			err = fmt.Errorf("%s", got)
		}
		return err
	})
}

// watch asks the same question again and again, beside the spec.
type watch struct {
	mu       sync.Mutex
	asked    int
	problems []string
	slowest  time.Duration
	stop     context.CancelFunc
	done     chan struct{}
}

// startWatch asks every so often until finish. Whatever judge returns for an answer is a problem; so is no answer.
func startWatch(ctx context.Context, s searcher, who person, question string, every time.Duration, judge func(answer) error) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop, done: make(chan struct{})}
	token := who.token()
	go func() {
		defer close(w.done)
		for ctx.Err() == nil {
			begun := time.Now()
			got, err := s.ask(ctx, token, question, 5)
			if ctx.Err() != nil {
				return
			}
			if err == nil && got.Status != http.StatusOK {
				err = fmt.Errorf("%s", got)
			}
			if err == nil {
				err = judge(got)
			}
			w.note(time.Since(begun), err)
			pause(ctx, every-time.Since(begun))
		}
	}()
	return w
}

func (w *watch) note(took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	w.slowest = max(w.slowest, took)
	if err != nil {
		w.problems = append(w.problems, fmt.Sprintf("%s, question %d, after %d ms: %v", time.Now().Format("15:04:05.000"), w.asked, took.Milliseconds(), err))
	}
}

// finish ends the watch and fails the spec if there was any problem.
func (w *watch) finish(what string) {
	GinkgoHelper()
	w.stop()
	<-w.done
	GinkgoWriter.Printf("  %s: asked %d times, the slowest answer took %d ms, %d problems\n", what, w.asked, w.slowest.Milliseconds(), len(w.problems))
	if len(w.problems) > 0 {
		Fail(fmt.Sprintf("%s: %d of %d answers were wrong; the first of them:\n%s", what, len(w.problems), w.asked, strings.Join(w.problems[:min(10, len(w.problems))], "\n")))
	}
	Expect(w.asked).To(BeNumerically(">", 0), "%s: nothing was asked", what)
}
