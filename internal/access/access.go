// Package access is the one implementation of who may read what: principals, rules, sidecars, overlays and allow sets.
//
// Names are compared as exact bytes: no case folding, no trimming and no Unicode normalisation, neither when rules are
// read nor when a request is judged. What is missing or unreadable permits nobody; there is no deny list.
package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Type says what a principal's name means. A user and a group of the same name are different principals.
type Type string

const (
	// User is one person or service, by the verified user claim.
	User Type = "User"
	// Group is a set of users, by the verified groups claim of the request; never by what was true at ingestion.
	Group Type = "Group"
	// Everyone is every verified principal of the tenant. It has no name and never means anonymous.
	Everyone Type = "Everyone"
)

// MaxName bounds a principal's name, in bytes.
const MaxName = 1024

// MaxAllow bounds the principals of one document.
const MaxAllow = 1000

// MaxSidecar bounds the size of a sidecar, in bytes.
const MaxSidecar = 256 << 10

// Principal is one reader that an allow list names.
type Principal struct {
	Type Type   `json:"type"`
	Name string `json:"name,omitempty"`
}

// Validate says what is wrong with p, and what would be right.
func (p Principal) Validate() error {
	switch p.Type {
	case User, Group:
		if p.Name == "" {
			return fmt.Errorf("name: is empty for type %s: give the name exactly as the token's claim has it", p.Type)
		}
		if len(p.Name) > MaxName {
			return fmt.Errorf("name: has %d bytes: at most %d are allowed", len(p.Name), MaxName)
		}
	case Everyone:
		if p.Name != "" {
			return fmt.Errorf("name: is %q for type Everyone: leave it out", p.Name)
		}
	default:
		return fmt.Errorf("type: is %q: use User, Group or Everyone", p.Type)
	}
	return nil
}

// Compare orders principals by type, then name.
func (p Principal) Compare(q Principal) int {
	if c := strings.Compare(string(p.Type), string(q.Type)); c != 0 {
		return c
	}
	return strings.Compare(p.Name, q.Name)
}

// Allow lists who may read a document: sorted and unique. An empty list is nobody.
type Allow []Principal

// NewAllow validates, sorts and folds principals; the result is never nil.
func NewAllow(principals ...Principal) (Allow, error) {
	if len(principals) > MaxAllow {
		return nil, fmt.Errorf("allow: has %d principals: at most %d are allowed; use a group", len(principals), MaxAllow)
	}
	for i, p := range principals {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("allow[%d].%w", i, err)
		}
	}
	out := append(Allow{}, principals...)
	slices.SortFunc(out, Principal.Compare)
	return slices.Compact(out), nil
}

// Nobody is the allow list that permits no one.
func Nobody() Allow { return Allow{} }

// Equal tells whether a and b permit the same principals; nil and empty are alike.
func (a Allow) Equal(b Allow) bool { return slices.Equal(a, b) }

// Permits tells whether id may read what a guards. An identity without a user is not verified and reads nothing.
func (a Allow) Permits(id Identity) bool {
	if id.User == "" {
		return false
	}
	for _, p := range a {
		switch p.Type {
		case Everyone:
			return true
		case User:
			if p.Name == id.User {
				return true
			}
		case Group:
			if p.Name != "" && slices.Contains(id.Groups, p.Name) {
				return true
			}
		}
	}
	return false
}

// Identity is the verified principal of one request. User must not be empty; Groups are those of this request.
type Identity struct {
	Tenant string
	User   string
	Groups []string
}

// Principals returns what id answers to, sorted and unique: Everyone, its groups, its user. It is empty for an identity
// without a user, so that a missing identity never widens anything.
func (id Identity) Principals() []Principal {
	if id.User == "" {
		return nil
	}
	out := []Principal{{Type: Everyone}, {Type: User, Name: id.User}}
	for _, g := range id.Groups {
		if g != "" {
			out = append(out, Principal{Type: Group, Name: g})
		}
	}
	slices.SortFunc(out, Principal.Compare)
	return slices.Compact(out)
}

// Rule gives every key that starts with Prefix (plain bytes, relative to the source's prefix) its readers.
type Rule struct {
	Prefix string
	Allow  Allow
}

// Policy is the access part of a Corpus.
type Policy struct {
	// Default holds for a document that nothing else names.
	Default Allow
	// Rules: the longest matching prefix wins, in any order of the list; two rules of one prefix permit what both permit.
	Rules []Rule
	// SidecarSuffix is appended to a document's key to find its sidecar; empty means that there are no sidecars.
	SidecarSuffix string
}

// Resolve returns who may read key: the sidecar where there is one, else the object's metadata, else the longest rule,
// else the default. An unreadable sidecar is passed as a pointer to an empty list.
func (p Policy) Resolve(key string, sidecar, metadata *Allow) Allow {
	if sidecar != nil {
		return nonNil(*sidecar)
	}
	if metadata != nil {
		return nonNil(*metadata)
	}
	best, found := Allow(nil), -1
	for _, r := range p.Rules {
		if len(r.Prefix) < found || !strings.HasPrefix(key, r.Prefix) {
			continue
		}
		if len(r.Prefix) == found {
			best = intersect(best, r.Allow)
			continue
		}
		best, found = r.Allow, len(r.Prefix)
	}
	if found < 0 {
		best = p.Default
	}
	return nonNil(best)
}

// IsSidecar tells whether key names a sidecar, and of which document.
func (p Policy) IsSidecar(key string) (document string, yes bool) {
	if p.SidecarSuffix == "" {
		return "", false
	}
	return strings.CutSuffix(key, p.SidecarSuffix)
}

func nonNil(a Allow) Allow {
	if a == nil {
		return Allow{}
	}
	return a
}

func intersect(a, b Allow) Allow {
	out := Allow{}
	for _, p := range a {
		if slices.Contains(b, p) {
			out = append(out, p)
		}
	}
	return out
}

// ParseSidecar reads {"allow":[{"type":"Group","name":"hr"}]}. Anything else is an error, a repeated or unknown field
// included; the caller then lets nobody read the document.
func ParseSidecar(data []byte) (Allow, error) {
	if len(data) > MaxSidecar {
		return nil, fmt.Errorf("sidecar: has %d bytes: at most %d are allowed", len(data), MaxSidecar)
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	dec.DisallowUnknownFields()
	if err := expect(dec, json.Delim('{')); err != nil {
		return nil, err
	}
	if err := expect(dec, "allow"); err != nil {
		return nil, err
	}
	var list []Principal
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("sidecar: allow: %w", err)
	}
	if list == nil {
		return nil, errors.New("sidecar: allow: is null: use [] for nobody")
	}
	if err := expect(dec, json.Delim('}')); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("sidecar: text follows the closing brace: keep one JSON object")
	}
	allow, err := NewAllow(list...)
	if err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	return allow, nil
}

func expect(dec *json.Decoder, want any) error {
	got, err := dec.Token()
	if err != nil {
		return fmt.Errorf("sidecar: is not valid JSON (%w): write {\"allow\":[{\"type\":\"Group\",\"name\":\"..\"}]}", err)
	}
	if got != want {
		return fmt.Errorf("sidecar: found %v where %v belongs: write {\"allow\":[{\"type\":\"Group\",\"name\":\"..\"}]}", got, want)
	}
	return nil
}
