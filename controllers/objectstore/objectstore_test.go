package objectstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.dev/quarry/api/v1alpha1"
)

func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "rag", Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func TestReferences(t *testing.T) {
	keys := map[string]string{AccessKeyID: "id", SecretAccessKey: "very-secret"}
	store := Store{Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		secret("good", keys), secret("half", map[string]string{AccessKeyID: "id"}), secret("ca", map[string]string{"ca.crt": "no certificate"}),
	).Build()}
	for name, test := range map[string]struct {
		credentials string
		ca          *v1alpha1.KeyRef
		endpoint    string
		missing     bool
		want        string
	}{
		"all is there":       {"good", nil, "http://s3.test:7070", false, ""},
		"no such Secret":     {"absent", nil, "http://s3.test:7070", true, `spec.source.s3.credentialsRef: Secret "absent" does not exist`},
		"a key is missing":   {"half", nil, "http://s3.test:7070", false, `Secret "half" has no value for key "secretAccessKey"`},
		"no such CA":         {"good", &v1alpha1.KeyRef{Name: "absent", Key: "ca.crt"}, "http://s3.test:7070", true, "spec.source.s3.caBundleRef"},
		"no such CA key":     {"good", &v1alpha1.KeyRef{Name: "ca", Key: "x"}, "http://s3.test:7070", false, `has no value for key "x"`},
		"a CA that is none":  {"good", &v1alpha1.KeyRef{Name: "ca", Key: "ca.crt"}, "https://s3.test", false, "spec.source.s3"},
		"a broken end point": {"good", nil, "nonsense", false, "spec.source.s3"},
	} {
		t.Run(name, func(t *testing.T) {
			corpus := &v1alpha1.Corpus{ObjectMeta: metav1.ObjectMeta{Namespace: "rag", Name: "acme"}}
			corpus.Spec.Source.S3 = &v1alpha1.S3Source{
				S3Location:     v1alpha1.S3Location{Endpoint: test.endpoint, Region: "us-east-1", Bucket: "documents", Addressing: v1alpha1.AddressingPath},
				CredentialsRef: v1alpha1.SecretRef{Name: test.credentials}, CABundleRef: test.ca,
			}
			_, err := store.Source(context.Background(), corpus)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || IsMissing(err) != test.missing {
				t.Fatalf("error %v, missing %v", err, IsMissing(err))
			}
			if strings.Contains(err.Error(), "very-secret") {
				t.Fatal("the error holds a credential")
			}
		})
	}
}

// TestEachFieldByItsName: the artifacts have two references, so the message must name the one that is meant.
func TestEachFieldByItsName(t *testing.T) {
	corpus := &v1alpha1.Corpus{}
	corpus.Spec.Artifacts.S3.WriteCredentialsRef.Name = "absent"
	_, err := New(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()).Artifacts(context.Background(), corpus)
	if err == nil || !strings.HasPrefix(err.Error(), `spec.artifacts.s3.writeCredentialsRef: Secret "absent" does not exist`) {
		t.Fatal(err)
	}
}

func TestASourceIsNeeded(t *testing.T) {
	_, err := Store{}.Source(context.Background(), &v1alpha1.Corpus{})
	if err == nil || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
