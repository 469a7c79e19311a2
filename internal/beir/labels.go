package beir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/search"
)

func decode(line []byte, into *record) error {
	if !utf8.Valid(line) {
		return errors.New("is not valid UTF-8: save the file as UTF-8")
	}
	err := json.Unmarshal(line, into)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return fmt.Errorf("%s is a %s: write a string", wrongType.Field, wrongType.Value)
	}
	if err != nil {
		return fmt.Errorf("is not a JSON object (%v): write one object per line", err)
	}
	return nil
}

func readCorpus(path string) ([]Document, error) {
	found, err := records(path)
	if err != nil {
		return nil, err
	}
	documents := make([]Document, len(found))
	for i, r := range found {
		text := r.Text
		if strings.TrimSpace(r.Title) != "" {
			text = r.Title + "\n\n" + r.Text
		}
		documents[i] = Document{ID: r.ID, Key: Key(r.ID), Text: text}
	}
	return documents, nil
}

// readQueries refuses what no search would take, since such a query would count as one without an answer.
func readQueries(path string) ([]record, error) {
	queries, err := records(path)
	if err != nil {
		return nil, err
	}
	for _, q := range queries {
		if strings.TrimSpace(q.Text) == "" {
			return nil, fmt.Errorf("%s: text of query %q is blank: write what a user would ask, or take the query out", path, clip(q.ID))
		}
		if n := utf8.RuneCountInString(q.Text); n > search.MaxQuery {
			return nil, fmt.Errorf("%s: text of query %q has %d characters: a search takes at most %d", path, clip(q.ID), n, search.MaxQuery)
		}
	}
	return queries, nil
}

// label is one line of the qrels.
type label struct {
	document string
	grade    int
}

// labels are the qrels by query, in the order of the file.
type labels struct {
	path     string
	of       map[string][]label
	repeated int
}

// readQrels reads lines of query-id, corpus-id and score with tabs between; the header is optional.
func readQrels(dir string) (labels, error) {
	l := labels{of: map[string][]label{}}
	for _, name := range qrelsFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			l.path = filepath.Join(dir, name)
			break
		}
	}
	if l.path == "" {
		return l, fmt.Errorf("%s holds no labels: neither %s nor %s is there, and without them nothing can be measured", dir, qrelsFiles[0], qrelsFiles[1])
	}
	type pair struct{ query, document string }
	seen := map[pair]label{}
	err := lines(l.path, func(number int, line []byte) error {
		fields := strings.Split(string(line), "\t")
		if number == 1 && len(fields) == 3 && fields[0] == "query-id" {
			return nil
		}
		if len(fields) != 3 || fields[0] == "" || fields[1] == "" {
			return fmt.Errorf("%q is no label: write query-id, corpus-id and score with one tab between", clip(string(line)))
		}
		grade, err := strconv.Atoi(strings.TrimSpace(fields[2]))
		if err != nil {
			return fmt.Errorf("score %q is no whole number: write 0 for not relevant, 1 and more for relevant", clip(fields[2]))
		}
		p := pair{fields[0], fields[1]}
		if before, ok := seen[p]; ok {
			if before.grade != grade {
				return fmt.Errorf("document %q of query %q has score %d here and %d before: keep one", clip(p.document), clip(p.query), grade, before.grade)
			}
			l.repeated++
			return nil
		}
		seen[p] = label{p.document, grade}
		l.of[p.query] = append(l.of[p.query], seen[p])
		return nil
	})
	return l, err
}

// evalSet writes a question for each query with a relevant document; each relevant document is a group of evidence.
func (l labels) evalSet(queries []record) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, q := range queries {
		question := eval.Question{ID: q.ID, Question: q.Text, As: eval.Principal{User: User}}
		for _, label := range l.of[q.ID] {
			evidence := eval.Evidence{Document: Key(label.document)}
			if label.grade > 1 {
				evidence.Grade = &label.grade
			}
			if label.grade > 0 {
				question.Evidence = append(question.Evidence, []eval.Evidence{evidence})
			}
		}
		if len(question.Evidence) == 0 {
			continue
		}
		if err := encoder.Encode(question); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// notes say what the figures rest on.
func (l labels) notes(documents []Document, queries []record) []string {
	held, asked := map[string]bool{}, map[string]bool{}
	for _, d := range documents {
		held[d.ID] = true
	}
	var notFound, unknown, silent tally
	for _, q := range queries {
		asked[q.ID] = true
		relevant := 0
		for _, label := range l.of[q.ID] {
			if label.grade < 1 {
				continue
			}
			relevant++
			if !held[label.document] {
				notFound.add(label.document)
			}
		}
		if relevant == 0 {
			silent.add(q.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.of)) {
		if !asked[id] {
			unknown.add(id)
		}
	}
	var notes []string
	say := func(t tally, format string) {
		if t.n > 0 {
			notes = append(notes, fmt.Sprintf(format, t.n, clip(t.first)))
		}
	}
	say(notFound, "%d qrels name documents that the corpus lacks (first: %s): they count as not found, and a query with no other is left out as stale")
	say(unknown, "%d queries of the qrels are not in "+queriesFile+" (first: %s): they are not asked")
	say(silent, "%d queries have no relevant document in the qrels (first: %s): they are not asked")
	if l.repeated > 0 {
		notes = append(notes, fmt.Sprintf("%d lines of the qrels repeat others: each counts once", l.repeated))
	}
	return notes
}

// tally counts, and remembers the first.
type tally struct {
	n     int
	first string
}

func (t *tally) add(what string) {
	if t.n++; t.n == 1 {
		t.first = what
	}
}

// clip shortens a value for an error message.
func clip(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}
