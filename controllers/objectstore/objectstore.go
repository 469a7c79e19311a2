// Package objectstore opens the buckets that a Corpus names: it reads the Secrets and CA bundles beside it, by
// uncached gets of exactly those names, so that the operator never lists or watches a Secret.
package objectstore

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
)

// Keys of a credentials Secret. SessionToken is optional.
const (
	AccessKeyID     = "accessKeyID"
	SecretAccessKey = "secretAccessKey"
	SessionToken    = "sessionToken"
)

// Buckets opens the two buckets of a Corpus. Keys in them are relative to the prefix that the Corpus names.
// Opening sends nothing to the object storage, and reads the Secrets anew: a changed key counts from the next call on.
type Buckets interface {
	// Source is where the documents lie. Quarry only reads it.
	Source(ctx context.Context, corpus *v1alpha1.Corpus) (artifact.Bucket, error)
	// Artifacts is where snapshots, caches, indexes and reports lie, opened with the write credentials.
	Artifacts(ctx context.Context, corpus *v1alpha1.Corpus) (artifact.Bucket, error)
}

// RefError says which reference of a Corpus cannot be used, and why. It is the user's to fix.
type RefError struct {
	// Field is the path of the reference in the spec.
	Field string
	// Kind, Name and Key of the object that it names; Key may be empty.
	Kind, Name, Key string
	// Missing tells that the object does not exist, which is also true while a namespace is being deleted.
	Missing bool
}

// Error names field, object and remedy.
func (e *RefError) Error() string {
	if e.Missing {
		return fmt.Sprintf("%s: %s %q does not exist in this namespace: create it", e.Field, e.Kind, e.Name)
	}
	return fmt.Sprintf("%s: %s %q has no value for key %q: add it", e.Field, e.Kind, e.Name, e.Key)
}

// IsMissing tells whether the error is a reference to an object that does not exist.
func IsMissing(err error) bool {
	ref, ok := errors.AsType[*RefError](err)
	return ok && ref.Missing
}

// Store opens S3 buckets.
type Store struct {
	// Reader must not be backed by a cache.
	Reader client.Reader
}

var _ Buckets = Store{}

// New opens S3 buckets with the Secrets that reader finds. It must not be backed by a cache.
func New(reader client.Reader) Store { return Store{Reader: reader} }

// Source opens spec.source.s3.
func (s Store) Source(ctx context.Context, corpus *v1alpha1.Corpus) (artifact.Bucket, error) {
	spec := corpus.Spec.Source.S3
	if spec == nil {
		return nil, errors.New("spec.source.s3 is empty: name a bucket")
	}
	return s.open(ctx, corpus.Namespace, place{"spec.source.s3", "credentialsRef"}, spec.S3Location, spec.CredentialsRef, spec.CABundleRef)
}

// Artifacts opens spec.artifacts.s3.
func (s Store) Artifacts(ctx context.Context, corpus *v1alpha1.Corpus) (artifact.Bucket, error) {
	spec := corpus.Spec.Artifacts.S3
	return s.open(ctx, corpus.Namespace, place{"spec.artifacts.s3", "writeCredentialsRef"}, spec.S3Location, spec.WriteCredentialsRef, spec.CABundleRef)
}

// Require says what is missing where a Secret, or the value of its key, does not exist: a *RefError. The value itself is for the
// pods that mount it. The reader must not be backed by a cache.
func Require(ctx context.Context, reader client.Reader, namespace, field string, ref v1alpha1.KeyRef) error {
	_, err := Store{reader}.value(ctx, namespace, field, ref)
	return err
}

// place is where the spec names a bucket, and the field there that names its Secret.
type place struct{ field, credentials string }

func (s Store) open(ctx context.Context, namespace string, in place, at v1alpha1.S3Location, keys v1alpha1.SecretRef, ca *v1alpha1.KeyRef) (artifact.Bucket, error) {
	config := artifact.S3Config{
		Endpoint: at.Endpoint, Region: at.Region, Bucket: at.Bucket, Prefix: at.Prefix, Addressing: string(at.Addressing),
	}
	credentials := in.field + "." + in.credentials
	data, err := s.secret(ctx, namespace, credentials, keys.Name)
	if err != nil {
		return nil, err
	}
	config.AccessKeyID = string(data[AccessKeyID])
	config.SecretAccessKey = string(data[SecretAccessKey])
	config.SessionToken = string(data[SessionToken])
	for _, key := range []string{AccessKeyID, SecretAccessKey} {
		if len(data[key]) == 0 {
			return nil, &RefError{Field: credentials, Kind: "Secret", Name: keys.Name, Key: key}
		}
	}
	if ca != nil {
		if config.CABundle, err = s.value(ctx, namespace, in.field+".caBundleRef", *ca); err != nil {
			return nil, err
		}
	}
	bucket, err := artifact.OpenS3(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.field, err)
	}
	return bucket, nil
}

func (s Store) secret(ctx context.Context, namespace, field, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, &RefError{Field: field, Kind: "Secret", Name: name, Missing: true}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read Secret %q: %w", field, name, err)
	}
	return secret.Data, nil
}

// value reads the key of a Secret, which is what pods mount as well.
func (s Store) value(ctx context.Context, namespace, field string, ref v1alpha1.KeyRef) ([]byte, error) {
	data, err := s.secret(ctx, namespace, field, ref.Name)
	if err != nil {
		return nil, err
	}
	if len(data[ref.Key]) == 0 {
		return nil, &RefError{Field: field, Kind: "Secret", Name: ref.Name, Key: ref.Key}
	}
	return data[ref.Key], nil
}
