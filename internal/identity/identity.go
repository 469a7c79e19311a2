// Package identity turns tokens into verified principals. There are three kinds of tokens, and none passes for another:
// an end user's token, by the issuer that the pipeline trusts; the gateway's own tokens for its retrievers; and the tokens
// of an evaluation Job. Whatever is missing, unreadable or foreign is refused, always with the same ErrRefused.
package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"quarry.dev/quarry/internal/access"
)

var (
	// ErrRefused: the token proves nothing here. The wrapped reason is for the log of an operator, never for the caller.
	ErrRefused = errors.New("token refused")
	// ErrUnavailable: no key is at hand to judge any token with; the fault is on this side.
	ErrUnavailable = errors.New("no verification keys")
)

const (
	// leeway between two clocks.
	leeway = 5 * time.Second
	// maxTokenBytes and maxGroups bound the work that an unverified, or overfed, token can cause.
	maxTokenBytes = 64 << 10
	maxGroups     = 1000
)

// algorithms are all asymmetric: a public key must never work as an HMAC secret.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Config says which end users' tokens are accepted.
type Config struct {
	// Issuer must equal the claim iss. Audiences: one of them must be in aud.
	Issuer    string
	Audiences []string
	// Tenant is the one that this stack serves; the tenant claim must equal it.
	Tenant string
	// UserClaim, GroupsClaim and TenantClaim default to sub, groups and tenant.
	UserClaim, GroupsClaim, TenantClaim string
}

// Verifier verifies end users' tokens.
type Verifier struct {
	config Config
	keys   Keys
	parser *jwt.Parser
}

// NewVerifier refuses a configuration that would let tokens through unchecked.
func NewVerifier(c Config, keys Keys) (*Verifier, error) {
	switch {
	case c.Issuer == "":
		return nil, errors.New("identity.jwt.issuer is empty: write the iss claim of your tokens")
	case len(c.Audiences) == 0 || slices.Contains(c.Audiences, ""):
		return nil, fmt.Errorf("identity.jwt.audiences is %q: list the aud claims to accept, none of them empty", c.Audiences)
	case c.Tenant == "":
		return nil, errors.New("tenant is empty: name the tenant that this stack serves")
	case keys == nil:
		return nil, errors.New("identity.jwt has no keys: set jwksRef or jwksURL")
	}
	for claim, value := range map[*string]string{&c.UserClaim: "sub", &c.GroupsClaim: "groups", &c.TenantClaim: "tenant"} {
		if *claim == "" {
			*claim = value
		}
	}
	return &Verifier{config: c, keys: keys, parser: jwt.NewParser(
		jwt.WithValidMethods(algorithms), jwt.WithIssuer(c.Issuer), jwt.WithAudience(c.Audiences...),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithJSONNumber(),
	)}, nil
}

// Verify returns the principal that the token proves. The error wraps ErrRefused or ErrUnavailable.
func (v *Verifier) Verify(token string) (access.Identity, error) {
	if len(token) > maxTokenBytes {
		return access.Identity{}, refused("it has %d bytes", len(token))
	}
	keyfunc, err := v.keys.Keyfunc()
	if err != nil {
		return access.Identity{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	claims := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(token, claims, keyfunc)
	if err != nil {
		return access.Identity{}, refused("%w", err)
	}
	// RFC 7515, 4.1.11: a token that lists extensions as critical is for those alone who understand them; none is here.
	if _, ok := parsed.Header["crit"]; ok {
		return access.Identity{}, refused("its header crit asks for extensions that are not supported")
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = uniqueClaims(payload)
	}
	if err != nil {
		return access.Identity{}, refused("%w", err)
	}
	id := access.Identity{Tenant: v.config.Tenant}
	if tenant, _ := claims[v.config.TenantClaim].(string); tenant != v.config.Tenant {
		return access.Identity{}, refused("claim %s is absent or names another tenant", v.config.TenantClaim)
	}
	if id.User, _ = claims[v.config.UserClaim].(string); id.User == "" || len(id.User) > access.MaxName {
		return access.Identity{}, refused("claim %s is no text of 1 to %d bytes", v.config.UserClaim, access.MaxName)
	}
	if id.Groups, err = groups(claims, v.config.GroupsClaim); err != nil {
		return access.Identity{}, err
	}
	return id, nil
}

// groups reads an array of texts. A token without the claim, or with null, has no groups, unless it says that they are elsewhere because
// they were too many: then nobody knows what this user may read.
func groups(claims jwt.MapClaims, claim string) ([]string, error) {
	if elsewhere, ok := claims["_claim_names"]; ok {
		names, isObject := elsewhere.(map[string]any)
		if _, moved := names[claim]; moved || !isObject {
			return nil, refused("its groups are left out as too many (_claim_names): have the issuer send only the groups of this application")
		}
	}
	if has, ok := claims["hasgroups"]; ok && has != false {
		return nil, refused("its groups are left out as too many (hasgroups): have the issuer send only the groups of this application")
	}
	value := claims[claim]
	if value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok || len(list) > maxGroups {
		return nil, refused("claim %s is no array of at most %d texts", claim, maxGroups)
	}
	var out []string
	for _, item := range list {
		name, ok := item.(string)
		if !ok || name == "" || len(name) > access.MaxName {
			return nil, refused("claim %s holds something else than a text of 1 to %d bytes", claim, access.MaxName)
		}
		out = append(out, name)
	}
	return out, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}

// Bearer returns the token of an Authorization header; "" where there is none.
func Bearer(header string) string {
	scheme, token, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// uniqueClaims makes sure that a claim cannot be given twice: parsers differ in which one they take.
func uniqueClaims(payload []byte) error {
	dec := json.NewDecoder(strings.NewReader(string(payload)))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("its claims are no JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if seen[name] {
			return fmt.Errorf("claim %s is given twice", name)
		}
		seen[name] = true
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return err
		}
	}
	return nil
}
