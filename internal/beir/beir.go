// Package beir reads labelled sets in the form that retrieval research shares them (Thakur et al. 2021, BEIR): corpus.jsonl,
// queries.jsonl and qrels, and makes of them what Quarry works on: one text object per document, and an eval set.
//
// A set that could only give a wrong number is refused with the file, the line and what would be right. What leaves a number
// right but needs to be known is said in Notes.
package beir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/eval"
)

// User asks all questions: the documents of such a set are everybody's.
const User = "beir"

// Names of the files in the folder of a set; BEIR itself ships the second form of the qrels.
const (
	corpusFile  = "corpus.jsonl"
	queriesFile = "queries.jsonl"
)

var qrelsFiles = []string{"qrels.tsv", filepath.Join("qrels", "test.tsv")}

// Document is one line of corpus.jsonl as an object.
type Document struct {
	// ID is what the set calls it, Key the object's name, see Key.
	ID, Key string
	// Text is title, blank line, text; without a title it is the text.
	Text string
}

// Set is a whole labelled set, in memory.
type Set struct {
	Documents []Document
	// EvalSet holds the questions that have relevant documents, one JSON object per line, in the order of queries.jsonl.
	// Equal files give equal bytes.
	EvalSet []byte
	// Questions are those of EvalSet, parsed.
	Questions []eval.Question
	// Notes say what was left out, and what counts as not found.
	Notes []string
}

// Read reads the set in the folder dir. It needs memory for the whole corpus.
func Read(dir string) (Set, error) {
	documents, err := readCorpus(filepath.Join(dir, corpusFile))
	if err != nil {
		return Set{}, err
	}
	queries, err := readQueries(filepath.Join(dir, queriesFile))
	if err != nil {
		return Set{}, err
	}
	labels, err := readQrels(dir)
	if err != nil {
		return Set{}, err
	}
	s := Set{Documents: documents, Notes: labels.notes(documents, queries)}
	if s.EvalSet, err = labels.evalSet(queries); err != nil {
		return Set{}, err
	}
	if len(s.EvalSet) == 0 {
		return Set{}, fmt.Errorf("%s: no query of %s has a document with a score above 0: there is nothing to measure", labels.path, queriesFile)
	}
	if s.Questions, err = eval.ParseSet(s.EvalSet); err != nil {
		return Set{}, fmt.Errorf("%s and %s as an eval set: %w", queriesFile, labels.path, err)
	}
	return s, nil
}

// Bucket holds the documents as objects.
func (s Set) Bucket(ctx context.Context) (artifact.Bucket, error) {
	b := artifact.NewMemory()
	for _, d := range s.Documents {
		if _, err := b.Put(ctx, d.Key, []byte(d.Text), artifact.Condition{}); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Key names the object of a document: its id with each byte other than letters, digits, '_', '-' and inner dots written as
// =XX, and .txt; longer than maxName, its digest. Different ids have different keys.
func Key(id string) string {
	const hexDigits = "0123456789ABCDEF"
	var name strings.Builder
	for i := range len(id) {
		c := id[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0
		if plain {
			name.WriteByte(c)
		} else {
			name.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	if name.Len() > maxName {
		digest := sha256.Sum256([]byte(id))
		return "=sha256=" + hex.EncodeToString(digest[:]) + ".txt" // no escape starts so
	}
	return name.String() + ".txt"
}

// maxName bounds a name, in bytes: many servers keep objects as files, whose names have at most 255.
const maxName = 200

// lines calls yield with each line that is not blank, and its number from 1.
func lines(path string, yield func(number int, line []byte) error) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: a labelled set is a folder with %s, %s and %s or %s", path, corpusFile, queriesFile, qrelsFiles[0], qrelsFiles[1])
	}
	if err != nil {
		return err
	}
	number := 0
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) {
		number++
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := yield(number, line); err != nil {
			return fmt.Errorf("%s line %d: %w", path, number, err)
		}
	}
	return nil
}

// record is a line of corpus.jsonl or queries.jsonl; other fields, such as metadata, are nobody's here.
type record struct {
	ID    string `json:"_id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// records reads a file of them; every id is there once.
func records(path string) (out []record, err error) {
	first := map[string]int{}
	err = lines(path, func(number int, line []byte) error {
		var r record
		if err := decode(line, &r); err != nil {
			return err
		}
		if r.ID == "" {
			return errors.New(`_id is absent or empty: each line is an object such as {"_id": "7", "text": ".."}`)
		}
		if before, seen := first[r.ID]; seen {
			return fmt.Errorf("_id %q was used on line %d already: each needs one of its own", clip(r.ID), before)
		}
		first[r.ID] = number
		out = append(out, r)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s is empty: each line is an object such as {\"_id\": \"7\", \"text\": \"..\"}", path)
	}
	return out, err
}
