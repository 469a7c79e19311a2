package pipeline

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/internal/desired"
)

// privateKeyFile is the one item of a key Secret: an Ed25519 private key, PKCS #8 in PEM.
const privateKeyFile = "private.pem"

// publicKey returns the PKIX PEM of the key pair in the part's Secret, which is made once and never changed: a pod that
// runs already must go on trusting it. It is not marked immutable: a node remembers an immutable Secret by its name, so that
// pods of an Index which was deleted and made anew would get the old key there, and never the new one.
func (r *Reconciler) publicKey(ctx context.Context, index *v1alpha1.Index, part desired.Part) ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: index.Namespace, Name: desired.PartName(index.Name, part), Labels: desired.ComponentLabels(index, part),
		},
		Data: map[string][]byte{privateKeyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})},
	}
	if _, err := apply.Create(ctx, r.Client, secret, index); err != nil {
		return nil, err
	}
	return derivePublic(secret)
}

func derivePublic(secret *corev1.Secret) ([]byte, error) {
	unusable := func(why any) error {
		return fmt.Errorf("Secret %q, key %s, holds no usable key (%v): delete it, and a new one is made", secret.Name, privateKeyFile, why)
	}
	block, _ := pem.Decode(secret.Data[privateKeyFile])
	if block == nil {
		return nil, unusable("not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, unusable(err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, unusable("not Ed25519")
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, unusable(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), nil
}
