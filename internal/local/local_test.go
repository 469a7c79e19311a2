package local

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/search"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const recipeText = `
access:
  default: Nobody
  rules:
  - {prefix: public/, allow: [{type: Everyone}]}
indexing:
  chunking: {strategy: Whole}
  embedding: {model: static-256}
retrieval: {topK: 2}
`

const setText = `{"id":"1","question":"how long is parental leave","as":{"user":"ann","groups":["hr"]},"evidence":[[{"document":"hr/leave.md"}]]}
{"id":"2","question":"how long is parental leave","as":{"user":"eve"},"kind":"Forbidden","forbidden":["hr/leave.md"]}
`

func TestBuildSearchEval(t *testing.T) {
	dir := t.TempDir()
	documents := filepath.Join(dir, "docs")
	write(t, documents+"/hr/leave.md", "# Leave\n\nParental leave lasts sixteen weeks.\n")
	write(t, documents+"/hr/leave.md.acl.json", `{"allow":[{"type":"Group","name":"hr"}]}`)
	write(t, documents+"/public/travel.md", "# Travel\n\nExpenses are paid monthly.\n")
	write(t, documents+"/broken.md", "")
	recipe, err := ReadRecipe(write(t, dir+"/recipe.yaml", recipeText))
	if err != nil {
		t.Fatal(err)
	}
	out := DefaultOut(documents)
	report, err := Build(t.Context(), documents, out, recipe, nil)
	if err != nil || report.Documents != 3 || report.Failed != 1 || report.Chunks != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	again, err := Build(t.Context(), documents, out, recipe, nil)
	if err != nil || again.ManifestDigest != report.ManifestDigest {
		t.Errorf("a second build gave %s, %v; the first %s", again.ManifestDigest, err, report.ManifestDigest)
	}
	s, err := Open(t.Context(), out, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for as, want := range map[string][]string{"user:ann,group:hr": {"hr/leave.md", "public/travel.md"}, "user:hr": {"public/travel.md"}} {
		id, err := ParseAs(as)
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.Search(t.Context(), id, search.Request{Query: "parental leave"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range response.Hits {
			got = append(got, h.Document)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s gets %q, want %q", as, got, want)
		}
	}
	table, err := Compare(t.Context(), readSet(t, documents, write(t, dir+"/set.jsonl", setText)), out, recipe, nil, slog.New(slog.DiscardHandler))
	if err != nil || table.Leaks == nil || *table.Leaks != (eval.LeakReport{Probes: 2}) || table.Invalid() != "" || len(table.Notes) != 1 {
		t.Errorf("%+v, %v", table, err)
	}
	for _, system := range Systems() {
		if f := table.Systems[system]["recall@1"]; f != (Figure{1, 1, 1}) {
			t.Errorf("%s has recall@1 %+v", system, f)
		}
	}
	for _, want := range []string{"3 documents, 2 chunks, 1 questions", "hybrid+rerank", "leaks: 0 forbidden hits in 2 answers", "1 documents could not be indexed (first: broken.md, Empty"} {
		if !strings.Contains(table.Text(), want) {
			t.Errorf("%q is not in\n%s", want, table.Text())
		}
	}
}

func readSet(t *testing.T, documents, file string) Set {
	t.Helper()
	set, err := ReadSet(documents, file)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	documents := filepath.Join(dir, "docs")
	write(t, documents+"/a.md", "text")
	recipe, err := ReadRecipe("")
	if err != nil {
		t.Fatal(err)
	}
	_, inside := Build(t.Context(), documents, documents+"/out", recipe, nil)
	_, same := Build(t.Context(), documents, documents, recipe, nil)
	_, none := Build(t.Context(), dir+"/nothing", dir+"/out", recipe, nil)
	_, notBuilt := Open(t.Context(), dir+"/out", slog.New(slog.DiscardHandler))
	_, unknown := ReadRecipe(write(t, dir+"/unknown.yaml", "indexing: {chunks: 7}"))
	_, missing := ReadRecipe(dir + "/missing.yaml")
	for says, err := range map[string]error{
		"lies in the folder": inside, "choose another": same, "is no folder": none, "local build first": notBuilt,
		"chunks": unknown, "missing.yaml": missing,
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want something on %q", err, says)
		}
	}
}

func TestParseAs(t *testing.T) {
	id, err := ParseAs("user:ann, group:hr,group:a:b")
	if err != nil || id.User != "ann" || !slices.Equal(id.Groups, []string{"hr", "a:b"}) {
		t.Errorf("%+v, %v", id, err)
	}
	for _, bad := range []string{"", "ann", "group:hr", "user:", "user:a,user:b", "user:a,team:x", "user:a,"} {
		if id, err := ParseAs(bad); err == nil {
			t.Errorf("%q gave %+v", bad, id)
		}
	}
}

func TestRecipeAccess(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       v1alpha1.AccessDefault
	}{
		{"silent", "indexing: {chunking: {strategy: Fixed, size: 64}}\n", v1alpha1.AccessEveryone},
		{"rules without a default", "access: {rules: [{prefix: a/, allow: [{type: Everyone}]}]}\n", v1alpha1.AccessNobody},
		{"empty", "access: {}\n", v1alpha1.AccessNobody},
		{"everyone", "access: {default: Everyone}\n", v1alpha1.AccessEveryone},
	} {
		path := filepath.Join(t.TempDir(), "recipe.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		recipe, err := ReadRecipe(path)
		if err != nil || recipe.Access.Default != c.want {
			t.Errorf("%s: default %q, %v, want %q", c.name, recipe.Access.Default, err, c.want)
		}
	}
}
