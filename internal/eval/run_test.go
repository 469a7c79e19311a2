package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// gateway serves fixed hits per query, and remembers nothing.
func gateway(t *testing.T, index string, hits map[string][]Hit) *Gateway {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body searchRequest
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/search" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		if r.Header.Get("Authorization") != "Bearer token-of-ann" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		answer := searchAnswer{Index: index, Hits: []Hit{}}
		answer.Hits = append(answer.Hits, hits[body.Query]...)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &Gateway{Index: index, VersionDigest: "sha256:" + index, URL: server.URL, Token: func(p Principal) (string, error) { return "token-of-" + p.User, nil }}
}

// input asks ten questions, q0 to q9, each answered by the document d0 to d9.
func input(t *testing.T) RunInput {
	hits, worse := map[string][]Hit{}, map[string][]Hit{}
	in := RunInput{
		Run: "run", EvalSetDigest: "sha256:set", AccessEpoch: 7,
		Metrics:    []Metric{{Recall, 5}, {NDCG, 5}, {MRR, 0}},
		InSnapshot: func(string) bool { return true },
		Access:     func(context.Context) (RawAccess, error) { return RawAccess{Default: "Everyone"}, nil },
	}
	for i := range 10 {
		q, d := fmt.Sprintf("q%d", i), fmt.Sprintf("d%d", i)
		in.Questions = append(in.Questions, Question{ID: q, Question: q, Kind: Answerable, As: Principal{User: "ann"}, Evidence: [][]Evidence{{{Document: d}}}})
		hits[q] = ranking(d, "other")
		if i > 0 {
			worse[q] = ranking("other", d)
		}
	}
	in.Subject = *gateway(t, "new", hits)
	in.Baseline = gateway(t, "old", worse)
	return in
}

func run(t *testing.T, in RunInput) Report {
	t.Helper()
	report, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRun(t *testing.T) {
	in := input(t)
	var calls atomic.Int32
	in.Progress = func(int, int) { calls.Add(1) }
	report := run(t, in)
	recall, _ := report.Metric(Metric{Recall, 5})
	if recall.Value != 1 || recall.Questions != 10 || recall.Paired == nil || recall.Paired.Gained != 1 || recall.Paired.Baseline != 0.9 {
		t.Errorf("got %+v %+v", recall, recall.Paired)
	}
	if report.Leaks != (LeakReport{Probes: 10}) || len(report.Errors) != 0 || report.Invalid != "" || calls.Load() != 10 {
		t.Errorf("got %+v", report)
	}
	for _, want := range []string{"Recall@5  1.0000", "leaks: 0 forbidden hits in 10 answers"} {
		if !strings.Contains(report.Text(), want) {
			t.Errorf("%q is not in\n%s", want, report.Text())
		}
	}
}

func TestRunFindsLeaks(t *testing.T) {
	in := input(t)
	secret := RawAccess{Default: "Everyone", Rules: []RawRule{{Prefix: "d3", Allow: []RawPrincipal{{Type: "User", Name: "ann"}}}, {Prefix: "other"}}}
	in.Access = func(context.Context) (RawAccess, error) { return secret, nil }
	report := run(t, in)
	if report.Leaks.Hits != 10 || report.Questions[0].ForbiddenHits[0] != "other" {
		t.Errorf("got %+v", report.Leaks)
	}
	// granted between the two readings: no leak
	reads := 0
	in.Access = func(context.Context) (RawAccess, error) {
		if reads++; reads == 1 {
			return secret, nil
		}
		return RawAccess{Default: "Everyone"}, nil
	}
	if report := run(t, in); report.Leaks.Hits != 0 || reads != 2 {
		t.Errorf("got %+v after %d readings", report.Leaks, reads)
	}
	// a question may forbid a document by itself
	in.Access = func(context.Context) (RawAccess, error) { return RawAccess{Default: "Everyone"}, nil }
	in.Questions[0].Forbidden = []string{"other"}
	if report := run(t, in); report.Leaks.Hits != 1 {
		t.Errorf("got %+v", report.Leaks)
	}
}

// A revocation takes a while to arrive. Gone after the grace period it is no leak; still there it is one.
func TestRunGrantsGrace(t *testing.T) {
	for name, c := range map[string]struct {
		answers int32 // that still show the revoked document
		want    LeakReport
	}{
		"arrives": {1, LeakReport{Probes: 1, Late: 1}},
		"never":   {99, LeakReport{Probes: 1, Hits: 1}},
		"replica": {3, LeakReport{Probes: 1, Hits: 1}},
	} {
		in := input(t)
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer := searchAnswer{Index: "new", Hits: ranking("d0")}
			if requests.Add(1) <= c.answers {
				answer.Hits = ranking("d0", "revoked")
			}
			_ = json.NewEncoder(w).Encode(answer)
		}))
		defer server.Close()
		in.Subject.URL, in.Questions, in.Baseline, in.Grace = server.URL, in.Questions[:1], nil, 1
		in.Access = func(context.Context) (RawAccess, error) {
			return RawAccess{Default: "Everyone", Sidecars: map[string][]RawPrincipal{"revoked": {}}}, nil
		}
		if report := run(t, in); report.Leaks != c.want || (len(report.Questions[0].ForbiddenHits) > 0) != (c.want.Hits > 0) {
			t.Errorf("%s: got %+v", name, report.Leaks)
		}
	}
}

func TestRunRecordsErrors(t *testing.T) {
	in := input(t)
	in.Baseline.Index = "expected"
	in.Questions[2].As.User = "nobody"
	report := run(t, in)
	if len(report.Errors) != 10 || !strings.Contains(report.Errors[0].Message, `index "old" answered instead of "expected"`) ||
		!strings.Contains(report.Errors[2].Message, "HTTP 401") {
		t.Errorf("got %+v", report.Errors)
	}
	if recall, _ := report.Metric(Metric{Recall, 5}); recall.Questions != 0 {
		t.Errorf("unanswered questions were measured: %+v", recall)
	}
}

func TestRunRetries(t *testing.T) {
	in := input(t)
	var requests atomic.Int32
	flaky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(searchAnswer{Index: "new", Hits: []Hit{}})
	}))
	defer flaky.Close()
	in.Subject.URL, in.Questions, in.Baseline = flaky.URL, in.Questions[:1], nil
	if report := run(t, in); len(report.Errors) != 0 || requests.Load() != 2 {
		t.Errorf("got errors %v after %d requests, want none after 2", report.Errors, requests.Load())
	}
}

// A reranker that fails leaves the fused order: another recipe than the one that is judged.
func TestRunWantsReranking(t *testing.T) {
	for name, c := range map[string]struct {
		failures, requests int32
		hits               []Hit
		says               string
	}{
		"recovers": {failures: 1, requests: 2, hits: ranking("d0")},
		"nothing":  {failures: 9, requests: 1},
		"fails":    {failures: 9, requests: attempts, hits: ranking("d0"), says: "subject: the answer says reranked: false"},
	} {
		in := input(t)
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer := searchAnswer{Index: "new", Hits: append([]Hit{}, c.hits...), Reranked: requests.Add(1) > c.failures}
			_ = json.NewEncoder(w).Encode(answer)
		}))
		defer server.Close()
		in.Subject.URL, in.Subject.Reranks, in.Subject.pause, in.Questions, in.Baseline = server.URL, true, 1, in.Questions[:1], nil
		report := run(t, in)
		if requests.Load() != c.requests || (c.says == "") != (len(report.Errors) == 0) {
			t.Errorf("%s: %d requests, errors %v", name, requests.Load(), report.Errors)
		}
		if c.says != "" && !strings.Contains(report.Errors[0].Message, c.says) {
			t.Errorf("%s: %v does not say %q", name, report.Errors, c.says)
		}
	}
}

// Questions that a recipe was chosen on still probe for leaks, and count in nothing else.
func TestRunMeasuresTheGatePart(t *testing.T) {
	in := input(t)
	for i := range in.Questions {
		in.Questions[i].Part = Dev
	}
	in.Questions[9].Part, in.Questions[8].Part = Gate, ""
	in.InSnapshot = func(d string) bool { return d != "d0" }
	in.Access = func(context.Context) (RawAccess, error) {
		return RawAccess{Default: "Everyone", Sidecars: map[string][]RawPrincipal{"d3": {}}}, nil
	}
	in.Questions[3].Evidence = append(in.Questions[3].Evidence, []Evidence{{Document: "d4"}})
	report := run(t, in)
	recall, _ := report.Metric(Metric{Recall, 5})
	if recall.Questions != 2 || len(report.Stale) != 0 || report.Invalid != "" || report.Leaks != (LeakReport{Probes: 9, Hits: 1}) {
		t.Errorf("got %+v, stale %v, invalid %q, leaks %+v", recall, report.Stale, report.Invalid, report.Leaks)
	}
}

func TestRunLeavesStaleQuestionsOut(t *testing.T) {
	in := input(t)
	in.InSnapshot = func(d string) bool { return d != "d4" }
	report := run(t, in)
	if len(report.Stale) != 1 || report.Stale[0].ID != "q4" || report.Invalid != "" || report.Leaks.Probes != 9 {
		t.Errorf("got %+v", report)
	}
	in.InSnapshot = func(d string) bool { return d > "d4" }
	if report := run(t, in); !strings.Contains(report.Invalid, "5 of 10 answerable questions are stale") {
		t.Errorf("got %q", report.Invalid)
	}
	in.InSnapshot = func(string) bool { return false }
	if report := run(t, in); report.Invalid == "" || report.Leaks.Probes != 0 {
		t.Errorf("got %+v", report)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*RunInput){
		"no question":    func(in *RunInput) { in.Questions = nil },
		"no metric":      func(in *RunInput) { in.Metrics = nil },
		"unknown metric": func(in *RunInput) { in.Metrics = []Metric{{"Joy", 3}} },
		"no access":      func(in *RunInput) { in.Access = nil },
		"broken access": func(in *RunInput) {
			in.Access = func(context.Context) (RawAccess, error) { return RawAccess{}, errors.New("down") }
		},
		"no token": func(in *RunInput) { in.Baseline.Token = nil },
	} {
		in := input(t)
		change(&in)
		if _, err := Run(t.Context(), in); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(ctx, input(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped run says %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	g := Gateway{Index: "new"}
	for _, body := range []string{
		`<html>`, `{"index":"new"}`, `{"index":"old","hits":[]}`, `{"index":"new","hits":[{"document":"","score":1}]}`,
		`{"index":"new","hits":[{"document":"d","score":"high"}]}`, `{"index":"new","hits":[{"document":"d","start":5,"end":4}]}`,
	} {
		if _, err := g.decode([]byte(body)); err == nil {
			t.Errorf("%s is accepted", body)
		}
	}
}

func TestRawAccess(t *testing.T) {
	access := RawAccess{
		Default: "Nobody",
		Rules: []RawRule{
			{Prefix: "hr/", Allow: []RawPrincipal{{Type: "Group", Name: "hr"}}},
			{Prefix: "hr/open/", Allow: []RawPrincipal{{Type: "Everyone"}}},
			{Prefix: "hr/none/"},
		},
		Sidecars: map[string][]RawPrincipal{"hr/pay.md": {{Type: "User", Name: "ann"}}, "hr/open/broken.md": {}},
		Metadata: map[string][]RawPrincipal{"hr/pay.md": {{Type: "Everyone"}}, "hr/note.md": {{Type: "Anybody"}}},
		Gone:     map[string]bool{"hr/open/old.md": true},
	}
	ann, bob := Principal{User: "ann"}, Principal{User: "bob", Groups: []string{"hr"}}
	for _, c := range []struct {
		document string
		ann, bob bool
	}{
		{"hr/leave.md", false, true},
		{"hr/open/map.md", true, true},
		{"hr/none/x.md", false, false},
		{"hr/pay.md", true, false},
		{"hr/open/broken.md", false, false},
		{"hr/note.md", false, false},
		{"hr/open/old.md", false, false},
		{"elsewhere.md", false, false},
	} {
		if access.Permits(c.document, ann) != c.ann || access.Permits(c.document, bob) != c.bob {
			t.Errorf("%s: got ann %v, bob %v", c.document, access.Permits(c.document, ann), access.Permits(c.document, bob))
		}
	}
	if named([]RawPrincipal{{Type: "User"}, {Type: "Group"}}, Principal{Groups: []string{""}}) {
		t.Error("an empty name matched")
	}
}
