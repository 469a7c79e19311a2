package bm25

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/testdata"
)

type labelled struct {
	ID          string `json:"_id"`
	Title, Text string
}

func readLines(t *testing.T, path string, yield func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		yield(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func readLabelled(t *testing.T, path string) (out []labelled) {
	readLines(t, path, func(line []byte) {
		var l labelled
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	})
	return out
}

// TestQuality holds the ranking to what public baselines reach on labelled sets: nDCG@10, k1 0.9, b 0.4.
func TestQuality(t *testing.T) {
	for _, tt := range []struct {
		set, analyzer string
		want          float64
	}{
		{"scifact", "english", 0.674},
		{"ident-stylecop", "english", 0.96},
		{"product-docs", "english", 0.693},
		{"code-chunks", "english", 0.687},
		{"pubmedqa", "english", 0.975},
		{"xquad/hi", "standard", 0.94},
		{"xquad/hi", "hindi", 0.95},
		{"xquad/de", "german", 0.94},
		{"xquad/es", "spanish", 0.955},
		{"xquad/ru", "russian", 0.955},
		{"xquad/ar", "arabic", 0.935},
		{"miracl-yo", "standard+folded", 0.73},
		{"xquad/zh", "standard", 0.90},
		{"xquad/th", "standard", 0.95},
	} {
		t.Run(tt.set+"/"+tt.analyzer, func(t *testing.T) {
			t.Parallel()
			got := measure(t, testdata.Shared(t, "data/"+tt.set), tt.analyzer)
			t.Logf("nDCG@10 = %.4f", got)
			if got < tt.want {
				t.Errorf("nDCG@10 = %.4f is below %.3f", got, tt.want)
			}
		})
	}
}

func measure(t *testing.T, dir, analyzer string) float64 {
	corpus := readLabelled(t, filepath.Join(dir, "corpus.jsonl"))
	b := NewBuilder(mustAnalyzer(t, analyzer))
	for _, d := range corpus {
		b.Add(d.Title + " " + d.Text)
	}
	s, err := Open(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	relevant := map[string]map[string]float64{}
	readLines(t, filepath.Join(dir, "qrels.tsv"), func(line []byte) {
		f := strings.Split(string(line), "\t")
		if grade, err := strconv.ParseFloat(f[2], 64); err == nil && grade > 0 {
			if relevant[f[0]] == nil {
				relevant[f[0]] = map[string]float64{}
			}
			relevant[f[0]][f[1]] = grade
		}
	})
	sum, n := 0.0, 0.0
	for _, q := range readLabelled(t, filepath.Join(dir, "queries.jsonl")) {
		if len(relevant[q.ID]) == 0 {
			continue
		}
		r, err := s.Search(Query{Text: q.Text, Allow: every(len(corpus)), K: 10, K1: 0.9, B: 0.4})
		if err != nil {
			t.Fatal(err)
		}
		gain, ideal := 0.0, 0.0
		for i, h := range r.Hits {
			if relevant[q.ID][corpus[h.Chunk].ID] > 0 {
				gain += 1 / math.Log2(float64(i)+2)
			}
		}
		for i := range min(10, len(relevant[q.ID])) {
			ideal += 1 / math.Log2(float64(i)+2)
		}
		sum, n = sum+gain/ideal, n+1
	}
	return sum / n
}
