package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"quarry.dev/quarry/internal/search"
)

// small is a folder with one document, and a recipe that indexes it quickly.
func small(t *testing.T) (documents string, r Recipe) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/docs/leave.md", "# Leave\n\nParental leave lasts sixteen weeks.\n")
	r, err := ReadRecipe(write(t, dir+"/recipe.yaml", "indexing: {embedding: {model: static-256}}"))
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/docs", r
}

// A power cut leaves files that are short or empty. To build again mends them, whether that build was ended or not.
func TestBuildMendsDamage(t *testing.T) {
	documents, r := small(t)
	damage := map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	}
	for name, harm := range damage {
		for _, pattern := range []string{"segments/*/bm25.seg", "segments/*/vectors.seg", "indexes/*/manifest.json"} {
			for _, ended := range []bool{true, false} {
				out := filepath.Join(t.TempDir(), "out")
				if _, err := Build(t.Context(), documents, out, r, nil); err != nil {
					t.Fatal(err)
				}
				found, err := filepath.Glob(filepath.Join(out, pattern))
				if err != nil || len(found) != 1 {
					t.Fatalf("%s: %q, %v", pattern, found, err)
				}
				if err := harm(found[0]); err != nil {
					t.Fatal(err)
				}
				if !ended {
					if err := os.RemoveAll(filepath.Join(out, builds)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := Build(t.Context(), documents, out, r, nil); err != nil {
					t.Errorf("%s %s, ended %t: %v", pattern, name, ended, err)
					continue
				}
				s, err := Open(t.Context(), out, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Errorf("%s %s, ended %t: %v", pattern, name, ended, err)
					continue
				}
				id, _ := ParseAs("user:ann")
				if response, err := s.Search(t.Context(), id, search.Request{Query: "parental leave"}); err != nil || len(response.Hits) != 1 {
					t.Errorf("%s %s, ended %t: %+v, %v", pattern, name, ended, response, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Who waits for another process is told so, and can stop waiting.
func TestLockWaits(t *testing.T) {
	out := t.TempDir()
	unlock, err := lock(t.Context(), out, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, out, func(string, int, int) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was stopped ended with %v", err)
	}
	unlock()
	unlock, err = lock(t.Context(), out, nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A link to a folder is that folder, by whatever name it and the place of the index are called.
func TestBuildThroughLinks(t *testing.T) {
	documents, r := small(t)
	dir := filepath.Dir(documents)
	if err := os.Symlink("docs", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	report, err := Build(t.Context(), dir+"/link", DefaultOut(dir+"/link"), r, nil)
	if err != nil || report.Documents != 1 {
		t.Errorf("through a link: %+v, %v", report, err)
	}
	if _, changed := State(dir+"/link", DefaultOut(dir+"/link")); changed {
		t.Error("nothing has changed since")
	}
	for _, names := range [][2]string{{documents, dir + "/link/out"}, {dir + "/link", documents + "/out"}, {dir + "/link", dir + "/link/a/b"}} {
		if _, err := Build(t.Context(), names[0], names[1], r, nil); err == nil {
			t.Errorf("%q was built into %q, which lies in it", names[0], names[1])
		}
	}
	t.Chdir(documents)
	if out := DefaultOut("."); out != documents+".quarry" {
		t.Errorf("the index of this folder lies in %q", out)
	}
	if report, err := Build(t.Context(), ".", DefaultOut("."), r, nil); err != nil || report.Documents != 1 {
		t.Errorf("this folder: %+v, %v", report, err)
	}
}

// A faulty name and a faulty sidecar hide their document, and that is said by every build; the others are indexed.
func TestBuildTellsWhatIsWithheld(t *testing.T) {
	documents, r := small(t)
	write(t, documents+"/pay.md", "The boss earns a lot.\n")
	write(t, documents+"/pay.md.acl.json", "no JSON")
	if err := os.WriteFile(documents+"/bad\xff.md", []byte("text"), 0o600); err != nil {
		t.Skip("this file system takes UTF-8 names only")
	}
	for range 2 {
		report, err := Build(t.Context(), documents, DefaultOut(documents), r, nil)
		if err != nil || report.Documents != 2 || report.Chunks != 2 || len(report.Failures) != 2 || report.Failures[0].Document != "bad\ufffd.md" || report.Failures[1].Document != "pay.md" {
			t.Errorf("%+v, %v", report, err)
		}
	}
}
