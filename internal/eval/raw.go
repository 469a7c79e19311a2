package eval

import (
	"bytes"
	"encoding/json"

	"quarry.dev/quarry/api/v1alpha1"
)

// RawFromSpec takes default and rules from a Corpus as they stand there; the caller adds sidecars, metadata and deletions.
func RawFromSpec(spec v1alpha1.AccessSpec) RawAccess {
	raw := RawAccess{Default: string(spec.Default), Sidecars: map[string][]RawPrincipal{}, Metadata: map[string][]RawPrincipal{}, Gone: map[string]bool{}}
	for _, rule := range spec.Rules {
		r := RawRule{Prefix: rule.Prefix}
		for _, p := range rule.Allow {
			r.Allow = append(r.Allow, RawPrincipal{Type: string(p.Type), Name: p.Name})
		}
		raw.Rules = append(raw.Rules, r)
	}
	return raw
}

// RawSidecar reads the allow list of a sidecar. One that cannot be read, or says more than it should, is an empty list: nobody.
func RawSidecar(data []byte) []RawPrincipal {
	var sidecar struct {
		Allow []RawPrincipal `json:"allow"`
	}
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&sidecar) != nil || decoder.More() {
		return []RawPrincipal{}
	}
	for _, p := range sidecar.Allow {
		known := p.Type == "User" || p.Type == "Group" || p.Type == "Everyone"
		if !known || (p.Type == "Everyone") != (p.Name == "") {
			return []RawPrincipal{}
		}
	}
	return append([]RawPrincipal{}, sidecar.Allow...)
}

// MetricsOf lists what a gate wants measured, once each.
func MetricsOf(gate []v1alpha1.GateMetric) []Metric {
	var metrics []Metric
	seen := map[Metric]bool{}
	for _, g := range gate {
		m := Metric{Name: string(g.Name), K: int(g.K)}
		if !seen[m] {
			seen[m] = true
			metrics = append(metrics, m)
		}
	}
	return metrics
}
