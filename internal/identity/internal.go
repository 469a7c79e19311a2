package identity

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"quarry.dev/quarry/internal/access"
)

const (
	// InternalLifetime is the longest life of a token from gateway to retriever or reranker.
	InternalLifetime = 30 * time.Second
	// EvalLifetime is the longest life of a token of an evaluation Job.
	EvalLifetime = 60 * time.Second
)

// Role is what a token is for: the last part of its audience.
type Role string

// The roles. A token of one is worth nothing to another.
const (
	RoleBM25     Role = "bm25"
	RoleHNSW     Role = "hnsw"
	RoleReranker Role = "reranker"
	RoleEval     Role = "eval"
)

func (r Role) lifetime() time.Duration {
	if r == RoleEval {
		return EvalLifetime
	}
	return InternalLifetime
}

// Stack names one version of one tenant: tokens of another are refused.
type Stack struct{ Tenant, VersionDigest string }

// Audience is "<tenant>/<versionDigest>/<role>".
func (s Stack) Audience(role Role) string {
	return s.Tenant + "/" + s.VersionDigest + "/" + string(role)
}

func (s Stack) check() error {
	if s.Tenant == "" || s.VersionDigest == "" || strings.Contains(s.Tenant, "/") || strings.Contains(s.VersionDigest, "/") {
		return fmt.Errorf("tenant %q, versionDigest %q: both are needed, without '/'", s.Tenant, s.VersionDigest)
	}
	return nil
}

type internalClaims struct {
	jwt.RegisteredClaims
	Tenant string   `json:"tenant"`
	Groups []string `json:"groups,omitempty"`
	Run    string   `json:"run,omitempty"`
}

// Signer issues tokens for one stack.
type Signer struct {
	stack Stack
	key   ed25519.PrivateKey
	now   func() time.Time
}

// NewSigner reads a PKCS #8 Ed25519 key in PEM.
func NewSigner(stack Stack, privatePEM []byte) (*Signer, error) {
	if err := stack.check(); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(privatePEM)
	if block == nil {
		return nil, errors.New("private key: is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("private key: is not PKCS #8")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("private key: is not Ed25519")
	}
	return &Signer{stack: stack, key: key, now: time.Now}, nil
}

// Issue signs that the server of that role may answer id for the next seconds.
func (s *Signer) Issue(id access.Identity, role Role) (string, error) {
	if role == RoleEval {
		return "", errors.New("a gateway issues no evaluation tokens")
	}
	return s.sign(id, role, "")
}

// IssueEval signs that the evaluation run of that UID asks as id.
func (s *Signer) IssueEval(id access.Identity, run string) (string, error) {
	if run == "" {
		return "", errors.New("run is empty: give the UID of the EvalRun")
	}
	return s.sign(id, RoleEval, run)
}

func (s *Signer) sign(id access.Identity, role Role, run string) (string, error) {
	if id.User == "" || id.Tenant != s.stack.Tenant {
		return "", fmt.Errorf("identity of tenant %q is not one of this stack's", id.Tenant)
	}
	now := s.now()
	return jwt.NewWithClaims(jwt.SigningMethodEdDSA, internalClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: id.User, Audience: jwt.ClaimStrings{s.stack.Audience(role)},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(role.lifetime())),
		},
		Tenant: id.Tenant, Groups: id.Groups, Run: run,
	}).SignedString(s.key)
}

// InternalVerifier verifies the tokens of one Signer and one role.
type InternalVerifier struct {
	stack  Stack
	role   Role
	key    ed25519.PublicKey
	parser *jwt.Parser
}

// NewInternalVerifier reads a PKIX Ed25519 key in PEM.
func NewInternalVerifier(stack Stack, role Role, publicPEM []byte) (*InternalVerifier, error) {
	if err := stack.check(); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(publicPEM)
	if block == nil {
		return nil, errors.New("public key: is not PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("public key: is not Ed25519")
	}
	return &InternalVerifier{stack: stack, role: role, key: key, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithAudience(stack.Audience(role)),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway),
	)}, nil
}

// Verify returns the principal that the token speaks for. The error wraps ErrRefused.
func (v *InternalVerifier) Verify(token string) (access.Identity, error) {
	if len(token) > 2*maxGroups*access.MaxName {
		return access.Identity{}, refused("it has %d bytes", len(token))
	}
	var c internalClaims
	if _, err := v.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return v.key, nil }); err != nil {
		return access.Identity{}, refused("%w", err)
	}
	switch {
	case c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > v.role.lifetime():
		return access.Identity{}, refused("it lives longer than %v", v.role.lifetime())
	case len(c.Audience) != 1:
		return access.Identity{}, refused("it has %d audiences", len(c.Audience))
	case c.Tenant != v.stack.Tenant || c.Subject == "":
		return access.Identity{}, refused("it names no principal of this tenant")
	case (v.role == RoleEval) != (c.Run != ""):
		return access.Identity{}, refused("claim run does not fit its role")
	}
	return access.Identity{Tenant: c.Tenant, User: c.Subject, Groups: c.Groups}, nil
}
