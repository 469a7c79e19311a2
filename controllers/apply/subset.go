package apply

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// says tells whether the live object was last applied with this intent and still holds every value of it.
func says(live client.Object, intent *unstructured.Unstructured) (bool, error) {
	if live.GetAnnotations()[IntentAnnotation] != intent.GetAnnotations()[IntentAnnotation] {
		return false, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("convert %T: %w", live, err)
	}
	want := intent.DeepCopy().Object
	// A typed object from a cache does not carry its kind.
	delete(want, "apiVersion")
	delete(want, "kind")
	return subset(want, content), nil
}

// subset tells whether live holds every value of want. Defaults and other owners may add map keys (but see exact), and entries to
// lists whose entries have a name; any other list must be equal in length, so that a foreign rule in a
// NetworkPolicy counts as drift.
func subset(want, live any) bool {
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		return mapSubset(want, live) && (ok || len(want) == 0)
	case []any:
		live, _ := live.([]any)
		return listSubset(want, live)
	case nil:
		return live == nil
	default:
		return reflect.DeepEqual(want, live)
	}
}

// exact are maps that an apply replaces as a whole. A key that somebody adds to one is drift: it takes a Service's
// endpoints away, or a NetworkPolicy off the pods that it is for.
var exact = map[string]bool{"selector": true, "podSelector": true, "namespaceSelector": true, "nodeSelector": true}

func mapSubset(want, live map[string]any) bool {
	for key, value := range want {
		found, ok := live[key]
		if !ok && !empty(value) {
			return false
		}
		if ok && (!subset(value, found) || exact[key] && !subset(found, value)) {
			return false
		}
	}
	return true
}

func listSubset(want, live []any) bool {
	if len(want) == len(live) {
		for i := range want {
			if !subset(want[i], live[i]) {
				return named(want) && eachIn(want, live)
			}
		}
		return true
	}
	return len(want) < len(live) && len(want) > 0 && named(want) && eachIn(want, live)
}

// eachIn tells whether every wanted entry is held by some live one, in any order.
func eachIn(want, live []any) bool {
	for _, entry := range want {
		found := false
		for _, candidate := range live {
			found = found || subset(entry, candidate)
		}
		if !found {
			return false
		}
	}
	return true
}

// named tells whether the entries are maps with a key by which the API server merges them.
func named(list []any) bool {
	for _, entry := range list {
		entry, ok := entry.(map[string]any)
		if !ok {
			return false
		}
		if entry["name"] == nil && entry["uid"] == nil {
			return false
		}
	}
	return true
}

// empty tells whether a value is one that encoding may leave out.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// dropCreationTimestamps removes the nulls that typed metadata encodes to, in pod templates as well.
func dropCreationTimestamps(content map[string]any) {
	for key, value := range content {
		if key == "creationTimestamp" && value == nil {
			delete(content, key)
			continue
		}
		if nested, ok := value.(map[string]any); ok {
			dropCreationTimestamps(nested)
		}
	}
}
