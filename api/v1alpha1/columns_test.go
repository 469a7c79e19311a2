package v1alpha1

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// brackets choose among the items of a list.
var brackets = regexp.MustCompile(`\[.*?\]`)

// TestColumnsShowFields: kubectl shows a blank, and no error, where the path of a column names no field.
func TestColumnsShowFields(t *testing.T) {
	roots := schemas(t)
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					AdditionalPrinterColumns []struct{ Name, JSONPath string }
				}
			}
		}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		kind, columns := crd.Spec.Names.Kind, crd.Spec.Versions[0].AdditionalPrinterColumns
		if len(columns) < 5 {
			t.Errorf("%s has %d columns", kind, len(columns))
		}
		for _, column := range columns {
			if missing := missingField(roots[kind], column.JSONPath); missing != "" {
				t.Errorf("%s: column %s shows %s, and there is no %q", kind, column.Name, column.JSONPath, missing)
			}
		}
	}
}

// missingField is the first name in a path that the schema does not have. What is below metadata is the API server's.
func missingField(at node, path string) string {
	for _, name := range strings.Split(brackets.ReplaceAllString(strings.TrimPrefix(path, "."), ""), ".") {
		if name == "metadata" {
			return ""
		}
		if at.Items != nil {
			at = *at.Items
		}
		next, ok := at.Properties[name]
		if !ok {
			return name
		}
		at = next
	}
	return ""
}
