package artifact

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Addressing of a bucket: in the path of the URL, or as a part of its host name.
const (
	AddressingPath        = "Path"
	AddressingVirtualHost = "VirtualHost"
)

// S3Config says where a bucket is and how to enter it.
type S3Config struct {
	// Endpoint is a URL of scheme http or https without a path.
	Endpoint string
	// Region is us-east-1 where empty.
	Region string
	Bucket string
	// Prefix is a folder: a slash is added at its end where it has none, so that acme never reads acme-secret/.
	Prefix string
	// Addressing is Path (also where empty) or VirtualHost.
	Addressing string

	AccessKeyID, SecretAccessKey, SessionToken string
	// CABundle holds PEM certificates to trust instead of the system's; empty: the system's.
	CABundle []byte
}

// String leaves the credentials out.
func (c S3Config) String() string {
	return fmt.Sprintf("%s/%s/%s", strings.TrimSuffix(c.Endpoint, "/"), c.Bucket, c.Prefix)
}

const (
	dialTimeout     = 5 * time.Second
	responseTimeout = 30 * time.Second
	attempts        = 3
)

// OpenS3 returns a Bucket over an S3 API. It contacts nobody: a wrong bucket or key shows at the first operation, as *S3Error.
func OpenS3(c S3Config) (Bucket, error) {
	u, err := parseEndpoint(c.Endpoint)
	if err != nil {
		return nil, err
	}
	if c.Bucket == "" {
		return nil, errors.New("bucket: is empty: name the bucket")
	}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return nil, errors.New("credentials: accessKeyID or secretAccessKey is empty: put both keys in the Secret")
	}
	transport, err := newTransport(c.CABundle)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupPath
	switch c.Addressing {
	case "", AddressingPath:
	case AddressingVirtualHost:
		lookup = minio.BucketLookupDNS
	default:
		return nil, fmt.Errorf("addressing: is %q: use Path or VirtualHost", c.Addressing)
	}
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds:        credentials.NewStaticV4(c.AccessKeyID, c.SecretAccessKey, c.SessionToken),
		Secure:       u.Scheme == "https",
		Transport:    transport,
		Region:       c.Region,
		BucketLookup: lookup,
		MaxRetries:   attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", c.Endpoint, err)
	}
	return &s3{core: core, endpoint: c.Endpoint, bucket: c.Bucket, prefix: c.Prefix}, nil
}

func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("endpoint: %q is no URL of an S3 server: write http(s)://host:port without a path", endpoint)
	}
	return u, nil
}

func newTransport(bundle []byte) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: responseTimeout,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true,
	}
	if len(bundle) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(bundle) {
			return nil, errors.New("caBundle: holds no PEM certificate: give the CA's certificate as -----BEGIN CERTIFICATE-----")
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t, nil
}

type s3 struct {
	core                     *minio.Core
	endpoint, bucket, prefix string
}

func (s *s3) Get(ctx context.Context, key string) ([]byte, Info, error) {
	return ReadAll(ctx, s, key, Read{})
}

func (s *s3) Open(ctx context.Context, key string, r Read) (io.ReadCloser, Info, error) {
	var opts minio.GetObjectOptions
	if r.IfMatch != "" {
		if err := opts.SetMatchETag(r.IfMatch); err != nil {
			return nil, Info{}, err
		}
	}
	if r.Offset < 0 || r.Length < 0 {
		return nil, Info{}, fmt.Errorf("range %d+%d of %q is negative", r.Offset, r.Length, key)
	}
	if r.Offset > 0 || r.Length > 0 {
		end := int64(0) // to the end
		if r.Length > 0 {
			end = r.Offset + r.Length - 1
		}
		if err := setRange(&opts, r.Offset, end, r.Length > 0); err != nil {
			return nil, Info{}, err
		}
	}
	body, o, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+key, opts)
	if err != nil {
		return nil, Info{}, s.wrap(ctx, "read", key, err)
	}
	info := s.info(o)
	info.Key = key
	return body, info, nil
}

// setRange works around SetRange(0, 0), which means the whole object to the client.
func setRange(opts *minio.GetObjectOptions, start, end int64, bounded bool) error {
	if bounded && start == 0 && end == 0 {
		opts.Set("Range", "bytes=0-0")
		return nil
	}
	return opts.SetRange(start, end)
}

func (s *s3) Head(ctx context.Context, key string) (Info, error) {
	o, err := s.core.StatObject(ctx, s.bucket, s.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, s.wrap(ctx, "head", key, err)
	}
	info := s.info(o)
	info.Key = key
	return info, nil
}

func (s *s3) Put(ctx context.Context, key string, body []byte, c Condition) (string, error) {
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	if c.IfMatch != "" {
		opts.SetMatchETag(c.IfMatch)
	}
	if c.IfNoneMatch {
		opts.SetMatchETagExcept("*")
	}
	up, err := s.core.Client.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(body), int64(len(body)), opts)
	if err != nil {
		err = s.wrap(ctx, "write", key, err)
		if c.IfMatch != "" && errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("write %q: it does not exist any more: %w", key, ErrPrecondition)
		}
		return "", err
	}
	return strings.Trim(up.ETag, `"`), nil
}

func (s *s3) List(ctx context.Context, prefix string, yield func(Info) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the client's page reader when yield stops early
	last := ""
	for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return s.wrap(ctx, "list", prefix, o.Err)
		}
		info := s.info(o)
		key, ok := strings.CutPrefix(o.Key, s.prefix)
		if !ok {
			return fmt.Errorf("list %s: the server returned %q, which is outside of prefix %q", s.endpoint, o.Key, s.prefix)
		}
		if last != "" && key <= last {
			return fmt.Errorf("list %s: the server returned %q after %q, which is out of order", s.endpoint, key, last)
		}
		last = key
		if key == "" {
			last = ""
			continue // the marker of the prefix itself
		}
		info.Key = key
		if err := yield(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *s3) Delete(ctx context.Context, key string) error {
	err := s.wrap(ctx, "delete", key, s.core.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func (s *s3) info(o minio.ObjectInfo) Info {
	info := Info{ETag: strings.Trim(o.ETag, `"`), Size: o.Size, Modified: o.LastModified.UTC(), VersionID: o.VersionID}
	if len(o.UserMetadata) > 0 {
		info.Metadata = map[string]string{}
		for k, v := range o.UserMetadata {
			info.Metadata[strings.TrimPrefix(strings.ToLower(k), "x-amz-meta-")] = v
		}
	}
	return info
}
