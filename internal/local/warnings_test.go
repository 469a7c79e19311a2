package local

import (
	"bytes"
	"errors"
	"testing"
)

func TestWarnings(t *testing.T) {
	var out bytes.Buffer
	log := Warnings(&out).With("role", "gateway")
	log.Info("ready", "index", "support")
	log.Warn("answers keep the fused order", "error", errors.New("rerank: 503\x1b[2J"))
	log.Error("a search failed", "error", errors.New("corrupt segment file"))
	log.Warn("nothing more to say")
	want := "warning: answers keep the fused order: rerank: 503 [2J\n" +
		"error: a search failed: corrupt segment file\nwarning: nothing more to say\n"
	if out.String() != want {
		t.Errorf("%q\nnot %q", out.String(), want)
	}
}
