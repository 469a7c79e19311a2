package search

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/testdata"
)

func handbook(t *testing.T) []document {
	return []document{
		{"hr/leave.md", allow(t, "group:hr"), []string{"parental leave lasts sixteen weeks", "sick leave needs a note"}},
		{"public/travel.md", allow(t, "everyone"), []string{"travel expense claims are paid monthly"}},
		{"secret/merger.md", allow(t, "user:ann"), []string{"the merger plan is secret"}},
		{"nobody.md", access.Nobody(), []string{"parental leave travel merger"}},
	}
}

func TestSearchFiltersByReader(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	for token, want := range map[string][]string{
		"ann":       {"public/travel.md", "secret/merger.md"},
		"ann:hr":    {"hr/leave.md", "public/travel.md", "secret/merger.md"},
		"bob:hr,it": {"hr/leave.md", "public/travel.md"},
		"eve":       {"public/travel.md"},
		"hr":        {"public/travel.md"},
	} {
		got := s.documents(t, token, "parental leave travel merger plan")
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s sees %q, want %q", token, got, want)
		}
	}
	if got := s.documents(t, "bob:hr", "parental leave"); got[0] != "hr/leave.md" {
		t.Errorf("best hit is %q", got[0])
	}
}

func TestRevocationHoldsAtOnce(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	sees := func(token, document string) bool {
		return slices.Contains(s.documents(t, token, "parental leave travel merger plan"), document)
	}
	if !sees("bob:hr", "hr/leave.md") || !sees("eve", "public/travel.md") {
		t.Fatal("not seen before")
	}
	s.publish(t, 2, map[string]access.OverlayEntry{
		"hr/leave.md":      {Allow: allow(t, "group:legal")},
		"public/travel.md": {Gone: true, Allow: access.Nobody()},
		"nobody.md":        {Allow: allow(t, "group:it")},
	})
	if sees("bob:hr", "hr/leave.md") || sees("eve", "public/travel.md") {
		t.Error("seen after the revocation")
	}
	if !sees("bob:legal", "hr/leave.md") || !sees("bob:it", "nobody.md") {
		t.Error("a grant without a new index does not hold")
	}
	// Storage that falls back to older access data does not bring anything back.
	s.storage.set(1, nil)
	if err := s.gateway.Overlays.Refresh(t.Context()); err == nil {
		t.Error("an older epoch was accepted")
	}
	if sees("bob:hr", "hr/leave.md") {
		t.Error("an older epoch resurrects")
	}
}

func TestEpochHandshake(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	revoke := map[string]access.OverlayEntry{"hr/leave.md": {Allow: access.Nobody()}}
	// A retriever is ahead: the gateway catches up before it answers.
	s.storage.set(2, revoke)
	if err := s.hnsw.Overlays.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.documents(t, "bob:hr", "parental leave"); slices.Contains(got, "hr/leave.md") || s.gateway.Overlays.Epoch() != 2 || s.bm25.Overlays.Epoch() != 2 {
		t.Errorf("got %q at epochs %d and %d", got, s.gateway.Overlays.Epoch(), s.bm25.Overlays.Epoch())
	}
	// A retriever cannot follow: no answer.
	s.publish(t, 3, nil)
	s.bm25.Overlays.read = (&storage{overlay: access.Overlay{Epoch: 2, VerifiedAt: time.Now()}}).read
	if code, answer := s.post(t, "bob:hr", `{"query":"parental leave"}`); code != http.StatusServiceUnavailable {
		t.Errorf("HTTP %d: %s", code, answer)
	}
}

func TestStaleAccessDataGivesNoAnswer(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	s.gateway.Overlays.now = func() time.Time { return time.Now().Add(DefaultMaxStaleness + time.Second) }
	code, answer := s.post(t, "ann", `{"query":"travel"}`)
	if code != http.StatusServiceUnavailable || !strings.Contains(answer, "AccessStale") {
		t.Errorf("HTTP %d: %s", code, answer)
	}
	// Verified again, with nothing changed: the same epoch, only newer.
	s.storage.overlay.VerifiedAt = s.gateway.Overlays.now()
	if err := s.gateway.Overlays.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, answer := s.post(t, "ann", `{"query":"travel"}`); code != http.StatusOK {
		t.Errorf("HTTP %d: %s", code, answer)
	}
	s.gateway.Overlays.now = time.Now
	s.bm25.Overlays.now = func() time.Time { return time.Now().Add(time.Hour) }
	if code, _ := s.post(t, "ann", `{"query":"travel"}`); code != http.StatusServiceUnavailable {
		t.Errorf("a retriever with stale data answered: HTTP %d", code)
	}
}

func TestNoOverlayNoAnswer(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	s.gateway.Overlays = NewOverlays(s.storage.read, 0)
	if code, _ := s.post(t, "ann", `{"query":"travel"}`); code != http.StatusServiceUnavailable {
		t.Errorf("HTTP %d", code)
	}
	if err := s.gateway.SelfQuery(t.Context()); err == nil {
		t.Error("ready without access data")
	}
}

// TestCompromisedRetriever: whatever a retriever answers, the gateway shows nothing that its own access table forbids.
func TestCompromisedRetriever(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	for name, answer := range map[string]string{
		"hidden chunk":   `{"index":"support-acme-1","epoch":1,"hits":[{"chunk":0,"score":9}],"also":[],"bound":9}`,
		"unknown chunk":  `{"index":"support-acme-1","epoch":1,"hits":[{"chunk":4000,"score":9}],"also":[],"bound":9}`,
		"other index":    `{"index":"support-globex-1","epoch":1,"hits":[],"also":[],"bound":9}`,
		"other epoch":    `{"index":"support-acme-1","epoch":0,"hits":[],"also":[],"bound":9}`,
		"missing hits":   `{"index":"support-acme-1","epoch":1}`,
		"too few scores": `{"index":"support-acme-1","epoch":1,"hits":[],"also":[]}`,
		"no JSON":        `oops`,
		"empty":          ``,
	} {
		s.routes["bm25"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, answer) })
		if code, body := s.post(t, "eve", `{"query":"travel parental leave"}`); code != http.StatusServiceUnavailable {
			t.Errorf("%s: HTTP %d: %s", name, code, body)
		}
	}
	delete(s.routes, "bm25")
	if code, _ := s.post(t, "eve", `{"query":"travel"}`); code != http.StatusServiceUnavailable {
		t.Errorf("retriever down: HTTP %d", code)
	}
	if err := s.gateway.SelfQuery(t.Context()); err == nil {
		t.Error("ready without a retriever")
	}
}

func TestTokensOfOtherPorts(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	ann := access.Identity{Tenant: "acme", User: "ann", Groups: []string{"hr"}}
	evalToken, err := s.evalSigner.IssueEval(ann, "uid")
	if err != nil {
		t.Fatal(err)
	}
	internal, err := s.gateway.Signer.Issue(ann, identity.RoleBM25)
	if err != nil {
		t.Fatal(err)
	}
	users := s.gateway.Handler(func(token string) (access.Identity, error) {
		if token != "user-token" {
			return access.Identity{}, identity.ErrRefused
		}
		return ann, nil
	})
	evals := s.gateway.Handler(s.eval.Verify)
	body := `{"query":"parental leave","topK":1}`
	retrieve := `{"query":"parental leave","k":1}`
	for name, c := range map[string]struct {
		handler     http.Handler
		path, token string
		body        string
		want        int
	}{
		"user on the users' port":            {users, "/v1/search", "user-token", body, 200},
		"eval on the eval port":              {evals, "/v1/search", evalToken, body, 200},
		"gateway at its retriever":           {s.bm25.Handler(), "/v1/retrieve", internal, retrieve, 200},
		"eval on the users' port":            {users, "/v1/search", evalToken, body, 401},
		"internal on the users' port":        {users, "/v1/search", internal, body, 401},
		"user on the eval port":              {evals, "/v1/search", "user-token", body, 401},
		"internal on the eval port":          {evals, "/v1/search", internal, body, 401},
		"nobody on the users' port":          {users, "/v1/search", "", body, 401},
		"nobody on the eval port":            {evals, "/v1/search", "", body, 401},
		"nobody at a retriever":              {s.bm25.Handler(), "/v1/retrieve", "", retrieve, 401},
		"eval at a retriever":                {s.bm25.Handler(), "/v1/retrieve", evalToken, retrieve, 401},
		"bm25's token at hnsw":               {s.hnsw.Handler(), "/v1/retrieve", internal, retrieve, 401},
		"nobody with a broken body":          {users, "/v1/search", "", "{", 401},
		"search at a retriever":              {s.bm25.Handler(), "/v1/search", internal, body, 404},
		"retrieve at the gateway":            {users, "/v1/retrieve", internal, retrieve, 404},
		"a retriever is asked for too many":  {s.bm25.Handler(), "/v1/retrieve", internal, `{"query":"a","k":100000}`, 400},
		"a retriever is asked for less than": {s.bm25.Handler(), "/v1/retrieve", internal, `{"query":"a","k":-1}`, 400},
	} {
		if code, answer := request(t, c.handler, c.path, c.token, c.body); code != c.want {
			t.Errorf("%s: HTTP %d, want %d: %s", name, code, c.want, answer)
		}
	}
	stranger := access.Identity{Tenant: "globex", User: "ann", Groups: []string{"hr"}}
	if _, err := s.gateway.Search(t.Context(), stranger, Request{Query: "leave"}); err == nil {
		t.Error("another tenant's principal was answered")
	}
}

func TestRetrieverAnswersOnlyAllowedChunks(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	for _, r := range []*Retriever{s.bm25, s.hnsw} {
		role := identity.RoleBM25
		if r == s.hnsw {
			role = identity.RoleHNSW
		}
		token, err := s.gateway.Signer.Issue(access.Identity{Tenant: "acme", User: "eve"}, role)
		if err != nil {
			t.Fatal(err)
		}
		code, answer := request(t, r.Handler(), "/v1/retrieve", token, `{"query":"parental leave travel merger","k":100,"also":[0,1,2,3,4,99]}`)
		var out retrieveResponse
		if err := json.Unmarshal([]byte(answer), &out); err != nil || code != http.StatusOK {
			t.Fatalf("HTTP %d: %s", code, answer)
		}
		for _, h := range out.Hits {
			if document := s.gateway.Chunks.At(h.Chunk).Document; document != "public/travel.md" {
				t.Errorf("%s returned a chunk of %s", role, document)
			}
		}
		for i, score := range out.Also {
			if s.gateway.Chunks.At(uint32(i)).Document != "public/travel.md" && score != 0 {
				t.Errorf("%s scored the hidden chunk %d: %v", role, i, score)
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	for body, c := range map[string]struct {
		code int
		says string
	}{
		``:                               {400, "not valid JSON"},
		`{`:                              {400, "not valid JSON"},
		`[]`:                             {400, "send an object"},
		`{"query":7}`:                    {400, "query is a number"},
		`{}`:                             {400, "query is empty"},
		`{"query":""}`:                   {400, "query is empty"},
		`{"query":" \n\t"}`:              {400, "query is empty"},
		`{"query":"a","top_k":3}`:        {400, `\"top_k\" is not known`},
		`{"query":"a","user":"ann"}`:     {400, "not known"},
		`{"query":"a"} {"query":"b"}`:    {400, "text follows"},
		`{"query":"a","topK":0}`:         {400, "topK is 0: use 1 to 100"},
		`{"query":"a","topK":101}`:       {400, "topK is 101"},
		`{"query":"a","topK":1.5}`:       {400, "topK is a number 1.5: it must be a whole number"},
		`{"query":"a","topK":"5"}`:       {400, "topK is a string"},
		`{"query":"a","explain":"Plan"}`: {400, "use Ranks or None"},
		"{\"query\":\"\xff\"}":           {400, "UTF-8"},
		`{"query":"` + strings.Repeat("é", MaxQuery+1) + `"}`:      {400, "at most 10000"},
		`{"query":"` + strings.Repeat("a", maxBody) + `"}`:         {413, "262144 bytes"},
		`{"query":"` + strings.Repeat("é", MaxQuery) + `"}`:        {200, ""},
		`{"query":"` + strings.Repeat(`\ud83d\ude00`, 9999) + `"}`: {200, ""},
		`{"query":"travel","topK":100,"explain":"None"}`:           {200, `"hits":[{`},
	} {
		code, answer := s.post(t, "ann", body)
		if code != c.code || !strings.Contains(answer, c.says) {
			t.Errorf("%.60s: HTTP %d: %.200s; want %d and %q", body, code, answer, c.code, c.says)
		}
	}
	if strings.Contains(s.log.String(), "travel") {
		t.Error("a query is in the log")
	}
}

// TestQueriesAreText: nothing that a user types is syntax.
func TestQueriesAreText(t *testing.T) {
	data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Queries []string `json:"queries"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	for _, q := range cases.Queries {
		body, _ := json.Marshal(map[string]string{"query": q})
		want := http.StatusOK
		if strings.TrimSpace(q) == "" || utf8.RuneCountInString(q) > MaxQuery {
			want = http.StatusBadRequest
		}
		if code, answer := s.post(t, "ann", string(body)); code != want {
			t.Errorf("%.40q: HTTP %d: %s", q, code, answer)
		}
	}
}

func TestExplain(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	_, plain := s.post(t, "ann:hr", `{"query":"parental leave"}`)
	if strings.Contains(plain, "ranks") || strings.Contains(plain, "scores") {
		t.Errorf("explained without being asked: %s", plain)
	}
	code, answer := s.post(t, "ann:hr", `{"query":"parental leave","explain":"Ranks","topK":1}`)
	var out Response
	if err := json.Unmarshal([]byte(answer), &out); err != nil || code != 200 || len(out.Hits) != 1 {
		t.Fatalf("HTTP %d: %s", code, answer)
	}
	h := out.Hits[0]
	if h.Document != "hr/leave.md" || h.Chunk != 0 || h.Ranks == nil || h.Ranks.BM25 != 1 || h.Ranks.Fused != 1 || h.Score <= 0 || h.Headings == nil {
		t.Errorf("got %s", answer)
	}
}

func TestIdenticalPassagesFold(t *testing.T) {
	same := []string{"the office is closed"}
	s := newStack(t, []document{
		{"a.md", allow(t, "group:hr"), same}, {"b.md", allow(t, "everyone"), same}, {"c.md", allow(t, "everyone"), same},
	}, v1alpha1.RetrievalSpec{})
	if got := s.documents(t, "eve", "office closed"); !slices.Equal(got, []string{"b.md"}) {
		t.Errorf("eve gets %q", got)
	}
	if got := s.documents(t, "bob:hr", "office closed"); !slices.Equal(got, []string{"a.md"}) {
		t.Errorf("bob gets %q", got)
	}
}

func TestReadiness(t *testing.T) {
	s := newStack(t, handbook(t), v1alpha1.RetrievalSpec{})
	if err := s.gateway.SelfQuery(t.Context()); err != nil {
		t.Error(err)
	}
	empty := newStack(t, []document{{"a.md", allow(t, "everyone"), nil}}, v1alpha1.RetrievalSpec{})
	if empty.bm25.SelfQuery(Texts(empty.gateway.Chunks)) == nil || empty.gateway.SelfQuery(t.Context()) == nil {
		t.Error("an index without chunks is ready")
	}
	stops := newStack(t, []document{{"a.md", allow(t, "everyone"), []string{"the of and"}}}, v1alpha1.RetrievalSpec{})
	if err := stops.bm25.SelfQuery(Texts(stops.gateway.Chunks)); err != nil {
		t.Errorf("stop words alone: %v", err)
	}
}
