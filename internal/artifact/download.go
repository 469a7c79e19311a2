package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Download streams an object into the file at path and verifies its digest on the way. The file appears whole or not at
// all; one that is there already with that digest is kept.
func Download(ctx context.Context, b Bucket, key, path, digest string) error {
	if got, err := fileDigest(path); err == nil && got == digest {
		return nil
	}
	body, _, err := b.Open(ctx, key, Read{})
	if err != nil {
		return err
	}
	defer body.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), body)
	err = errors.Join(err, f.Close())
	if got := digestPrefix + hex.EncodeToString(h.Sum(nil)); err == nil && got != digest {
		err = fmt.Errorf("%q: is %s, expected %s: %w; delete the damaged object and build again", key, got, digest, ErrDigest)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return digestPrefix + hex.EncodeToString(h.Sum(nil)), nil
}
