package local

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"quarry.dev/quarry/internal/eval"
)

// Figure is a mean over all measured questions with its 95 % bootstrap interval, each from 0 to 1.
type Figure struct {
	Value float64 `json:"value"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// Table compares the systems of one recipe on one set.
type Table struct {
	Documents int64 `json:"documents"`
	Chunks    int64 `json:"chunks"`
	// Seconds are those of indexing, or of finding that done already, and of asking all systems.
	Seconds float64 `json:"seconds"`
	Recipe  Recipe  `json:"recipe"`
	// Systems holds a figure per metric, by names such as "ndcg@10" and "mrr".
	Systems map[System]map[string]Figure `json:"systems"`
	// Leaks of hybrid, where the set probes for them.
	Leaks *eval.LeakReport `json:"leaks,omitempty"`
	// Notes say what the figures rest on.
	Notes []string `json:"notes,omitempty"`

	questions int
	invalid   string
}

// Compare indexes the documents of a set and measures systems on it, all of them where none is named. Log gets warnings.
func Compare(ctx context.Context, set Set, out string, r Recipe, progress Progress, log *slog.Logger, systems ...System) (Table, error) {
	for _, system := range systems {
		if !slices.Contains(Systems(), system) {
			return Table{}, system.unknown()
		}
	}
	started := time.Now()
	s, err := set.Open(ctx, out, r, progress, log)
	if err != nil {
		return Table{}, err
	}
	defer s.Close()
	t := Table{
		Documents: s.Report.Documents, Chunks: int64(s.loaded.Chunks.Len()), Recipe: r, Systems: map[System]map[string]Figure{},
		Notes: slices.Clone(set.Notes),
	}
	t.quarantined(s)
	if len(systems) == 0 {
		systems = Systems()
	}
	for _, system := range systems {
		report, err := s.Measure(ctx, set, system, progress)
		if err != nil {
			return Table{}, err
		}
		t.add(system, report)
		if system == Hybrid {
			t.describe(set, report)
		}
	}
	t.Seconds = time.Since(started).Seconds()
	return t, nil
}

// Name is how tables name a metric.
func Name(m eval.Metric) string {
	if m.Name == eval.MRR {
		return "mrr"
	}
	return strings.ToLower(m.String())
}

func (t *Table) add(system System, report eval.Report) {
	figures := map[string]Figure{}
	for _, m := range report.Metrics {
		figures[Name(m.Metric)] = Figure{m.Value, m.Lower, m.Upper}
		t.questions = m.Questions
	}
	t.Systems[system] = figures
	t.invalid = report.Invalid
	if t.questions == 0 && t.invalid == "" {
		t.invalid = "no question of the set is answerable, of the part Gate, and has evidence in the documents"
	}
}

func (t *Table) quarantined(s *Stack) {
	if failures := s.Report.Failures; len(failures) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d documents could not be indexed (first: %s, %s: %s): they count as not found",
			len(failures), failures[0].Document, failures[0].Reason, failures[0].Message))
	}
}

// describe notes what limits the figures of the hybrid, and what was found besides them.
func (t *Table) describe(set Set, report eval.Report) {
	if n := len(report.Stale); n > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d questions are stale and left out (first: %s, %s)", n, report.Stale[0].ID, report.Stale[0].Reason))
	}
	if slices.ContainsFunc(set.Questions, func(q eval.Question) bool { return q.Part == eval.Dev }) {
		t.Notes = append(t.Notes, "questions of the part Dev are not counted, as in a gate")
	}
	if slices.ContainsFunc(set.Questions, func(q eval.Question) bool { return q.Kind == eval.Forbidden }) || len(t.Recipe.Access.Rules) > 0 || report.Leaks.Hits > 0 {
		t.Leaks = &report.Leaks
	}
	if full, documents := fullAnswers(report); full > 0 && documents < depth*full {
		t.Notes = append(t.Notes, fmt.Sprintf("an answer has at most %d passages, %d answers had so many, of %.0f documents on average: recall@%d of the hybrid sees no more of them",
			depth, full, float64(documents)/float64(full), depth))
	}
}

// fullAnswers counts the answers that a search could not make longer, and the distinct documents of each.
func fullAnswers(report eval.Report) (answers, documents int) {
	for _, q := range report.Questions {
		if len(q.Hits) < depth {
			continue
		}
		answers++
		seen := map[string]bool{}
		for _, h := range q.Hits {
			seen[h.Document] = true
		}
		documents += len(seen)
	}
	return answers, documents
}

// Invalid says why the figures measure nothing; empty where they do.
func (t Table) Invalid() string { return t.invalid }

// Text is the table for a terminal: a row per metric, a column per system.
func (t Table) Text() string {
	var out strings.Builder
	embedding := t.Recipe.Indexing.Embedding.Model
	fmt.Fprintf(&out, "%d documents, %d chunks, %d questions, %.1f s; %s chunks, %s, rerank %s\n\n", t.Documents, t.Chunks, t.questions, t.Seconds,
		t.Recipe.Indexing.Chunking.Strategy, embedding, RerankOf(t.Recipe).Type)
	table := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	var systems []System
	for _, system := range Systems() {
		if t.Systems[system] != nil {
			systems = append(systems, system)
			fmt.Fprintf(table, "\t%s", system)
		}
	}
	fmt.Fprintln(table)
	for _, m := range Metrics() {
		fmt.Fprint(table, Name(m))
		for _, system := range systems {
			f := t.Systems[system][Name(m)]
			fmt.Fprintf(table, "\t%.4f %.4f-%.4f", f.Value, f.Lower, f.Upper)
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // a strings.Builder takes every write
	fmt.Fprintln(&out, "\nEach value with its 95 % bootstrap interval.")
	if t.Leaks != nil {
		fmt.Fprintf(&out, "leaks: %d forbidden hits in %d answers\n", t.Leaks.Hits, t.Leaks.Probes)
	}
	for _, note := range t.Notes {
		fmt.Fprintln(&out, "note:", Printable(note))
	}
	return out.String()
}
