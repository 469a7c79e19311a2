package pod_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/pod"
	"quarry.dev/quarry/internal/source"
	"quarry.dev/quarry/internal/stage"
)

// cluster is one stack of three processes on this machine, over a folder as object storage.
type cluster struct {
	t              *testing.T
	documents, out string
	etc            string
	users          ed25519.PrivateKey
	eval           []byte
	config         stage.Config
	addresses      map[string]string
	log            lockedBuffer
	ended          chan error
	started        int
	stop           context.CancelFunc
	patience       time.Duration
}

// lockedBuffer is written by several processes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) write(path string, data []byte) {
	c.t.Helper()
	check(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(c.t, os.WriteFile(path, data, 0o600))
}

func pemPair(t *testing.T) (private, public []byte) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	a, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	b, err := x509.MarshalPKIXPublicKey(pub)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

var accessSpec = v1alpha1.AccessSpec{Default: v1alpha1.AccessNobody, SidecarSuffix: ".acl.json", Rules: []v1alpha1.AccessRule{
	{Prefix: "public/", Allow: []v1alpha1.Principal{{Type: v1alpha1.PrincipalEveryone}}},
	{Prefix: "hr/", Allow: []v1alpha1.Principal{{Type: v1alpha1.PrincipalGroup, Name: "hr"}}},
}}

// newCluster builds an index and lays out every file that the operator would mount.
func newCluster(t *testing.T, rerank v1alpha1.RerankSpec) *cluster {
	dir := t.TempDir()
	c := &cluster{t: t, documents: filepath.Join(dir, "docs"), out: filepath.Join(dir, "out"), etc: filepath.Join(dir, "etc"),
		addresses: map[string]string{}, ended: make(chan error, 8)}
	c.write(c.documents+"/hr/leave.md", []byte("# Leave\n\n## Parental\n\nParental leave lasts sixteen weeks.\n"))
	c.write(c.documents+"/public/travel.md", []byte("# Travel\n\nTravel expenses are paid monthly.\n"))
	c.write(c.documents+"/public/old.md", []byte("# Old\n\nThe old office is closed.\n"))
	recipe, err := local.ReadRecipe("")
	check(t, err)
	recipe.Access = accessSpec
	_, err = local.Build(t.Context(), c.documents, c.out, recipe, nil)
	check(t, err)
	c.readBuilt()

	public, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	c.users = private
	key, err := jwkset.NewJWKFromKey(public, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "1"}})
	check(t, err)
	keys := jwkset.NewMemoryStorage()
	check(t, keys.KeyWrite(t.Context(), key))
	set, err := keys.JSONPublic(t.Context())
	check(t, err)
	c.write(c.etc+"/jwks/jwks.json", set)
	gatewayPrivate, gatewayPublic := pemPair(t)
	evalPrivate, evalPublic := pemPair(t)
	c.eval = evalPrivate
	c.write(c.etc+"/keys/private.pem", gatewayPrivate)
	c.write(c.etc+"/public/gateway.pem", gatewayPublic)
	c.write(c.etc+"/public/eval.pem", evalPublic)

	for _, name := range []string{"bm25", "hnsw", "gateway", "reranker", "bm25-admin", "hnsw-admin", "gateway-admin", "reranker-admin", "eval"} {
		c.addresses[name] = freeAddress(t)
	}
	c.config.Tenant, c.config.Index = "acme", "support-acme-1"
	c.config.Identity = v1alpha1.IdentitySpec{Type: "JWT", JWT: &v1alpha1.JWTSpec{
		Issuer: "https://issuer.example", Audiences: []string{"search"}, JWKSRef: &v1alpha1.JWKSRef{ConfigMap: &v1alpha1.KeyRef{Name: "a", Key: "b"}}}}
	c.config.Peers = stage.Peers{BM25: "http://" + c.addresses["bm25"], HNSW: "http://" + c.addresses["hnsw"], Reranker: "http://" + c.addresses["reranker"]}
	c.config.Retrieval.Rerank = rerank
	text, err := json.Marshal(c.config)
	check(t, err)
	c.write(c.etc+"/config/config.json", text)
	return c
}

func (c *cluster) readBuilt() {
	data, err := os.ReadFile(filepath.Join(c.out, "local.json"))
	check(c.t, err)
	check(c.t, json.Unmarshal(data, &struct{ Config *stage.Config }{&c.config}))
}

func (c *cluster) start(roles ...string) {
	ctx, stop := context.WithCancel(c.t.Context())
	c.stop = stop
	run := func(name, etc string, serve func(context.Context, pod.Options) error) {
		o := pod.Options{Etc: etc, Data: filepath.Join(c.t.TempDir(), name), Address: c.addresses[name], AdminAddress: c.addresses[name+"-admin"],
			EvalAddress: c.addresses["eval"], Log: slog.New(slog.NewTextHandler(&c.log, nil))}
		o.SetRerankerPatience(c.patience)
		if etc == c.etc {
			o.SetBucket(artifact.NewDir(c.out))
		}
		c.started++
		go func() { c.ended <- serve(ctx, o) }()
	}
	run("gateway", c.etc, pod.Gateway) // first: it must wait for the others
	time.Sleep(100 * time.Millisecond)
	if c.ready("gateway") {
		c.t.Error("the gateway is ready without retrievers")
	}
	for _, role := range []identity.Role{identity.RoleBM25, identity.RoleHNSW} {
		run(string(role), c.etc, func(ctx context.Context, o pod.Options) error { return pod.Retriever(ctx, role, o) })
	}
	wanted := append([]string{"bm25", "hnsw", "gateway"}, roles...)
	for _, role := range roles {
		run(role, c.rerankerEtc(), pod.Reranker)
	}
	unready := func(name string) bool { return !c.ready(name) }
	for deadline := time.Now().Add(15 * time.Second); slices.ContainsFunc(wanted, unready); time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-c.ended:
			c.t.Fatalf("a process ended: %v\n%s", err, c.log.String())
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("not ready in time\n%s", c.log.String())
		}
	}
}

// rerankerEtc is all that a reranker pod mounts: no keys of a bucket, no private key, no users' keys.
func (c *cluster) rerankerEtc() string {
	etc := filepath.Join(c.t.TempDir(), "etc")
	for _, file := range []string{"config/config.json", "public/gateway.pem"} {
		data, err := os.ReadFile(filepath.Join(c.etc, file))
		check(c.t, err)
		c.write(filepath.Join(etc, file), data)
	}
	return etc
}

func (c *cluster) ready(name string) bool {
	response, err := http.Get("http://" + c.addresses[name+"-admin"] + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (c *cluster) user(tenant, name string, groups ...string) string {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "https://issuer.example", "aud": "search",
		"tenant": tenant, "sub": name, "groups": append([]string{}, groups...), "exp": time.Now().Add(time.Minute).Unix()})
	token.Header["kid"] = "1"
	text, err := token.SignedString(c.users)
	check(c.t, err)
	return text
}

func (c *cluster) ask(port, token, query string) (int, string) {
	c.t.Helper()
	body, _ := json.Marshal(map[string]string{"query": query})
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://"+c.addresses[port]+"/v1/search", bytes.NewReader(body))
	check(c.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	check(c.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(c.t, err)
	return response.StatusCode, string(answer)
}

// sync lists the documents again, as the operator does while this index is served.
func (c *cluster) sync(spec v1alpha1.AccessSpec) {
	_, err := source.Sync(c.t.Context(), source.SyncInput{
		Source: artifact.NewDir(c.documents), Artifacts: artifact.NewDir(c.out), Live: []string{c.config.Snapshot},
		Owner:  artifact.Owner{ClusterUID: "local", Namespace: "local", Name: "local"},
		Policy: access.FromSpec(spec), Guard: source.GuardSpec{MaxPercent: 100, MaxDocuments: 1000},
	})
	check(c.t, err)
}

// eventually waits until newer access data has reached the stack: two polls, at most.
func (c *cluster) eventually(what string, holds func() bool) {
	c.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > 6*time.Second {
			c.t.Errorf("%s: not within 6 s", what)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Logf("%s after %v", what, time.Since(start).Round(100*time.Millisecond))
}

func TestStackOfProcesses(t *testing.T) {
	c := newCluster(t, v1alpha1.RerankSpec{Type: v1alpha1.RerankBuiltin, Model: embed.Static256})
	c.start("reranker")
	bob, eve := c.user("acme", "bob", "hr"), c.user("acme", "eve")
	sees := func(token, query, document string) bool {
		t.Helper()
		code, answer := c.ask("gateway", token, query)
		if code != http.StatusOK {
			t.Errorf("HTTP %d: %s", code, answer)
		}
		return strings.Contains(answer, document)
	}
	if !sees(bob, "how long is parental leave", "hr/leave.md") || sees(eve, "how long is parental leave", "hr/leave.md") {
		t.Error("the filter does not hold")
	}
	if _, answer := c.ask("gateway", bob, "how long is parental leave"); !strings.Contains(answer, `"reranked":true`) {
		t.Errorf("not reranked: %s", answer)
	}
	signer, err := identity.NewSigner(identity.Stack{Tenant: "acme", VersionDigest: c.config.VersionDigest}, c.eval)
	check(t, err)
	evalToken, err := signer.IssueEval(access.Identity{Tenant: "acme", User: "bob", Groups: []string{"hr"}}, "uid")
	check(t, err)
	for _, probe := range []struct {
		port, token string
		want        int
	}{
		{"eval", evalToken, 200}, {"eval", bob, 401}, {"gateway", evalToken, 401}, {"gateway", c.user("globex", "bob", "hr"), 401},
		{"gateway", "", 401}, {"bm25", bob, 404}, {"reranker", bob, 404},
	} {
		if code, answer := c.ask(probe.port, probe.token, "leave"); code != probe.want || strings.Contains(answer, "sixteen") && code != 200 {
			t.Errorf("port %s: HTTP %d, want %d: %s", probe.port, code, probe.want, answer)
		}
	}

	revoked := accessSpec
	revoked.Rules = accessSpec.Rules[:1]
	check(t, os.Remove(c.documents+"/public/old.md"))
	c.sync(revoked)
	c.eventually("a revoked document is gone", func() bool { return !sees(bob, "parental leave", "hr/leave.md") })
	c.eventually("a deleted document is gone", func() bool { return !sees(eve, "old office", "public/old.md") })

	for _, secret := range []string{"how long is parental", "old office", bob, evalToken} {
		if strings.Contains(c.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	response, err := http.Get("http://" + c.addresses["gateway-admin"] + "/metrics")
	check(t, err)
	metrics, err := io.ReadAll(response.Body)
	check(t, err)
	response.Body.Close()
	if !strings.Contains(string(metrics), `quarry_access_violations_total{role="gateway"} 0`) || !strings.Contains(string(metrics), `quarry_requests_total{code="200"`) {
		t.Errorf("metrics are incomplete:\n%.2000s", metrics)
	}
	c.stop()
	for range c.started {
		if err := <-c.ended; err != nil {
			t.Errorf("a process did not end well: %v", err)
		}
	}
}

// TestAStackOutlivesItsReranker: one that never comes, and one whose endpoint is down, cost the order and nothing else.
func TestAStackOutlivesItsReranker(t *testing.T) {
	dead := v1alpha1.RerankSpec{Type: v1alpha1.RerankTypeEndpoint, Endpoint: &v1alpha1.RerankEndpoint{URL: "http://" + freeAddress(t), Model: "m"}}
	for name, roles := range map[string][]string{"no reranker": nil, "dead endpoint": {"reranker"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, dead)
			c.patience = 300 * time.Millisecond
			c.start(roles...)
			code, answer := c.ask("gateway", c.user("acme", "bob", "hr"), "how long is parental leave")
			if code != http.StatusOK || !strings.Contains(answer, `"reranked":false`) || !strings.Contains(answer, "sixteen") {
				t.Errorf("HTTP %d: %s", code, answer)
			}
			if log := c.log.String(); !strings.Contains(log, "starting without the reranker") || strings.Contains(log, "parental") {
				t.Errorf("the log is %s", log)
			}
			c.stop()
			for range c.started {
				if err := <-c.ended; err != nil {
					t.Errorf("a process did not end well: %v", err)
				}
			}
		})
	}
}

func TestADamagedArtifactIsNotServed(t *testing.T) {
	c := newCluster(t, v1alpha1.RerankSpec{})
	damaged := 0
	check(t, filepath.WalkDir(c.out, func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "bm25.seg" {
			damaged++
			data, err := os.ReadFile(path)
			check(t, err)
			data[len(data)/2] ^= 1
			return os.WriteFile(path, data, 0o600)
		}
		return err
	}))
	if damaged != 1 {
		t.Fatalf("%d files damaged", damaged)
	}
	o := pod.Options{Etc: c.etc, Data: t.TempDir(), Address: c.addresses["bm25"], AdminAddress: c.addresses["bm25-admin"], Log: slog.New(slog.DiscardHandler)}
	o.SetBucket(artifact.NewDir(c.out))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := pod.Retriever(ctx, identity.RoleBM25, o); err == nil {
		t.Error("a damaged artifact was served")
	}
}

// TestNewKeysEndTheProcess: a stack whose key pair was made anew must come to agree on it without anybody's help.
func TestNewKeysEndTheProcess(t *testing.T) {
	c := newCluster(t, v1alpha1.RerankSpec{})
	o := pod.Options{Etc: c.etc, Data: t.TempDir(), Address: c.addresses["bm25"], AdminAddress: c.addresses["bm25-admin"], Log: slog.New(slog.DiscardHandler)}
	o.SetBucket(artifact.NewDir(c.out))
	o.SetKeysInterval(20 * time.Millisecond)
	go func() { c.ended <- pod.Retriever(t.Context(), identity.RoleBM25, o) }()
	c.eventually("ready", func() bool { return c.ready("bm25") })
	_, other := pemPair(t)
	check(t, os.Rename(c.etc+"/public/gateway.pem", c.etc+"/public/gone.pem"))
	time.Sleep(100 * time.Millisecond)
	if !c.ready("bm25") {
		t.Error("it ends while no other key is there")
	}
	c.write(c.etc+"/public/gateway.pem", other)
	select {
	case err := <-c.ended:
		if err != nil {
			t.Errorf("it did not end well: %v", err)
		}
	case <-time.After(15 * time.Second):
		t.Error("it goes on with the old key")
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	for _, file := range []string{"config/config.json", "public/gateway.pem", "public/eval.pem", "keys/private.pem"} {
		c := newCluster(t, v1alpha1.RerankSpec{})
		check(t, os.Remove(filepath.Join(c.etc, file)))
		o := pod.Options{Etc: c.etc, Data: t.TempDir(), Address: "127.0.0.1:0", AdminAddress: "127.0.0.1:0", EvalAddress: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
		o.SetBucket(artifact.NewDir(c.out))
		err := fmt.Errorf("not started")
		if file == "public/gateway.pem" {
			err = pod.Retriever(t.Context(), identity.RoleHNSW, o)
		} else {
			err = pod.Gateway(t.Context(), o)
		}
		if err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("without %s: %v", file, err)
		}
	}
}
