// Command idp stands in for an identity provider in the demo and in the tests: it makes a key pair with its JWKS, and
// signs tokens as a company's single sign-on would. Never use it for anything else.
//
//	idp keys DIR
//	idp token DIR --issuer URL --audience NAME --tenant acme --user ann --group hr --ttl 1h
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/spf13/cobra"
)

const keyID = "demo"

func main() {
	root := &cobra.Command{Use: "idp", Short: "An identity provider for the demo", SilenceUsage: true}
	root.AddCommand(keysCommand(), tokenCommand())
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

func keysCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keys DIR",
		Short: "Write private.pem and jwks.json, unless they are there",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return writeKeys(args[0]) },
	}
}

func writeKeys(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "jwks.json")); err == nil {
		return nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	if err := os.WriteFile(filepath.Join(dir, "private.pem"), key, 0o600); err != nil {
		return err
	}
	set, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": keyID,
		"x": base64.RawURLEncoding.EncodeToString(public),
	}}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "jwks.json"), set, 0o644)
}

type tokenFlags struct {
	issuer, audience, tenant, user string
	groups                         []string
	ttl                            time.Duration
}

func tokenCommand() *cobra.Command {
	var flags tokenFlags
	cmd := &cobra.Command{
		Use:   "token DIR",
		Short: "Print a signed token",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := sign(args[0], flags)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&flags.issuer, "issuer", "https://sso.example.com", "iss")
	cmd.Flags().StringVar(&flags.audience, "audience", "search", "aud")
	cmd.Flags().StringVar(&flags.tenant, "tenant", "", "tenant; empty for none")
	cmd.Flags().StringVar(&flags.user, "user", "", "sub")
	cmd.Flags().StringArrayVar(&flags.groups, "group", nil, "one of groups; may be repeated")
	cmd.Flags().DurationVar(&flags.ttl, "ttl", time.Hour, "time until exp; negative for an expired token")
	return cmd
}

func sign(dir string, flags tokenFlags) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "private.pem"))
	if err != nil {
		return "", fmt.Errorf("run `idp keys %s` first: %w", dir, err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return "", errors.New("private.pem is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", err
	}
	now := time.Now()
	claims := jwt.MapClaims{
		"iss": flags.issuer, "aud": flags.audience, "sub": flags.user, "groups": append([]string{}, flags.groups...),
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(flags.ttl).Unix(),
	}
	if flags.tenant != "" {
		claims["tenant"] = flags.tenant
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = keyID
	return token.SignedString(key)
}
