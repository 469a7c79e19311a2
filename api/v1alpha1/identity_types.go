package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IdentityType is the discriminator of IdentitySpec.
// +kubebuilder:validation:Enum=JWT
type IdentityType string

// IdentityJWT verifies JSON Web Tokens.
const IdentityJWT IdentityType = "JWT"

// JWKSRef is a union: the keys stand in a Secret or in a ConfigMap.
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.configMap)",message="jwksRef must set exactly one of secret and configMap: remove one of them"
type JWKSRef struct {
	// secret and its key that hold the JSON Web Key Set.
	// +optional
	Secret *KeyRef `json:"secret,omitempty"`

	// configMap and its key that hold the JSON Web Key Set.
	// +optional
	ConfigMap *KeyRef `json:"configMap,omitempty"`
}

// JWTSpec says which tokens are accepted and what their claims mean.
// +kubebuilder:validation:XValidation:rule="has(self.jwksRef) != (has(self.jwksURL) && self.jwksURL.size() > 0)",message="jwt must set exactly one of jwksRef and jwksURL: remove one of them"
type JWTSpec struct {
	// issuer that the token's iss claim must equal.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Issuer string `json:"issuer"`

	// audiences: the token's aud claim must hold one of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	// +required
	Audiences []string `json:"audiences"`

	// jwksRef names the issuer's keys in the cluster.
	// +optional
	JWKSRef *JWKSRef `json:"jwksRef,omitempty"`

	// jwksURL is where the issuer publishes its keys.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^https?://[^/?#@ ]+(/[^# ]*)?$')",message="jwksURL must be an http:// or https:// URL, for instance https://issuer.example.org/jwks.json"
	// +optional
	JWKSURL string `json:"jwksURL,omitempty"`

	// userClaim names the claim of the user's name. Defaults to sub.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:default=sub
	// +optional
	UserClaim string `json:"userClaim,omitempty"`

	// groupsClaim names the claim of the user's groups. Defaults to groups.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:default=groups
	// +optional
	GroupsClaim string `json:"groupsClaim,omitempty"`

	// tenantClaim names the claim of the tenant; required with more than one
	// tenant. A token of another tenant, or of none, is refused.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	TenantClaim string `json:"tenantClaim,omitempty"`
}

// IdentitySpec is a union: how a caller's identity is proven.
// +kubebuilder:validation:XValidation:rule="(self.type == 'JWT') == has(self.jwt)",message="jwt must be set when type is JWT, and only then"
type IdentitySpec struct {
	// type is JWT.
	// +required
	Type IdentityType `json:"type"`

	// jwt for type JWT.
	// +optional
	JWT *JWTSpec `json:"jwt,omitempty"`
}

// PipelineAccessSpec says who may ask, and how old access data may be.
type PipelineAccessSpec struct {
	// identity of callers.
	// +required
	Identity IdentitySpec `json:"identity"`

	// maxStaleness: with older access data, search answers 503 AccessStale.
	// From 10s to 24h. Defaults to 15m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="maxStaleness must be a duration from 10s to 24h, for instance 15m"
	// +kubebuilder:default="15m"
	// +optional
	MaxStaleness metav1.Duration `json:"maxStaleness,omitzero"`
}
