package evaljob

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/source"
	"quarry.dev/quarry/internal/stage"
)

// documents is enough for a guard to trip: at most ten deletions pass by themselves.
const documents = 30

// bench is a corpus of documents that ann reads by a sidecar each and nobody else does, and the mounted files of one Job.
type bench struct {
	t                 *testing.T
	source, artifacts *artifact.Memory
	sync              source.SyncInput
	config            stage.Config
	plan              eval.Plan
	set               string
	etc               string
}

func newBench(t *testing.T) *bench {
	spec := v1alpha1.AccessSpec{Default: v1alpha1.AccessNobody, SidecarSuffix: ".acl.json"}
	b := &bench{t: t, source: artifact.NewMemory(), artifacts: artifact.NewMemory(), etc: t.TempDir()}
	b.sync = source.SyncInput{
		Source: b.source, Artifacts: b.artifacts, Owner: artifact.Owner{ClusterUID: "c", Namespace: "rag", Name: "docs"},
		Policy: access.FromSpec(spec), Guard: source.GuardSpec{MaxPercent: 20, MaxDocuments: 1000},
	}
	for i := range documents {
		b.put(b.source, name(i), "text")
		b.put(b.source, name(i)+".acl.json", `{"allow":[{"type":"User","name":"ann"}]}`)
		b.set += fmt.Sprintf(`{"id":"q%d","question":"%s","as":{"user":"ann"},"evidence":[[{"document":"%s"}]]}`+"\n", i, name(i), name(i))
	}
	b.config = stage.Config{Tenant: "acme", Index: "new", VersionDigest: "sha256:new", Snapshot: b.publish(), ContentDigest: "sha256:c"}
	b.plan = eval.Plan{
		Run: "run", RunUID: "uid", Access: spec, EvalSetDigest: artifact.Digest([]byte(b.set)),
		Metrics: []v1alpha1.GateMetric{{Name: v1alpha1.MetricRecall, K: 10}},
		// What is left of the grace period is a millisecond.
		SyncInterval: time.Millisecond - lag,
	}
	return b
}

func name(i int) string { return fmt.Sprintf("d%02d.md", i) }

func (b *bench) put(to *artifact.Memory, key, text string) {
	b.t.Helper()
	if _, err := to.Put(b.t.Context(), key, []byte(text), artifact.Condition{}); err != nil {
		b.t.Fatal(err)
	}
}

// remove deletes n objects of the source, the documents' own or their sidecars.
func (b *bench) remove(n int, suffix string) {
	b.t.Helper()
	for i := range n {
		if err := b.source.Delete(b.t.Context(), name(i)+suffix); err != nil {
			b.t.Fatal(err)
		}
	}
}

// publish syncs once, as the operator does, and returns the digest of the snapshot.
func (b *bench) publish() string {
	b.t.Helper()
	out, err := source.Sync(b.t.Context(), b.sync)
	if err != nil {
		b.t.Fatal(err)
	}
	b.sync.Live = append(b.sync.Live, out.Snapshot)
	return out.Snapshot
}

func (b *bench) write(path string, body []byte) {
	b.t.Helper()
	path = filepath.Join(b.etc, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// gateway serves an evaluation port that answers a query with the document of that name, and mounts its key for the Job.
func (b *bench) gateway(mounted, index string) eval.Target {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write("eval/"+mounted+"/private.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	pkix, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		b.t.Fatal(err)
	}
	stack := identity.Stack{Tenant: "acme", VersionDigest: "sha256:" + index}
	verifier, err := identity.NewInternalVerifier(stack, identity.RoleEval, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix}))
	if err != nil {
		b.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := verifier.Verify(identity.Bearer(r.Header.Get("Authorization")))
		if err != nil || who.User != "ann" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		var body struct{ Query string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		_ = json.NewEncoder(w).Encode(map[string]any{"index": index, "hits": []any{map[string]any{"document": body.Query, "score": 1, "end": 4}}})
	}))
	b.t.Cleanup(server.Close)
	return eval.Target{Index: index, VersionDigest: stack.VersionDigest, URL: server.URL}
}

// run mounts everything and runs the Job's body. It returns the termination message too.
func (b *bench) run() (string, error) {
	b.t.Helper()
	b.plan.Subject = b.gateway("subject", "new")
	for path, value := range map[string]any{"config/config.json": b.config, "config/eval.json": b.plan} {
		text, err := json.Marshal(value)
		if err != nil {
			b.t.Fatal(err)
		}
		b.write(path, text)
	}
	b.write("config/eval.jsonl", []byte(b.set))
	termination := filepath.Join(b.etc, "termination-log")
	err := Run(b.t.Context(), Options{Etc: b.etc, TerminationLog: termination, Out: &bytes.Buffer{}, Artifacts: b.artifacts})
	message, readErr := os.ReadFile(termination)
	if readErr != nil {
		b.t.Fatal(readErr)
	}
	return string(message), err
}

// report runs and reads what the termination message names, by digest.
func (b *bench) report() eval.Report {
	b.t.Helper()
	message, err := b.run()
	if err != nil {
		b.t.Fatal(err)
	}
	var named struct{ Report, Digest string }
	if err := json.Unmarshal([]byte(message), &named); err != nil {
		b.t.Fatalf("%s: %v", message, err)
	}
	body, err := artifact.GetVerified(b.t.Context(), b.artifacts, named.Report, named.Digest)
	if err != nil {
		b.t.Fatal(err)
	}
	var report eval.Report
	if err := json.Unmarshal(body, &report); err != nil {
		b.t.Fatal(err)
	}
	return report
}

func TestRunLeavesTheReportThatItNames(t *testing.T) {
	b := newBench(t)
	baseline := b.gateway("baseline", "old")
	b.plan.Baseline = &baseline
	report := b.report()
	recall, ok := report.Metric(eval.Metric{Name: eval.Recall, K: 10})
	if !ok || recall.Value != 1 || recall.Questions != documents || recall.Paired == nil || recall.Paired.Baseline != 1 {
		t.Errorf("recall: %+v", recall)
	}
	if report.Run != "run" || report.Index != "new" || report.Baseline != "old" || report.EvalSetDigest != b.plan.EvalSetDigest || report.AccessEpoch != 1 {
		t.Errorf("got %+v", report)
	}
	if report.Leaks != (eval.LeakReport{Probes: documents}) || len(report.Errors) > 0 || len(report.Stale) > 0 {
		t.Errorf("leaks %+v, errors %v, stale %v", report.Leaks, report.Errors, report.Stale)
	}
	if _, err := b.artifacts.Head(t.Context(), "evals/run/report.html"); err != nil {
		t.Error(err)
	}
}

// Without what the plan says of a version, answers of a reranker that fails would be taken for those of its recipe.
func TestThePlanSaysWhoReranks(t *testing.T) {
	b := newBench(t)
	target := b.gateway("subject", "new")
	for _, target.Reranks = range []bool{true, false} {
		g, err := gateway(b.etc, "subject", "acme", b.plan, target)
		if err != nil || g.Reranks != target.Reranks {
			t.Errorf("a target with reranks %v is asked as %v, %v", target.Reranks, g.Reranks, err)
		}
	}
}

func TestQuestionsFromTheBucket(t *testing.T) {
	b := newBench(t)
	b.plan.EvalSetObject = "evals/sets/acme.jsonl"
	b.put(b.artifacts, b.plan.EvalSetObject, b.set)
	b.set = "the ConfigMap is not asked"
	if report := b.report(); len(report.Questions) != documents {
		t.Errorf("asked %d questions", len(report.Questions))
	}
}

// What the guard withholds still answers, with the access that it had: that is no leak.
func TestWhatTheGuardWithholdsIsNoLeak(t *testing.T) {
	for what, suffix := range map[string]string{"documents": "", "sidecars": ".acl.json"} {
		b := newBench(t)
		b.remove(documents/2, suffix)
		if suffix == "" {
			b.remove(documents/2, ".acl.json")
		}
		if again := b.publish(); again != b.config.Snapshot {
			t.Fatalf("%s: the guard let %d deletions pass", what, documents/2)
		}
		if report := b.report(); report.Leaks != (eval.LeakReport{Probes: documents}) || len(report.Stale) > 0 {
			t.Errorf("%s: leaks %+v, %d stale questions", what, report.Leaks, len(report.Stale))
		}
	}
}

// The server of this test knows no access at all: what was published as deleted, or as readable for others, is a leak.
func TestWhatIsPublishedIsEnforced(t *testing.T) {
	forbidden := func(b *bench) {
		b.set = ""
		for i := range documents {
			b.set += fmt.Sprintf(`{"id":"q%d","question":"%s","as":{"user":"ann"},"kind":"Unanswerable"}`+"\n", i, name(i))
		}
		b.plan.EvalSetDigest = artifact.Digest([]byte(b.set))
	}
	for what, c := range map[string]struct {
		change func(*bench)
		hits   int
	}{
		"nothing": {func(*bench) {}, 0},
		"deleted though everyone could read it": {func(b *bench) {
			b.plan.Access.Default = v1alpha1.AccessEveryone
			b.remove(3, "")
			b.remove(3, ".acl.json")
		}, 3},
		"given to another": {func(b *bench) { b.put(b.source, name(0)+".acl.json", `{"allow":[{"type":"User","name":"bob"}]}`) }, 1},
		"given to a group": {func(b *bench) { b.put(b.source, name(0)+".acl.json", `{"allow":[{"type":"Group","name":"ann"}]}`) }, 1},
		"unreadable":       {func(b *bench) { b.put(b.source, name(0)+".acl.json", `{"allow":`) }, 1},
		"lost sidecars":    {func(b *bench) { b.remove(2, ".acl.json") }, 2},
		"metadata instead": {func(b *bench) {
			b.remove(2, ".acl.json")
			b.put(b.source, name(0), "texts")
			b.source.SetMetadata(name(0), map[string]string{source.MetadataKey: `{"allow":[{"type":"Everyone"}]}`})
		}, 1},
		"a rule for everyone below a sidecar for another": {func(b *bench) {
			b.plan.Access.Rules = []v1alpha1.AccessRule{{Prefix: "d", Allow: []v1alpha1.Principal{{Type: v1alpha1.PrincipalEveryone}}}}
			b.put(b.source, name(0)+".acl.json", `{"allow":[]}`)
		}, 1},
	} {
		b := newBench(t)
		forbidden(b)
		c.change(b)
		b.publish()
		if report := b.report(); report.Leaks != (eval.LeakReport{Probes: documents, Hits: c.hits}) {
			t.Errorf("%s: %+v, want %d hits", what, report.Leaks, c.hits)
		}
	}
}

func TestNoReportWithoutEvidence(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*bench)
		want   string
	}{
		"another eval set":   {func(b *bench) { b.set += " \n" }, "as the run asks for: create a new run"},
		"a broken set":       {func(b *bench) { b.set = "{}"; b.plan.EvalSetDigest = artifact.Digest([]byte(b.set)) }, "line 1: id"},
		"no object":          {func(b *bench) { b.plan.EvalSetObject = "evals/sets/absent.jsonl" }, "read the eval set"},
		"no snapshot":        {func(b *bench) { b.config.Snapshot = artifact.Digest(nil) }, "snapshots/"},
		"no sync":            {func(b *bench) { _ = b.artifacts.Delete(b.t.Context(), artifact.CurrentKey) }, artifact.CurrentKey},
		"no ledger":          {func(b *bench) { b.deleteBelow("ledger/") }, "read the access rules, without which no leak can be seen"},
		"no key":             {func(b *bench) { b.plan.Baseline = &eval.Target{Index: "old"} }, "evaluation key of the baseline"},
		"settings of no one": {func(b *bench) { b.config.Index = "" }, "settings: index is empty"},
	} {
		b := newBench(t)
		c.change(b)
		message, err := b.run()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
		if !strings.Contains(message, c.want) || strings.HasPrefix(message, "{") {
			t.Errorf("%s: the termination message is %q", what, message)
		}
		if _, err := b.artifacts.Head(t.Context(), "evals/run/report.json"); err == nil {
			t.Errorf("%s: there is a report", what)
		}
	}
}

func (b *bench) deleteBelow(prefix string) {
	for _, key := range b.artifacts.Keys() {
		if strings.HasPrefix(key, prefix) {
			_ = b.artifacts.Delete(b.t.Context(), key)
		}
	}
}
