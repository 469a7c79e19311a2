package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Reasons are read by programs: each is one CamelCase word, once, named as its
// constant and with a sentence that documents it.
func TestReasonsAreAClosedDocumentedList(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	camel := regexp.MustCompile(`^[A-Z][a-zA-Z]{2,62}$`)
	seen := map[string]bool{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		documented := ""
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			name := value.Names[0].Name
			word, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if value.Doc != nil {
				documented = value.Doc.Text()
			}
			if !strings.Contains(documented, name) {
				t.Errorf("%s is not documented", name)
			}
			kind := "Reason"
			if strings.HasPrefix(name, "Condition") {
				kind = "Condition"
			}
			if name != kind+word || !camel.MatchString(word) || seen[name] {
				t.Errorf("%s = %q: want one CamelCase word, named as its constant", name, word)
			}
			seen[name] = true
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d constants were found", len(seen))
	}
}
