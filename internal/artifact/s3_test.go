package artifact

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"quarry.dev/quarry/internal/artifact/s3test"
)

func config(endpoint string) S3Config {
	return S3Config{Endpoint: endpoint, Bucket: "docs", Prefix: "acme", AccessKeyID: "key-id", SecretAccessKey: "secret-key-text", SessionToken: "token-text"}
}

func TestOpenS3Refuses(t *testing.T) {
	for name, change := range map[string]func(*S3Config){
		"endpoint:":    func(c *S3Config) { c.Endpoint = "s3.example:9000" },
		"endpoint: ":   func(c *S3Config) { c.Endpoint = "http://h/path" },
		"bucket:":      func(c *S3Config) { c.Bucket = "" },
		"credentials:": func(c *S3Config) { c.SecretAccessKey = "" },
		"addressing:":  func(c *S3Config) { c.Addressing = "Both" },
		"caBundle:":    func(c *S3Config) { c.CABundle = []byte("x") },
	} {
		c := config("http://s3.example:9000")
		change(&c)
		if _, err := OpenS3(c); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server's answers become reasons; the message says where and what to do, and never a secret.
func TestS3Errors(t *testing.T) {
	for _, c := range []struct {
		status       int
		code, reason string
		is           error
	}{
		{404, "NoSuchBucket", ReasonBucketNotFound, nil},
		{404, "NoSuchKey", ReasonNotFound, ErrNotFound},
		{403, "AccessDenied", ReasonAccessDenied, nil},
		{403, "InvalidAccessKeyId", ReasonAccessDenied, nil},
		{403, "SignatureDoesNotMatch", ReasonAccessDenied, nil},
		{400, "ExpiredToken", ReasonExpiredToken, nil},
		{412, "PreconditionFailed", ReasonPrecondition, ErrPrecondition},
		{409, "ConditionalRequestConflict", ReasonPrecondition, ErrPrecondition},
		{400, "Strange", ReasonS3Error, nil},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>told by the server</Message></Error>", c.code)
		}))
		b, err := OpenS3(config(server.URL))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = b.Get(ctx, "a.md")
		server.Close()
		if ReasonOf(err) != c.reason || (c.is != nil && !errors.Is(err, c.is)) || (c.is == nil && errors.Is(err, ErrNotFound)) {
			t.Errorf("%s: reason %s, %v", c.code, ReasonOf(err), err)
		}
		text := fmt.Sprint(err, config(server.URL))
		if !strings.Contains(text, server.URL) || !strings.Contains(text, `"docs"`) || strings.Contains(text, "secret-key") || strings.Contains(text, "token-text") {
			t.Errorf("%s: %s", c.code, text)
		}
	}
}

func TestS3Unreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + l.Addr().String()
	l.Close()
	b, err := OpenS3(config(at))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.List(ctx, "", func(Info) error { return nil }); ReasonOf(err) != ReasonUnreachable || !strings.Contains(err.Error(), at) {
		t.Errorf("got %v", err)
	}
}

// Page 2 of 3 fails: the listing must say so, not end.
func TestS3ListingErrorOnALaterPage(t *testing.T) {
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages++; pages > 1 {
			w.WriteHeader(403)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
			return
		}
		fmt.Fprint(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>
			<Contents><Key>acme/a.md</Key><Size>1</Size><ETag>"x"</ETag><LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>`)
	}))
	defer server.Close()
	b, err := OpenS3(config(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if err := b.List(ctx, "", func(Info) error { seen++; return nil }); ReasonOf(err) != ReasonAccessDenied || seen != 1 {
		t.Errorf("%d seen, %v", seen, err)
	}
}

func TestS3(t *testing.T) {
	server := s3test.Start(t, "docs")
	c := S3Config{Endpoint: server.Endpoint, Bucket: "docs", AccessKeyID: server.AccessKeyID, SecretAccessKey: server.SecretAccessKey}
	open := func(prefix string, change func(*S3Config)) Bucket {
		c := c
		c.Prefix = prefix
		if change != nil {
			change(&c)
		}
		b, err := OpenS3(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	conform(t, open("acme", nil))
	conform(t, open("", nil))
	roundTrip(t, open("keys/", nil), hardKeys(t))
	if err := ClaimPrefix(ctx, open("owned", nil), Owner{ClusterUID: "1", Namespace: "n", Name: "d"}); err != nil {
		t.Errorf("claim: %v", err)
	}
	many := open("many", nil)
	for i := range 1001 {
		if _, err := many.Put(ctx, fmt.Sprintf("%04d", i), nil, Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	if err := many.List(ctx, "", func(Info) error { n++; return nil }); err != nil || n != 1001 {
		t.Errorf("%d of 1001 keys, %v", n, err)
	}
	for reason, change := range map[string]func(*S3Config){
		ReasonBucketNotFound: func(c *S3Config) { c.Bucket = "absent-bucket" },
		ReasonAccessDenied:   func(c *S3Config) { c.SecretAccessKey = "wrong" },
	} {
		if err := open("", change).List(ctx, "", func(Info) error { return nil }); ReasonOf(err) != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// Metadata that a person puts on an object is read under its lower-case name.
func TestS3Metadata(t *testing.T) {
	server := s3test.Start(t, "docs")
	b, err := OpenS3(S3Config{Endpoint: server.Endpoint, Bucket: "docs", AccessKeyID: server.AccessKeyID, SecretAccessKey: server.SecretAccessKey})
	if err != nil {
		t.Fatal(err)
	}
	core := b.(*s3).core
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{"quarry-allow": `{"allow":[]}`}}
	if _, err := core.Client.PutObject(ctx, "docs", "a.md", strings.NewReader("x"), 1, opts); err != nil {
		t.Fatal(err)
	}
	if info, err := b.Head(ctx, "a.md"); err != nil || info.Metadata["quarry-allow"] != `{"allow":[]}` {
		t.Fatalf("%+v %v", info, err)
	}
}
