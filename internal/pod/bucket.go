package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
)

// OpenBucket opens a location with the keys in <etc>/<name>/{accessKeyID,secretAccessKey,sessionToken} and the
// certificates in <etc>/<name>-ca/ca.crt.
func OpenBucket(etc, name string, l v1alpha1.S3Location) (artifact.Bucket, error) {
	c := artifact.S3Config{Endpoint: l.Endpoint, Region: l.Region, Bucket: l.Bucket, Prefix: l.Prefix, Addressing: string(l.Addressing)}
	var bundle string
	for path, into := range map[string]*string{
		name + "/accessKeyID": &c.AccessKeyID, name + "/secretAccessKey": &c.SecretAccessKey,
		name + "/sessionToken": &c.SessionToken, name + "-ca/ca.crt": &bundle,
	} {
		data, err := os.ReadFile(filepath.Join(etc, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // OpenS3 says what is missing
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*into = strings.TrimSpace(string(data))
	}
	c.CABundle = []byte(bundle)
	b, err := artifact.OpenS3(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}
