package artifact

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// Reasons of an *S3Error, from a closed list: they become condition reasons.
const (
	ReasonBucketNotFound = "BucketNotFound"
	ReasonAccessDenied   = "AccessDenied"
	ReasonExpiredToken   = "ExpiredToken"
	ReasonUnreachable    = "Unreachable"
	ReasonNotFound       = "NotFound"
	ReasonPrecondition   = "PreconditionFailed"
	ReasonS3Error        = "S3Error"
)

// S3Error says what object storage refused, where, and what to do. It never holds a credential.
type S3Error struct {
	Reason                    string
	Op, Endpoint, Bucket, Key string
	Message                   string
	cause                     error
}

func (e *S3Error) Error() string {
	return fmt.Sprintf("%s %q in bucket %q at %s: %s", e.Op, e.Key, e.Bucket, e.Endpoint, e.Message)
}

// Unwrap gives ErrNotFound, ErrPrecondition or the error of the context, so that errors.Is works alike for every Bucket.
func (e *S3Error) Unwrap() error { return e.cause }

// ReasonOf returns the reason of an *S3Error in err's chain, or "".
func ReasonOf(err error) string {
	var e *S3Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func (s *s3) wrap(ctx context.Context, op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &S3Error{Op: op, Endpoint: s.endpoint, Bucket: s.bucket, Key: s.prefix + key}
	if ctx.Err() != nil {
		e.Reason, e.cause, e.Message = ReasonUnreachable, context.Cause(ctx), "it was cancelled: "+context.Cause(ctx).Error()
		return e
	}
	var resp minio.ErrorResponse
	if !errors.As(err, &resp) {
		e.Reason, e.Message = ReasonUnreachable, unreachable(err)
		return e
	}
	e.Reason, e.Message, e.cause = classify(resp)
	return e
}

func unreachable(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &host) {
		return fmt.Sprintf("the server's certificate is not trusted (%v): set caBundleRef to the CA that signed it", err)
	}
	return fmt.Sprintf("the server cannot be reached (%v): check the endpoint, DNS and network policies", err)
}

func classify(r minio.ErrorResponse) (reason, message string, cause error) {
	switch r.Code {
	case "NoSuchBucket":
		return ReasonBucketNotFound, "the bucket does not exist: create it, or correct the bucket's name or region", nil
	case "NoSuchKey", "NoSuchVersion":
		return ReasonNotFound, "the object does not exist", ErrNotFound
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired":
		return ReasonExpiredToken, "the session token has expired: put fresh credentials in the Secret", nil
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId":
		return ReasonAccessDenied, "the server does not accept the key pair (" + r.Code + "): check accessKeyID, secretAccessKey and sessionToken in the Secret", nil
	case "PreconditionFailed", "ConditionalRequestConflict":
		return ReasonPrecondition, "the object is not in the expected state", ErrPrecondition
	case "SlowDown", "ServiceUnavailable", "InternalError":
		return ReasonUnreachable, "the server cannot answer now (" + r.Code + "): it is tried again", nil
	}
	switch {
	case r.StatusCode == http.StatusPreconditionFailed, r.StatusCode == http.StatusConflict:
		return ReasonPrecondition, "the object is not in the expected state", ErrPrecondition
	case r.StatusCode == http.StatusNotFound:
		return ReasonNotFound, "the object does not exist", ErrNotFound
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized, r.Code == "AccessDenied":
		return ReasonAccessDenied, "access is denied: let this key pair list, read and write below the prefix", nil
	case r.StatusCode >= http.StatusInternalServerError:
		return ReasonUnreachable, fmt.Sprintf("the server answered %d %s: it is tried again", r.StatusCode, r.Code), nil
	}
	return ReasonS3Error, fmt.Sprintf("the server answered %d %s: %s", r.StatusCode, r.Code, r.Message), nil
}
