package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Warnings is a log for people: each warning or error is a line of w, without the times and keys that a cluster's log has.
func Warnings(w io.Writer) *slog.Logger { return slog.New(warnings{w}) }

type warnings struct{ w io.Writer }

func (h warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle writes "warning: what: why", of the values of all attributes.
func (h warnings) Handle(_ context.Context, r slog.Record) error {
	parts := []string{strings.ToLower(r.Level.String()), r.Message}
	if r.Level == slog.LevelWarn {
		parts[0] = "warning"
	}
	r.Attrs(func(a slog.Attr) bool {
		parts = append(parts, a.Value.String())
		return true
	})
	_, err := fmt.Fprintln(h.w, Printable(strings.Join(parts, ": ")))
	return err
}

// WithAttrs leaves out what is said of a whole process: there is only one.
func (h warnings) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h warnings) WithGroup(string) slog.Handler { return h }
