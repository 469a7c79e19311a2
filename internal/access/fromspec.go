package access

import "quarry.dev/quarry/api/v1alpha1"

// FromSpec turns the access part of a Corpus into a Policy. The API server has validated it; a principal that is invalid
// all the same is left out, which permits less.
func FromSpec(spec v1alpha1.AccessSpec) Policy {
	p := Policy{Default: Nobody(), SidecarSuffix: spec.SidecarSuffix}
	if spec.Default == v1alpha1.AccessEveryone {
		p.Default = Allow{{Type: Everyone}}
	}
	for _, r := range spec.Rules {
		p.Rules = append(p.Rules, Rule{Prefix: r.Prefix, Allow: fromSpec(r.Allow)})
	}
	return p
}

func fromSpec(principals []v1alpha1.Principal) Allow {
	var valid []Principal
	for _, sp := range principals {
		p := Principal{Type: Type(sp.Type), Name: sp.Name}
		if p.Validate() == nil {
			valid = append(valid, p)
		}
	}
	allow, err := NewAllow(valid...)
	if err != nil {
		return Nobody()
	}
	return allow
}
