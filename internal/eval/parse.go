package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Bounds of an eval set. They keep one run within minutes and one report within a few MiB.
const (
	maxSetBytes      = 16 << 20
	maxLineBytes     = 256 << 10
	maxQuestions     = 10000
	maxQuestionRunes = 10000 // as many as a search takes
	maxGroups        = 2000  // labelled sets of research pool that many documents
	maxAlternatives  = 50
	maxGrade         = 1000
	maxForbidden     = 1000
	maxFaults        = 20 // reported at once; a set with more is fixed in rounds
)

// ParseSet reads an eval set: one JSON object per line, blank lines ignored. It reports every faulty line it finds, up to twenty,
// each with the line, the field, the value and what to do; a set with a fault gives no question at all.
func ParseSet(data []byte) ([]Question, error) {
	if len(data) > maxSetBytes {
		return nil, fmt.Errorf("the eval set has %d bytes, more than %d: split it, or leave questions out", len(data), maxSetBytes)
	}
	var questions []Question
	var faults []error
	firstLine := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	lines.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	number := 0
	for lines.Scan() && len(faults) < maxFaults {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		q, err := parseQuestion(line)
		if err == nil && firstLine[q.ID] > 0 {
			err = fmt.Errorf("id %q was used on line %d already: give each question an id of its own", q.ID, firstLine[q.ID])
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		firstLine[q.ID] = number
		questions = append(questions, q)
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("line %d: longer than %d bytes: shorten its quotes, and check that each question ends with a newline", number+1, maxLineBytes))
	}
	switch {
	case len(faults) > 0:
		return nil, errors.Join(faults...)
	case len(questions) == 0:
		return nil, errors.New("the eval set has no question: write one JSON object per line")
	case len(questions) > maxQuestions:
		return nil, fmt.Errorf("the eval set has %d questions, more than %d: leave some out", len(questions), maxQuestions)
	}
	return questions, nil
}

// parseQuestion reads and checks one line.
func parseQuestion(line []byte) (Question, error) {
	var q Question
	if !utf8.Valid(line) {
		return q, errors.New("not valid UTF-8: save the file as UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return q, explainJSON(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return q, errors.New("more than one JSON value: write one object per line")
	}
	if q.Kind == "" {
		q.Kind = Answerable
	}
	return q, q.check()
}

// explainJSON turns a decoder's error into one that says what to do.
func explainJSON(err error) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return fmt.Errorf("%s is a %s: write a %s", wrongType.Field, wrongType.Value, jsonName(wrongType.Type.Kind().String()))
	}
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return fmt.Errorf("field %s is not known: use id, question, as, kind, part, evidence and forbidden", name)
	}
	return fmt.Errorf("not a JSON object (%v): write one object per line", err)
}

// jsonName translates a Go kind into the word that JSON users know.
func jsonName(kind string) string {
	switch kind {
	case "slice":
		return "list"
	case "struct":
		return "object"
	case "int":
		return "whole number"
	}
	return kind
}

// check reports the first fault of a question.
func (q Question) check() error {
	switch {
	case q.ID == "" || len(q.ID) > 200:
		return fmt.Errorf("id %q has %d bytes: use 1 to 200", clip(q.ID), len(q.ID))
	case strings.TrimSpace(q.Question) == "":
		return fmt.Errorf("question %q is blank: write what a user would ask", clip(q.Question))
	case utf8.RuneCountInString(q.Question) > maxQuestionRunes:
		return fmt.Errorf("question %q has %d characters: use at most %d", clip(q.Question), utf8.RuneCountInString(q.Question), maxQuestionRunes)
	case q.As.User == "":
		return fmt.Errorf("as.user %q of question %q is empty: name the user who asks, because every search has a verified user", q.As.User, clip(q.ID))
	}
	for i, group := range q.As.Groups {
		if group == "" {
			return fmt.Errorf("as.groups[%d] \"\" is empty: name the group, or leave it out", i)
		}
	}
	if q.Part != "" && q.Part != Dev && q.Part != Gate {
		return fmt.Errorf("part %q is not known: use Dev for questions to try recipes on, Gate for those that judge, or leave it out", clip(string(q.Part)))
	}
	if err := q.checkKind(); err != nil {
		return err
	}
	return q.checkDocuments()
}

// checkKind refuses a kind that contradicts what is labelled: such a question would measure nothing, in silence.
func (q Question) checkKind() error {
	switch q.Kind {
	case Answerable:
		if len(q.Evidence) == 0 {
			return fmt.Errorf("evidence [] of the Answerable question %q is empty: name the documents that answer it, or set kind to Unanswerable", clip(q.ID))
		}
	case Unanswerable, Forbidden:
		if len(q.Evidence) > 0 {
			return fmt.Errorf("evidence of the %s question %q has %d groups: leave evidence out, or set kind to Answerable", q.Kind, clip(q.ID), len(q.Evidence))
		}
		if q.Kind == Forbidden && len(q.Forbidden) == 0 {
			return fmt.Errorf("forbidden [] of the Forbidden question %q is empty: name the documents that the asker must not see", clip(q.ID))
		}
	default:
		return fmt.Errorf("kind %q is not known: use Answerable, Unanswerable or Forbidden", clip(string(q.Kind)))
	}
	return nil
}

// checkDocuments bounds evidence and forbidden documents, and refuses empty names.
func (q Question) checkDocuments() error {
	if len(q.Evidence) > maxGroups {
		return fmt.Errorf("evidence has %d groups: use at most %d", len(q.Evidence), maxGroups)
	}
	if len(q.Forbidden) > maxForbidden {
		return fmt.Errorf("forbidden has %d documents: use at most %d", len(q.Forbidden), maxForbidden)
	}
	forbidden := map[string]bool{}
	for i, document := range q.Forbidden {
		if document == "" {
			return fmt.Errorf("forbidden[%d] \"\" is empty: name a document", i)
		}
		forbidden[document] = true
	}
	for i, group := range q.Evidence {
		if len(group) == 0 || len(group) > maxAlternatives {
			return fmt.Errorf("evidence[%d] has %d alternatives: use 1 to %d", i, len(group), maxAlternatives)
		}
		for j, e := range group {
			at := fmt.Sprintf("evidence[%d][%d]", i, j)
			switch {
			case e.Document == "":
				return fmt.Errorf("%s.document \"\" is empty: name a document by its key below the source prefix", at)
			case e.Quote != "" && len(words(e.Quote)) == 0:
				return fmt.Errorf("%s.quote %q holds no word: quote the words that answer, or leave it out", at, clip(e.Quote))
			case e.gain() < 1 || e.gain() > maxGrade:
				return fmt.Errorf("%s.grade is %d: use 1 to %d; what gains nothing is no evidence: leave it out", at, e.gain(), maxGrade)
			case forbidden[e.Document]:
				return fmt.Errorf("%s.document %q is also in forbidden: keep it in one of the two", at, clip(e.Document))
			}
		}
	}
	return nil
}

// clip shortens a value for an error message.
func clip(s string) string {
	const most = 60
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "..."
}
