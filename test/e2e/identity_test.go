//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	issuerURL = "https://sso.example.com"
	audience  = "search"
	keyID     = "e2e"
)

// issuer stands in for the company's single sign-on.
type issuer struct {
	public  ed25519.PublicKey
	private ed25519.PrivateKey
}

func newIssuer() (*issuer, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	return &issuer{public, private}, err
}

func (i *issuer) jwks() string {
	set, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": keyID,
		"x": base64.RawURLEncoding.EncodeToString(i.public),
	}}})
	Expect(err).NotTo(HaveOccurred())
	return string(set)
}

// person is somebody of a tenant.
type person struct {
	tenant, user string
	groups       []string
}

// ann is in every group that documents name; bob is in none.
func ann(tenant string) person { return person{tenant, "ann", []string{"hr", "staff"}} }
func bob(tenant string) person { return person{tenant, "bob", []string{}} }

// token proves the person for an hour.
func (p person) token() string { return world.issuer.sign(p, time.Hour) }

// sign makes a token that expires after ttl; a negative one has expired. An empty tenant gives no such claim.
func (i *issuer) sign(p person, ttl time.Duration) string {
	GinkgoHelper()
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": issuerURL, "aud": audience, "sub": p.user, "groups": p.groups,
		"iat": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(ttl).Unix(),
	}
	if p.tenant != "" {
		claims["tenant"] = p.tenant
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = keyID
	text, err := token.SignedString(i.private)
	Expect(err).NotTo(HaveOccurred())
	return text
}
