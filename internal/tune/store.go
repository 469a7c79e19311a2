package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = readLines(filepath.Join(dir, measurementsFile), func(line []byte) error {
		var m measured
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		s.measurements[m.Key] = m.Measurement
		return nil
	})
	_, looksErr := s.looks()
	return s, errors.Join(err, looksErr)
}

func (s *Store) looks() (looks []Look, err error) {
	err = readLines(filepath.Join(s.dir, looksFile), func(line []byte) error {
		var l Look
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		looks = append(looks, l)
		return nil
	})
	return looks, err
}

// lock lets one process at a time read or write the files: what is half written looks cut short to another.
func (s *Store) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store of measurements: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("store of measurements: lock: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // which unlocks
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
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.add(measurementsFile, measured{key, recipe, m}); err != nil {
		return err
	}
	s.measurements[key] = m
	return nil
}

// Look records a look at a Gate part, before it happens: one that was cut short was a look all the same. It returns how
// many pairs the part has judged, this one included and those of other processes. The same pair again is no other look.
// Where others were judged and another look is not permitted, the error is ErrGateUsed.
func (s *Store) Look(l Look, another bool) (pairs int, err error) {
	unlock, err := s.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	looks, err := s.looks()
	if err != nil {
		return 0, err
	}
	again := false
	for _, earlier := range looks {
		if earlier.Gate == l.Gate {
			pairs++
			again = again || earlier.Pair == l.Pair
		}
	}
	switch {
	case again:
		return pairs, nil
	case pairs > 0 && !another:
		return pairs, fmt.Errorf("%w: %d times, for other recipes. A part that recipes are chosen on measures nothing: bring new questions, or look again with --again, which multiplies the p-value by the number of looks", ErrGateUsed, pairs)
	}
	return pairs + 1, s.add(looksFile, l)
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
