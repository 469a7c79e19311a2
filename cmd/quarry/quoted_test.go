package main

import "testing"

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"docs.quarry": "docs.quarry", "./büro/x": "./büro/x", "my docs": "'my docs'", "": "''", "it's; rm": `'it'\''s; rm'`} {
		if got := quoted(word); got != want {
			t.Errorf("%q is quoted as %s, not %s", word, got, want)
		}
	}
}
