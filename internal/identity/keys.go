package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

// Keys gives the function that finds the key of a token.
type Keys interface {
	// Keyfunc fails where no keys are known; then no token can be judged.
	Keyfunc() (jwt.Keyfunc, error)
}

const (
	// recheck is how long a file's keys are used before the file is looked at again.
	recheck     = time.Second
	maxJWKS     = 1 << 20
	urlInterval = 5 * time.Minute
	urlTimeout  = 10 * time.Second
)

// signatures are the JWK uses that may verify a token; a key for encryption may not.
var signatures = []jwkset.USE{"", jwkset.UseSig}

// FileKeys reads a JWK Set from a file, and again when its content changes.
type FileKeys struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	checked time.Time
	digest  [sha256.Size]byte
	found   jwt.Keyfunc
	err     error
}

// KeysFromFile reads the keys as they are asked for. A file that cannot be read refuses every token: that a key was
// removed from it must never go unseen.
func KeysFromFile(path string) *FileKeys { return &FileKeys{path: path, now: time.Now} }

// Keyfunc implements Keys.
func (k *FileKeys) Keyfunc() (jwt.Keyfunc, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); k.checked.IsZero() || now.Sub(k.checked) >= recheck || now.Before(k.checked) {
		k.checked = now
		k.reload()
	}
	return k.found, k.err
}

func (k *FileKeys) reload() {
	data, err := os.ReadFile(k.path)
	if err != nil {
		k.found, k.err, k.digest = nil, fmt.Errorf("read the JWK Set: %w", err), [sha256.Size]byte{}
		return
	}
	digest := sha256.Sum256(data)
	if digest == k.digest {
		return
	}
	k.found, k.err = parseJWKS(data)
	k.digest = digest
}

// parseJWKS takes every signature key of a supported kind and passes over others.
func parseJWKS(data []byte) (jwt.Keyfunc, error) {
	if len(data) > maxJWKS {
		return nil, fmt.Errorf("the JWK Set has %d bytes, more than %d", len(data), maxJWKS)
	}
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("the JWK Set is not {\"keys\":[..]}: %w", err)
	}
	storage, usable := jwkset.NewMemoryStorage(), 0
	for i, marshalled := range set.Keys {
		// Private: a file with private halves must not be refused, only their public halves are used.
		key, err := jwkset.NewJWKFromMarshal(marshalled, jwkset.JWKMarshalOptions{Private: true}, jwkset.JWKValidateOptions{})
		if errors.Is(err, jwkset.ErrUnsupportedKey) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("key %d of the JWK Set: %w", i, err)
		}
		if err := storage.KeyWrite(context.Background(), key); err != nil {
			return nil, err
		}
		usable++
	}
	if usable == 0 {
		return nil, errors.New("the JWK Set has no usable key: list RSA, EC or Ed25519 public keys")
	}
	keys, err := keyfunc.New(keyfunc.Options{Storage: storage, UseWhitelist: signatures})
	if err != nil {
		return nil, err
	}
	return keys.Keyfunc, nil
}

type urlKeys struct{ keys keyfunc.Keyfunc }

// KeysFromURL fetches a JWK Set every five minutes until ctx ends, and at most twice a minute more for keys not seen
// before. While the URL does not answer, the keys known last hold; before the first answer no token is accepted.
func KeysFromURL(ctx context.Context, url string, log *slog.Logger) (Keys, error) {
	storage, err := jwkset.NewStorageFromHTTP(url, jwkset.HTTPClientStorageOptions{
		Ctx: ctx, Client: &http.Client{Timeout: urlTimeout}, HTTPTimeout: urlTimeout,
		NoErrorReturnFirstHTTPReq: true, RefreshInterval: urlInterval,
		RefreshErrorHandler: func(_ context.Context, err error) { log.Error("fetch the JWK Set", "error", err) },
	})
	if err != nil {
		return nil, fmt.Errorf("identity.jwt.jwksURL: %w", err)
	}
	client, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs: map[string]jwkset.Storage{url: storage},
		// A token with an unknown key must not wait, or strangers could hold every request.
		RateLimitWaitMax: 10 * time.Millisecond, RefreshUnknownKID: rate.NewLimiter(rate.Every(30*time.Second), 1),
	})
	if err != nil {
		return nil, fmt.Errorf("identity.jwt.jwksURL: %w", err)
	}
	keys, err := keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: client, UseWhitelist: signatures})
	if err != nil {
		return nil, err
	}
	return urlKeys{keys}, nil
}

// Keyfunc implements Keys.
func (k urlKeys) Keyfunc() (jwt.Keyfunc, error) { return k.keys.Keyfunc, nil }
