package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/bm25"
)

// labelledSets and the nDCG@10 that each must reach. Anserini's flat index has 0.679 on scifact.
var labelledSets = []struct {
	name, analyzer string
	least          float64
}{
	{"scifact", "english", 0.679 - 0.005},
	{"miracl-yo", "standard+folded", 0.73},
	{"xquad/hi", "hindi", 0.94},
	{"xquad/zh", "cjk", 0.90},
	{"xquad/th", "thai", 0.95},
}

// quality ranks the labelled sets that are there, one chunk per document.
func (b *bench) quality() error {
	if !b.wants("bm25-quality-") {
		return nil
	}
	for _, set := range labelledSets {
		dir := filepath.Join(b.data, filepath.FromSlash(set.name))
		name := "bm25-quality-" + strings.ReplaceAll(set.name, "/", "-")
		if !b.wants(name) {
			continue
		}
		if _, err := os.Stat(dir); b.data == "" || err != nil {
			b.note("%s is not measured: name the folder with the labelled sets in DATA", name)
			continue
		}
		b.progress("%s with the analyzer %s", name, set.analyzer)
		got, err := rank(dir, set.analyzer)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.least(name, got, set.least, "")
	}
	return nil
}

type record struct {
	ID          string `json:"_id"`
	Title, Text string
}

func readRecords(path string) (out []record, err error) {
	err = readLines(path, func(line []byte) error {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	})
	return out, err
}

func readLines(path string, yield func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if err := yield(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return lines.Err()
}

// readRelevant reads the labels above 0: query, document, grade.
func readRelevant(path string) (map[string]map[string]bool, error) {
	out := map[string]map[string]bool{}
	err := readLines(path, func(line []byte) error {
		f := strings.Split(string(line), "\t")
		if len(f) < 3 {
			return fmt.Errorf("%q has not three columns", line)
		}
		if grade, err := strconv.ParseFloat(f[2], 64); err != nil || grade <= 0 {
			return nil // the heading, or not relevant
		}
		if out[f[0]] == nil {
			out[f[0]] = map[string]bool{}
		}
		out[f[0]][f[1]] = true
		return nil
	})
	return out, err
}

// rank is the mean nDCG@10 with binary gains.
func rank(dir, analyzer string) (float64, error) {
	corpus, err := readRecords(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		return 0, err
	}
	asked, err := readRecords(filepath.Join(dir, "queries.jsonl"))
	if err != nil {
		return 0, err
	}
	relevant, err := readRelevant(filepath.Join(dir, "qrels.tsv"))
	if err != nil {
		return 0, err
	}
	a, err := bm25.NewAnalyzer(analyzer)
	if err != nil {
		return 0, err
	}
	builder := bm25.NewBuilder(a)
	for _, d := range corpus {
		builder.Add(d.Title + " " + d.Text)
	}
	s, err := bm25.Open(builder.Bytes())
	if err != nil {
		return 0, err
	}
	all := roaring.New()
	all.AddRange(0, uint64(len(corpus)))
	sum, n := 0.0, 0.0
	for _, q := range asked {
		labels := relevant[q.ID]
		if len(labels) == 0 {
			continue
		}
		r, err := s.Search(bm25.Query{Text: q.Text, Allow: all, K: top, K1: k1, B: lengthB})
		if err != nil {
			return 0, err
		}
		gain, ideal := 0.0, 0.0
		for i, h := range r.Hits {
			if labels[corpus[h.Chunk].ID] {
				gain += discount(i)
			}
		}
		for i := range min(top, len(labels)) {
			ideal += discount(i)
		}
		sum, n = sum+gain/ideal, n+1
	}
	return sum / n, nil
}

func discount(rank int) float64 { return 1 / math.Log2(float64(rank)+2) }
