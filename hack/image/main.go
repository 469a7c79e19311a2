// Command image writes a container image as a tarball, without a container builder: one static program on an empty base,
// with CA certificates and a user that is not root. The same program and tag give the same bytes.
//
//	go run . -binary ../../bin/quarry -tag quarry:dev -out ../../bin/quarry.tar
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is the numeric user and group of every image, the customary "nonroot".
const user = "65532:65532"

// caBundles are the places where Linux distributions keep the CA certificates, in order of preference.
var caBundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

func main() {
	binary := flag.String("binary", "", "the static program that becomes the entrypoint, /<its name>")
	tag := flag.String("tag", "", "the image's name and tag, for example quarry:dev")
	out := flag.String("out", "", "the tarball to write")
	flag.Parse()
	if err := run(*binary, *tag, *out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(binary, tag, out string) error {
	if binary == "" || tag == "" || out == "" {
		return errors.New("give -binary, -tag and -out")
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("-tag %q is not an image name: %w", tag, err)
	}
	layer, err := rootFS(binary)
	if err != nil {
		return err
	}
	img, err := build(layer, "/"+filepath.Base(binary))
	if err != nil {
		return err
	}
	// A reader never sees a half-written tarball under the final name.
	part := out + ".part"
	if err := tarball.WriteToFile(part, ref, img); err != nil {
		return fmt.Errorf("write %s: %w", part, err)
	}
	return os.Rename(part, out)
}

// build makes the image of one layer with its configuration.
func build(layer []byte, entrypoint string) (v1.Image, error) {
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile() // it names the layers already; what to run and as whom is missing
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", runtime.GOARCH
	cfg.Config = v1.Config{
		Entrypoint: []string{entrypoint},
		User:       user,
		WorkingDir: "/",
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}
	return mutate.ConfigFile(img, cfg)
}

// rootFS is the tar of the image's only layer. All times are zero, so that equal content gives equal bytes.
func rootFS(binary string) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	certificates, err := readFirst(caBundles)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []struct {
		name string
		mode int64
	}{{"etc", 0o755}, {"etc/ssl", 0o755}, {"etc/ssl/certs", 0o755}, {"tmp", 0o1777}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir.name + "/", Mode: dir.mode, ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
	}
	for _, file := range []struct {
		name string
		mode int64
		data []byte
	}{
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates},
		{filepath.Base(binary), 0o755, program},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.data)), ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// readFirst reads the first of the files that exists.
func readFirst(paths []string) ([]byte, error) {
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return data, err
		}
	}
	return nil, fmt.Errorf("no CA certificates at %v: install the package ca-certificates", paths)
}
