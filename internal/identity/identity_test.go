package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"quarry.dev/quarry/internal/access"
)

func jwks(t *testing.T, keys map[string]any) []byte {
	t.Helper()
	storage := jwkset.NewMemoryStorage()
	for kid, key := range keys {
		jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
		if err != nil {
			t.Fatal(err)
		}
		if err := storage.KeyWrite(t.Context(), jwk); err != nil {
			t.Fatal(err)
		}
	}
	data, err := storage.JSONPublic(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func good() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "https://issuer.example", "aud": []string{"search", "other"}, "tenant": "acme", "sub": "ann",
		"groups": []string{"hr", "eng"}, "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
	}
}

func testConfig() Config {
	return Config{Issuer: "https://issuer.example", Audiences: []string{"search"}, Tenant: "acme"}
}

func TestVerifyClaims(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier(testConfig(), KeysFromFile(writeFile(t, jwks(t, map[string]any{"k": public}))))
	if err != nil {
		t.Fatal(err)
	}
	id, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, private, "k", good()))
	if err != nil || id.Tenant != "acme" || id.User != "ann" || !slices.Equal(id.Groups, []string{"hr", "eng"}) {
		t.Fatalf("a good token gave %+v, %v", id, err)
	}
	past, future := time.Now().Add(-time.Minute).Unix(), time.Now().Add(time.Minute).Unix()
	many := make([]string, maxGroups+1)
	for i := range many {
		many[i] = "g"
	}
	for name, change := range map[string]func(jwt.MapClaims){
		"expired":              func(c jwt.MapClaims) { c["exp"] = past },
		"no expiry":            func(c jwt.MapClaims) { delete(c, "exp") },
		"not yet valid":        func(c jwt.MapClaims) { c["nbf"] = future },
		"issued in the future": func(c jwt.MapClaims) { c["iat"] = future },
		"other issuer":         func(c jwt.MapClaims) { c["iss"] = "https://issuer.example/" },
		"no issuer":            func(c jwt.MapClaims) { delete(c, "iss") },
		"other audience":       func(c jwt.MapClaims) { c["aud"] = "searches" },
		"no audience":          func(c jwt.MapClaims) { delete(c, "aud") },
		"no tenant":            func(c jwt.MapClaims) { delete(c, "tenant") },
		"empty tenant":         func(c jwt.MapClaims) { c["tenant"] = "" },
		"other tenant":         func(c jwt.MapClaims) { c["tenant"] = "globex" },
		"tenant in capitals":   func(c jwt.MapClaims) { c["tenant"] = "ACME" },
		"list of tenants":      func(c jwt.MapClaims) { c["tenant"] = []string{"acme"} },
		"no user":              func(c jwt.MapClaims) { delete(c, "sub") },
		"user is a number":     func(c jwt.MapClaims) { c["email"] = 7; c["sub"] = 7 },
		"groups as one text":   func(c jwt.MapClaims) { c["groups"] = "hr" },
		"group is a number":    func(c jwt.MapClaims) { c["groups"] = []any{"hr", 1} },
		"empty group":          func(c jwt.MapClaims) { c["groups"] = []string{""} },
		"too many groups":      func(c jwt.MapClaims) { c["groups"] = many },
		"groups elsewhere":     func(c jwt.MapClaims) { delete(c, "groups"); c["_claim_names"] = map[string]any{"groups": "src1"} },
		"hasgroups":            func(c jwt.MapClaims) { delete(c, "groups"); c["hasgroups"] = true },
	} {
		claims := good()
		change(claims)
		if id, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, private, "k", claims)); !errors.Is(err, ErrRefused) || id.User != "" {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
	}
	alone := good()
	delete(alone, "groups")
	if id, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, private, "k", alone)); err != nil || len(id.Groups) != 0 {
		t.Errorf("without groups: %+v, %v", id, err)
	}
	alone["groups"] = nil // what an issuer in Go writes for an empty list
	if id, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, private, "k", alone)); err != nil || len(id.Groups) != 0 {
		t.Errorf("with groups null: %+v, %v", id, err)
	}
	testForgeries(t, v, private)
}

// testForgeries tries what only a forger would send.
func testForgeries(t *testing.T, v *Verifier, private ed25519.PrivateKey) {
	t.Helper()
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	whole := sign(t, jwt.SigningMethodEdDSA, private, "k", good())
	parts := strings.Split(whole, ".")
	twice, _ := json.Marshal(good())
	doubled := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant":"acme",`+string(twice[1:])))
	signature, _ := private.Sign(rand.Reader, []byte(doubled), crypto.Hash(0))
	critical := jwt.NewWithClaims(jwt.SigningMethodEdDSA, good())
	critical.Header["kid"], critical.Header["crit"], critical.Header["bound-to"] = "k", []string{"bound-to"}, "another host"
	extended, _ := critical.SignedString(private)
	for name, token := range map[string]string{
		"empty":            "",
		"no token":         "abc",
		"stranger's key":   sign(t, jwt.SigningMethodEdDSA, stranger, "k", good()),
		"unknown key":      sign(t, jwt.SigningMethodEdDSA, stranger, "z", good()),
		"alg none":         sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "k", good()),
		"public as secret": sign(t, jwt.SigningMethodHS256, []byte(private.Public().(ed25519.PublicKey)), "k", good()),
		"cut signature":    whole[:len(whole)-4],
		"no signature":     parts[0] + "." + parts[1] + ".",
		"tenant twice":     doubled + "." + base64.RawURLEncoding.EncodeToString(signature),
		"critical header":  extended,
		"too long":         strings.Repeat("a", maxTokenBytes+1),
	} {
		if _, err := v.Verify(token); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAlgorithms(t *testing.T) {
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	v, err := NewVerifier(testConfig(), KeysFromFile(writeFile(t, jwks(t, map[string]any{"r": rsaKey.Public(), "e": ecKey.Public()}))))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method jwt.SigningMethod
		key    any
		kid    string
		ok     bool
	}{
		{jwt.SigningMethodRS256, rsaKey, "r", true}, {jwt.SigningMethodPS512, rsaKey, "r", true},
		{jwt.SigningMethodES256, ecKey, "e", true}, {jwt.SigningMethodES256, ecKey, "", true},
		{jwt.SigningMethodES256, ecKey, "r", false}, {jwt.SigningMethodRS256, rsaKey, "e", false},
	} {
		if _, err := v.Verify(sign(t, c.method, c.key, c.kid, good())); (err == nil) != c.ok {
			t.Errorf("%s with key %q: %v", c.method.Alg(), c.kid, err)
		}
	}
}

func TestFileKeysFollowTheFile(t *testing.T) {
	first, firstPrivate, _ := ed25519.GenerateKey(rand.Reader)
	second, secondPrivate, _ := ed25519.GenerateKey(rand.Reader)
	path := writeFile(t, jwks(t, map[string]any{"1": first}))
	keys := KeysFromFile(path)
	now := time.Now()
	keys.now = func() time.Time { return now }
	v, err := NewVerifier(testConfig(), keys)
	if err != nil {
		t.Fatal(err)
	}
	old, renewed := sign(t, jwt.SigningMethodEdDSA, firstPrivate, "1", good()), sign(t, jwt.SigningMethodEdDSA, secondPrivate, "2", good())
	expect := func(when, token string, want error) {
		t.Helper()
		if _, err := v.Verify(token); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", when, err, want)
		}
	}
	expect("first key", old, nil)
	if err := os.WriteFile(path, jwks(t, map[string]any{"2": second}), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	expect("removed key", old, ErrRefused)
	expect("new key", renewed, nil)
	for _, broken := range []string{"", "{", `{"keys":[]}`, "null"} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Second)
		expect("broken file "+broken, renewed, ErrUnavailable)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	expect("no file", renewed, ErrUnavailable)
	if err := os.WriteFile(path, jwks(t, map[string]any{"2": second}), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	expect("file is back", renewed, nil)
}

func TestKeysFromURL(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	data, up := jwks(t, map[string]any{"k": public}), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write(data)
	}))
	defer server.Close()
	keys, err := KeysFromURL(t.Context(), server.URL, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier(testConfig(), keys)
	if err != nil {
		t.Fatal(err)
	}
	token := sign(t, jwt.SigningMethodEdDSA, private, "k", good())
	up = true
	// An unknown key makes the client fetch once more; the first fetch has failed.
	if _, err := v.Verify(token); err != nil {
		t.Errorf("after the server is up: %v", err)
	}
}

func pair(t *testing.T) (private, public []byte) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b})
}

func TestInternalTokens(t *testing.T) {
	stack := Stack{Tenant: "acme", VersionDigest: "sha256:1"}
	private, public := pair(t)
	signer, err := NewSigner(stack, private)
	if err != nil {
		t.Fatal(err)
	}
	verifier := func(s Stack, role Role) *InternalVerifier {
		v, err := NewInternalVerifier(s, role, public)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ann := access.Identity{Tenant: "acme", User: "ann", Groups: []string{"hr"}}
	token, err := signer.Issue(ann, RoleBM25)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := verifier(stack, RoleBM25).Verify(token); err != nil || id.User != "ann" || id.Tenant != "acme" || !slices.Equal(id.Groups, ann.Groups) {
		t.Errorf("own token: %+v, %v", id, err)
	}
	evalToken, err := signer.IssueEval(ann, "uid")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier(stack, RoleEval).Verify(evalToken); err != nil {
		t.Errorf("eval token: %v", err)
	}
	otherPrivate, _ := pair(t)
	other, _ := NewSigner(stack, otherPrivate)
	foreign, _ := other.Issue(ann, RoleBM25)
	signer.now = func() time.Time { return time.Now().Add(-time.Minute) }
	expired, _ := signer.Issue(ann, RoleBM25)
	key := signer.key
	long := sign(t, jwt.SigningMethodEdDSA, key, "", jwt.MapClaims{
		"aud": stack.Audience(RoleBM25), "tenant": "acme", "sub": "ann", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	nobody := sign(t, jwt.SigningMethodEdDSA, key, "", jwt.MapClaims{
		"aud": stack.Audience(RoleBM25), "tenant": "acme", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Second).Unix()})
	for name, c := range map[string]struct {
		v     *InternalVerifier
		token string
	}{
		"other role":      {verifier(stack, RoleHNSW), token},
		"other version":   {verifier(Stack{"acme", "sha256:2"}, RoleBM25), token},
		"other tenant":    {verifier(Stack{"globex", "sha256:1"}, RoleBM25), token},
		"other key":       {verifier(stack, RoleBM25), foreign},
		"expired":         {verifier(stack, RoleBM25), expired},
		"lives too long":  {verifier(stack, RoleBM25), long},
		"no user":         {verifier(stack, RoleBM25), nobody},
		"eval for bm25":   {verifier(stack, RoleBM25), evalToken},
		"bm25 for eval":   {verifier(stack, RoleEval), token},
		"nothing at all":  {verifier(stack, RoleBM25), ""},
		"only two points": {verifier(stack, RoleBM25), ".."},
	} {
		if id, err := c.v.Verify(c.token); !errors.Is(err, ErrRefused) || id.User != "" {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
	}
	if _, err := signer.Issue(access.Identity{Tenant: "globex", User: "ann"}, RoleBM25); err == nil {
		t.Error("signed for another tenant")
	}
	if _, err := signer.Issue(access.Identity{Tenant: "acme"}, RoleBM25); err == nil {
		t.Error("signed for nobody")
	}
}
