package v1alpha1

// Decimal is a fraction written as a decimal string, such as "0.85". Floats do
// not survive every client unchanged, so the API has none.
type Decimal = string

// LocalRef names another object in the same namespace.
type LocalRef struct {
	// name of the object, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
}

// SecretRef names a Secret in the same namespace.
type SecretRef struct {
	// name of the Secret, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// KeyRef names one key of a Secret or a ConfigMap in the same namespace.
type KeyRef struct {
	// name of the Secret or ConfigMap, in the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key inside it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +required
	Key string `json:"key"`
}

// Addressing says where the bucket's name stands in a request.
// +kubebuilder:validation:Enum=Path;VirtualHost
type Addressing string

const (
	// AddressingPath puts the bucket into the path: http://host/bucket/key.
	AddressingPath Addressing = "Path"
	// AddressingVirtualHost puts the bucket into the host: http://bucket.host/key.
	AddressingVirtualHost Addressing = "VirtualHost"
)

// S3Location is a place in an S3-compatible object store: every object of one
// bucket whose key begins with a prefix.
type S3Location struct {
	// endpoint is the URL of the object store, without a path.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@ ]+$')",message="endpoint must be an http:// or https:// URL of host and port only, for instance https://s3.example.org; put the bucket and the prefix into their own fields and keys into the Secret of credentialsRef"
	// +required
	Endpoint string `json:"endpoint"`

	// region that requests are signed for. Defaults to us-east-1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:default="us-east-1"
	// +optional
	Region string `json:"region,omitempty"`

	// bucket is the bucket's name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$')",message="bucket must have 3 to 63 lower-case letters, digits, dots or hyphens and begin and end with a letter or digit"
	// +required
	Bucket string `json:"bucket"`

	// prefix of the keys; empty means the whole bucket. It is compared literally.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/')",message="prefix must not begin with '/': object keys have no leading slash; remove it"
	// +kubebuilder:validation:XValidation:rule="!('/' + self + '/').contains('/../') && !('/' + self + '/').contains('/./')",message="prefix must not have '.' or '..' between slashes: keys are compared literally, and servers refuse such paths; write the plain prefix"
	// +kubebuilder:default=""
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// addressing is Path or VirtualHost. Defaults to Path.
	// +kubebuilder:default=Path
	// +optional
	Addressing Addressing `json:"addressing,omitempty"`
}

// PrincipalType is the kind of a principal.
// +kubebuilder:validation:Enum=User;Group;Everyone
type PrincipalType string

const (
	// PrincipalUser is one user, named as in the token's user claim.
	PrincipalUser PrincipalType = "User"
	// PrincipalGroup is one group, named as in the token's groups claim.
	PrincipalGroup PrincipalType = "Group"
	// PrincipalEveryone is any verified principal of the tenant, never an
	// anonymous one.
	PrincipalEveryone PrincipalType = "Everyone"
)

// Principal is somebody who may read a document. Names are compared as exact
// bytes.
// +kubebuilder:validation:XValidation:rule="self.type == 'Everyone' || (has(self.name) && self.name.size() > 0)",message="name is required for type User and Group: write the user's or the group's name as the token carries it"
// +kubebuilder:validation:XValidation:rule="self.type != 'Everyone' || !has(self.name) || self.name.size() == 0",message="name must be absent for type Everyone: remove it, or use type User or Group"
type Principal struct {
	// type is User, Group or Everyone.
	// +required
	Type PrincipalType `json:"type"`

	// name of the user or the group; absent for Everyone.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Name string `json:"name,omitempty"`
}

// DocumentFailure is one document that could not be read, parsed or judged.
type DocumentFailure struct {
	// document is the object's key, relative to the source's prefix.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Document string `json:"document"`

	// reason is a CamelCase word, for instance Encrypted or Malformed.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason"`

	// message for a person, never a part of the document's text.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}
