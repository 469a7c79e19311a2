package v1alpha1

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// node is the part of a CustomResourceDefinition's node that bounds values.
type node struct {
	Type                 string          `json:"type"`
	Format               string          `json:"format"`
	Description          string          `json:"description"`
	Enum                 []any           `json:"enum"`
	MaxLength            *int64          `json:"maxLength"`
	MaxItems             *int64          `json:"maxItems"`
	Properties           map[string]node `json:"properties"`
	Items                *node           `json:"items"`
	AdditionalProperties *node           `json:"additionalProperties"`
	ListType             string          `json:"x-kubernetes-list-type"`
	Rules                []struct {
		Rule    string `json:"rule"`
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// schemas reads the generated schema of every kind.
func schemas(t *testing.T) map[string]node {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v: run make generate", len(files), err)
	}
	all := map[string]node{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema node }
				}
			}
		}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		all[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	for kind, root := range all {
		if len(root.Properties["spec"].Properties) < 5 {
			t.Fatalf("the schema of %s was not read", kind)
		}
	}
	return all
}

// walk visits every field of Quarry's own. Resources are Kubernetes' own type.
func walk(path string, s node, visit func(path string, s node)) {
	visit(path, s)
	for name, field := range s.Properties {
		if name != "resources" && path+name != "metadata" {
			walk(strings.TrimPrefix(path+"."+name, "."), field, visit)
		}
	}
	if s.Items != nil {
		walk(path+"[]", *s.Items, visit)
	}
}

// An unbounded value could fill etcd, and makes rules too expensive for the API
// server.
func TestEverythingIsBounded(t *testing.T) {
	for kind, root := range schemas(t) {
		walk("", root, func(path string, s node) {
			where := fmt.Sprintf("%s %s", kind, path)
			switch {
			case path == "apiVersion" || path == "kind" || strings.HasPrefix(path, "metadata"):
			case s.Type == "string" && s.MaxLength == nil && s.Enum == nil && s.Format != "date-time":
				t.Errorf("%s: a string without maxLength", where)
			case s.Type == "array" && s.MaxItems == nil:
				t.Errorf("%s: a list without maxItems", where)
			case s.Type == "array" && s.ListType == "":
				t.Errorf("%s: a list without a list type merges by chance", where)
			case s.Type == "number":
				t.Errorf("%s: a float; use a decimal string", where)
			case s.Type == "boolean":
				t.Errorf("%s: a boolean; use an enum of words", where)
			case s.AdditionalProperties != nil:
				t.Errorf("%s: a map has no bounds", where)
			}
		})
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	for kind, root := range schemas(t) {
		walk("", root, func(path string, s node) {
			if !strings.HasSuffix(path, "[]") && path != "metadata" && s.Description == "" {
				t.Errorf("%s %s has no description", kind, path)
			}
		})
	}
}

// YAML 1.1 reads these words as booleans or null where nobody quotes them. An
// analyzer is called by the name of its language, as every search engine writes it.
func TestEnumsAreCamelCaseWords(t *testing.T) {
	for kind, root := range schemas(t) {
		walk("", root, func(path string, s node) {
			for _, value := range s.Enum {
				word, ok := value.(string)
				if !ok || word == "" || (word[0] < 'A' || word[0] > 'Z') && !strings.Contains(path, "conditions") && !strings.HasSuffix(path, ".analyzer") {
					t.Errorf("%s %s: %v is no CamelCase word", kind, path, value)
				}
				switch strings.ToLower(word) {
				case "yes", "no", "on", "off", "y", "n", "true", "false", "null":
					if !strings.Contains(path, "conditions") {
						t.Errorf("%s %s: YAML reads %s as something else", kind, path, word)
					}
				}
			}
		})
	}
}

// A rule's message names the field or object and says what to do.
func TestEveryRuleHasAMessage(t *testing.T) {
	for kind, root := range schemas(t) {
		walk("", root, func(path string, s node) {
			for _, rule := range s.Rules {
				if len(rule.Message) < 30 {
					t.Errorf("%s %s: rule %s has the message %q", kind, path, rule.Rule, rule.Message)
				}
			}
		})
	}
}
