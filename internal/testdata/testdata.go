// Package testdata finds the labelled sets and hard cases that lie beside a checkout.
// They are not part of the repository: a test that needs them is skipped where they are absent.
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Shared returns the path of name below the folder `shared` beside the checkout, and skips the test where it is absent.
func Shared(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			path := filepath.Join(filepath.Dir(dir), "shared", name)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
		dir = filepath.Dir(dir)
	}
	t.Skipf("shared/%s is not beside this checkout", name)
	return ""
}
