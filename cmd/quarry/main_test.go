package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry/internal/search"
)

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	stdout, _, err = runBoth(t, args...)
	return stdout, err
}

func runBoth(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, progress bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&progress)
	err = root.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

func TestEveryRoleHasItsCommand(t *testing.T) {
	for _, path := range []string{"operator", "sync-once", "chunk", "contextualize", "embed", "build", "serve bm25", "serve hnsw",
		"serve gateway", "eval", "local build", "local search", "local eval"} {
		if cmd, rest, err := newRootCommand().Find(strings.Fields(path)); err != nil || len(rest) > 0 || cmd.RunE == nil || cmd.Short == "" {
			t.Errorf("quarry %s: %v", path, err)
		}
	}
}

func TestMisspeltLocalCommand(t *testing.T) {
	if _, err := run(t, "local", "serch"); err == nil || !strings.Contains(err.Error(), `"serch"`) {
		t.Errorf("%v", err)
	}
	if _, err := run(t, "local", "build"); err == nil || !strings.Contains(err.Error(), "quarry local build DIR") {
		t.Errorf("%v", err)
	}
	if out, err := run(t, "local"); err != nil || !strings.Contains(out, "Available Commands") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestLocal(t *testing.T) {
	documents := filepath.Join(t.TempDir(), "docs")
	if err := os.Mkdir(documents, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(documents+"/leave.md", []byte("# Leave\n\nParental leave lasts sixteen weeks.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "local", "build", documents); err != nil || !strings.Contains(out, "1 documents (0 failed), 1 chunks") {
		t.Fatalf("%s, %v", out, err)
	}
	out, err := run(t, "local", "search", "how long is leave", "--out", documents+".quarry", "--as", "user:ann,group:hr", "--explain", "--json")
	var response search.Response
	if err != nil || json.Unmarshal([]byte(out), &response) != nil || len(response.Hits) != 1 || response.Hits[0].Ranks == nil {
		t.Errorf("%s, %v", out, err)
	}
	t.Chdir(filepath.Dir(documents))
	if out, err := run(t, "local", "search", "how long is leave"); err != nil || !strings.Contains(out, "1. leave.md") {
		t.Errorf("%s, %v", out, err)
	}
}

// The first question makes the index, in its own words; the second finds it.
func TestLocalSearchBuilds(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("docs", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("docs/leave.md", []byte("# Leave\n\nParental leave lasts sixteen weeks.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"1 documents (0 failed), 1 chunks in docs.quarry", ""} {
		out, progress, err := runBoth(t, "local", "search", "--dir", "docs", "how", "long", "is", "leave?")
		if err != nil || !strings.HasPrefix(out, "1. leave.md > Leave  ") || strings.Contains(out, "\x1b") || strings.TrimSpace(progress) != says {
			t.Errorf("%q, %q, %v; want to be told %q", out, progress, err, says)
		}
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes("docs/leave.md", later, later); err != nil {
		t.Fatal(err)
	}
	if _, progress, err := runBoth(t, "local", "search", "--dir", "docs", "leave"); err != nil || !strings.Contains(progress, "docs has changed since it was indexed; to index it again: quarry local build docs") {
		t.Errorf("%q, %v", progress, err)
	}
	for says, question := range map[string]string{"query is empty": " ", "query has 50000 characters": strings.Repeat("word ", 10000), "query is not valid UTF-8": "\xff\xfe"} {
		if out, err := run(t, "local", "search", question); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q, %v; want %q", out, err, says)
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	t.Chdir(t.TempDir())
	for says, args := range map[string][]string{
		"--corpus is empty":     {"sync-once"},
		"--dir DIR":             {"local", "search", "x"},
		"*.quarry":              {"local", "search", "x", "y"},
		"names no user":         {"local", "search", "x", "--as", "group:hr"},
		"read the eval set":     {"local", "eval", "docs", "--set", "none"},
		"either --beir":         {"local", "eval", "docs"},
		"corpus.jsonl is miss":  {"local", "eval", "--beir", "none", "--out", "out"},
		"config.json":           {"serve", "bm25", "--etc", "none"},
		"JOB_COMPLETION_INDEX":  {"chunk", "--etc", "none", "--termination-log", ""},
		"unknown command":       {"serf"},
		"name one":              {"local", "build"},
		"serch":                 {"local", "serch", "x"},
		"unknown flag: --nodes": {"serve", "gateway", "--nodes"},
	} {
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("quarry %s: %v; want %q", strings.Join(args, " "), err, says)
		}
	}
}

// Who indexes a folder again without naming its recipe keeps it, access rules included. What leaks all the same is an error.
func TestLocalBuildKeepsTheRecipe(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"docs/pay.md": "# Pay\n\nThe boss earns a lot.\n",
		"recipe.yaml": "access: {default: Nobody}\nindexing: {embedding: {model: static-256}}\n",
		"set.jsonl":   `{"id":"1","question":"what does the boss earn","as":{"user":"eve"},"kind":"Forbidden","forbidden":["pay.md"]}` + "\n" + `{"id":"2","question":"pay","as":{"user":"eve"},"evidence":[[{"document":"pay.md"}]]}`,
		"empty.yaml":  "indexing: {embedding: {model: static-256}}\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, build := range [][]string{{"local", "build", "docs", "--recipe", "recipe.yaml"}, {"local", "build", "docs"}} {
		if _, err := run(t, build...); err != nil {
			t.Fatal(err)
		}
		if out, err := run(t, "local", "search", "--dir", "docs", "boss"); err != nil || !strings.Contains(out, "Nothing found that this reader may see") {
			t.Errorf("after %q: %s, %v", build, out, err)
		}
	}
	out, err := run(t, "local", "eval", "docs", "--set", "set.jsonl", "--recipe", "empty.yaml")
	if err == nil || !strings.Contains(err.Error(), "1 hits were shown to readers who may not see them") || !strings.Contains(out, "leaks: 1 forbidden hits") {
		t.Errorf("a leak: %s, %v", out, err)
	}
}

// An answer that could not be written is an error.
func TestLocalSearchToAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("docs", 0o755), os.WriteFile("docs/a.md", []byte("Leave.\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root := newRootCommand()
	root.SetArgs([]string{"local", "search", "--dir", "docs", "leave"})
	root.SetOut(full)
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err == nil {
		t.Error("an answer that nobody got is no error")
	}
}
