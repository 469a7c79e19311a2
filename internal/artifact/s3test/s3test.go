// Package s3test runs a real S3 server for tests, where its binary is at hand.
package s3test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Server is a running S3 server and the key of its root account.
type Server struct{ Endpoint, AccessKeyID, SecretAccessKey string }

// Start runs versitygw on a fresh folder with empty buckets of these names, until the test ends. The test
// is skipped where QUARRY_TEST_S3 does not name the binary and the checkout has no bin/versitygw.
func Start(t testing.TB, buckets ...string) Server {
	t.Helper()
	binary := find(t)
	addr := freeAddress(t)
	root := t.TempDir()
	for _, b := range buckets {
		if err := os.Mkdir(filepath.Join(root, b), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := Server{Endpoint: "http://" + addr, AccessKeyID: "test-key", SecretAccessKey: "test-secret"}
	cmd := exec.Command(binary, "--port", addr, "--access", c.AccessKeyID, "--secret", c.SecretAccessKey, "posix", root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 200 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return c
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("versitygw did not start")
	return c
}

func find(t testing.TB) string {
	if binary := os.Getenv("QUARRY_TEST_S3"); binary != "" {
		return binary
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		binary := filepath.Join(dir, "bin", "versitygw")
		if _, err := os.Stat(binary); err == nil {
			return binary
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	t.Skip("no versitygw: set QUARRY_TEST_S3 to its path, or build bin/versitygw")
	return ""
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
