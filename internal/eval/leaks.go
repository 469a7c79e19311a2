package eval

import (
	"slices"
	"strings"
)

// RawPrincipal is one entry of an allow list, as the Corpus or a sidecar writes it.
type RawPrincipal struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// RawRule is one access rule of the Corpus.
type RawRule struct {
	Prefix string         `json:"prefix"`
	Allow  []RawPrincipal `json:"allow"`
}

// RawAccess is who may read what, as the sources say it. It is evaluated here a second time, on purpose naively and without the
// code that the servers use.
//
// The caller reads it as of the sync whose overlay the gateways have applied; anything newer would count lag as a leak.
type RawAccess struct {
	// Default is Nobody or Everyone; any other word is nobody.
	Default string    `json:"default"`
	Rules   []RawRule `json:"rules,omitempty"`
	// Metadata and Sidecars hold the allow list that a document carries itself. A sidecar that cannot be read is an empty list.
	Metadata map[string][]RawPrincipal `json:"metadata,omitempty"`
	Sidecars map[string][]RawPrincipal `json:"sidecars,omitempty"`
	// Gone names documents that were deleted: nobody may read them.
	Gone map[string]bool `json:"gone,omitempty"`
}

// Permits tells whether the principal may read the document: the sidecar decides, else the metadata, else the longest rule,
// else the default.
func (a RawAccess) Permits(document string, who Principal) bool {
	if a.Gone[document] {
		return false
	}
	if allow, ok := a.Sidecars[document]; ok {
		return named(allow, who)
	}
	if allow, ok := a.Metadata[document]; ok {
		return named(allow, who)
	}
	longest, found := RawRule{}, false
	for _, rule := range a.Rules {
		if strings.HasPrefix(document, rule.Prefix) && (!found || len(rule.Prefix) > len(longest.Prefix)) {
			longest, found = rule, true
		}
	}
	if found {
		return named(longest.Allow, who)
	}
	return a.Default == "Everyone"
}

// named tells whether an allow list names the principal. Names are compared byte by byte; an unknown type names nobody.
func named(allow []RawPrincipal, who Principal) bool {
	for _, p := range allow {
		switch p.Type {
		case "Everyone":
			return true
		case "User":
			if p.Name != "" && p.Name == who.User {
				return true
			}
		case "Group":
			if p.Name != "" && slices.Contains(who.Groups, p.Name) {
				return true
			}
		}
	}
	return false
}

// forbiddenHits lists, once each and sorted, the documents in an answer that the asker may not read.
func forbiddenHits(q Question, hits []Hit, access RawAccess) []string {
	var leaked []string
	for _, h := range hits {
		if slices.Contains(q.Forbidden, h.Document) || !access.Permits(h.Document, q.As) {
			leaked = append(leaked, h.Document)
		}
	}
	slices.Sort(leaked)
	return slices.Compact(leaked)
}

// staleReason says why a question can no longer be measured: no document of its evidence is in the snapshot, or the asker may
// read none of them. It is empty for a question that can be measured or that has no evidence.
func staleReason(q Question, inSnapshot func(string) bool, access RawAccess) string {
	if len(q.Evidence) == 0 {
		return ""
	}
	reason := "no document of its evidence is in the snapshot"
	for _, group := range q.Evidence {
		for _, e := range group {
			if !inSnapshot(e.Document) {
				continue
			}
			if access.Permits(e.Document, q.As) {
				return ""
			}
			reason = "the asker may read no document of its evidence"
		}
	}
	return reason
}
