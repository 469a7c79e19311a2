package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Names of the files of a Store.
const (
	measurementsFile = "measurements.jsonl"
	looksFile        = "gate.jsonl"
)

// Measurement is what one recipe did on one part of the set.
type Measurement struct {
	Documents int64 `json:"documents"`
	Chunks    int64 `json:"chunks"`
	// Stale questions were left out: nothing of their evidence is there, or their asker may not read it.
	Stale int `json:"stale,omitempty"`
	// Characters is the mean length of the first ten passages together: what a language model would have to read.
	Characters float64 `json:"characters"`
	// IndexSeconds and AskSeconds are what it took; parts that were cached count as nothing.
	IndexSeconds float64 `json:"indexSeconds"`
	AskSeconds   float64 `json:"askSeconds"`
	// Values hold, per metric by its short name, one value from 0 to 1 for each question in the order of the set.
	Values map[string][]float64 `json:"values"`
}

// Store remembers measurements and looks at Gate parts, as JSON lines in a folder. A line that a kill cut short is
// ignored, and measured again.
type Store struct {
	dir          string
	measurements map[string]Measurement
	looks        []Look
}

// Look says that a Gate part judged a winner against a baseline.
type Look struct {
	// Gate is the digest of the questions; Pair names both recipes and the corpus.
	Gate string    `json:"gate"`
	Pair string    `json:"pair"`
	At   time.Time `json:"at"`
}

type measured struct {
	Key         string      `json:"key"`
	Recipe      string      `json:"recipe"`
	Measurement Measurement `json:"measurement"`
}

// OpenStore reads what is in the folder, which need not be there.
func OpenStore(dir string) (*Store, error) {
	s := &Store{dir: dir, measurements: map[string]Measurement{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("store of measurements: %w", err)
	}
	err := readLines(filepath.Join(dir, measurementsFile), func(line []byte) error {
		var m measured
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		s.measurements[m.Key] = m.Measurement
		return nil
	})
	return s, errors.Join(err, readLines(filepath.Join(dir, looksFile), func(line []byte) error {
		var l Look
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		s.looks = append(s.looks, l)
		return nil
	}))
}

// readLines passes each whole line on. What follows the last newline was cut short.
func readLines(path string, use func([]byte) error) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end < len(data) {
		if err := os.Truncate(path, int64(end)); err != nil {
			return err
		}
	}
	number := 0
	for line := range bytes.Lines(data[:end]) {
		number++
		if err := use(line); err != nil {
			return fmt.Errorf("%s, line %d: %w: delete the file to measure anew", path, number, err)
		}
	}
	return nil
}

// Get returns a measurement that was put under the key.
func (s *Store) Get(key string) (Measurement, bool) {
	m, ok := s.measurements[key]
	return m, ok
}

// Put adds a measurement; it is on disk when Put returns. recipe is for people who read the file.
func (s *Store) Put(key, recipe string, m Measurement) error {
	if err := s.add(measurementsFile, measured{key, recipe, m}); err != nil {
		return err
	}
	s.measurements[key] = m
	return nil
}

// Looks counts the pairs that a Gate part has judged, and tells whether the given one is among them.
func (s *Store) Looks(gate, pair string) (pairs int, again bool) {
	for _, l := range s.looks {
		if l.Gate == gate {
			pairs++
			again = again || l.Pair == pair
		}
	}
	return pairs, again
}

// Look records a look, before it happens: one that was cut short was a look all the same.
func (s *Store) Look(l Look) error {
	if err := s.add(looksFile, l); err != nil {
		return err
	}
	s.looks = append(s.looks, l)
	return nil
}

// add appends a line and waits until it is on disk.
func (s *Store) add(name string, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("store of measurements: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
