package apply

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestSubset(t *testing.T) {
	for name, test := range map[string]struct {
		want, live string
		same       bool
	}{
		"equal":                         {`{a: 1, b: [1, 2]}`, `{a: 1, b: [1, 2]}`, true},
		"a default was added":           {`{a: {b: 1}}`, `{a: {b: 1, c: 2}, d: 3}`, true},
		"a value differs":               {`{a: {b: 1}}`, `{a: {b: 2}}`, false},
		"a value is missing":            {`{a: 1}`, `{}`, false},
		"empty values may be left out":  {`{a: {}, b: [], c: null}`, `{}`, true},
		"a map became a scalar":         {`{a: {b: 1}}`, `{a: 1}`, false},
		"another owner's named entry":   {`{a: [{name: x, v: 1}]}`, `{a: [{name: y}, {name: x, v: 1}]}`, true},
		"our named entry changed":       {`{a: [{name: x, v: 1}]}`, `{a: [{name: y}, {name: x, v: 2}]}`, false},
		"a foreign rule without a name": {`{a: [{to: 1}]}`, `{a: [{to: 1}, {}]}`, false},
		"a rule is missing":             {`{a: [{to: 1}]}`, `{a: []}`, false},
		"scalars in another order":      {`{a: [1, 2]}`, `{a: [2, 1]}`, false},
		"a scalar more":                 {`{a: [1]}`, `{a: [1, 2]}`, false},
	} {
		var want, live map[string]any
		if err := yaml.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(test.live), &live); err != nil {
			t.Fatal(err)
		}
		if got := subset(want, live); got != test.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSetCondition(t *testing.T) {
	var conds []metav1.Condition
	if !SetCondition(&conds, 1, "Ready", metav1.ConditionTrue, "Ready", "ok") {
		t.Error("a new condition is no change")
	}
	if SetCondition(&conds, 1, "Ready", metav1.ConditionTrue, "Ready", "ok") {
		t.Error("the same condition is a change")
	}
	then := conds[0].LastTransitionTime
	SetCondition(&conds, 2, "Ready", metav1.ConditionTrue, "Ready", strings.Repeat("ü", 2000))
	if conds[0].ObservedGeneration != 2 || conds[0].LastTransitionTime != then {
		t.Errorf("%+v", conds[0])
	}
	if message := conds[0].Message; len(message) > MaxMessage || !utf8.ValidString(message) || !strings.HasSuffix(message, "...") {
		t.Errorf("message of %d bytes: %q", len(message), message)
	}
	SetCondition(&conds, 2, "AccessFresh", metav1.ConditionTrue, "Synced", "")
	if conds[0].Type != "AccessFresh" {
		t.Error("conditions are not sorted by type")
	}
}
