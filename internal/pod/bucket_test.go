package pod_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/pod"
)

func TestOpenBucketReadsMountedKeys(t *testing.T) {
	etc := t.TempDir()
	location := v1alpha1.S3Location{Endpoint: "http://s3.example:7070", Bucket: "documents"}
	if _, err := pod.OpenBucket(etc, "source", location); err == nil || !strings.Contains(err.Error(), "source") || !strings.Contains(err.Error(), "accessKeyID") {
		t.Errorf("without keys: %v", err)
	}
	check(t, os.Mkdir(filepath.Join(etc, "source"), 0o755))
	check(t, os.WriteFile(etc+"/source/accessKeyID", []byte("id\n"), 0o600))
	check(t, os.WriteFile(etc+"/source/secretAccessKey", []byte("very-secret\n"), 0o600))
	if _, err := pod.OpenBucket(etc, "source", location); err != nil {
		t.Error(err)
	}
	check(t, os.Mkdir(filepath.Join(etc, "source-ca"), 0o755))
	check(t, os.WriteFile(etc+"/source-ca/ca.crt", []byte("no certificate"), 0o600))
	if _, err := pod.OpenBucket(etc, "source", location); err == nil || strings.Contains(err.Error(), "very-secret") {
		t.Errorf("with a broken certificate: %v", err)
	}
}
