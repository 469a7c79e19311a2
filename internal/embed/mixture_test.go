package embed

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/testdata"
)

// An index may be built on one kind of CPU and asked on another: with documents of one kernel set, questions of another lose
// at most 0.005 nDCG@10.
func TestQuestionsOfOtherKernels(t *testing.T) {
	set := readSet(t, testdata.Shared(t, "data/product-docs"))
	type vectors struct{ documents, questions [][]float32 }
	of := map[string]vectors{}
	for _, e := range minis(t) {
		if e.Kernels() != "generic" { // which takes minutes
			of[e.Kernels()] = vectors{e.Encode(set.documents), e.Encode(set.questions)}
		}
	}
	for documents, d := range of {
		own := set.ndcg(d.documents, d.questions)
		t.Logf("%s: nDCG@10 %.4f", documents, own)
		for questions, q := range of {
			if got := set.ndcg(d.documents, q.questions); got < own-0.005 {
				t.Errorf("documents by %s, questions by %s: nDCG@10 %.4f, want %.4f - 0.005", documents, questions, got, own)
			}
		}
	}
}

// labelledSet is texts and, per question, the documents that answer it.
type labelledSet struct {
	documents, questions []string
	relevant             []map[int]bool
}

func readSet(t *testing.T, dir string) (s labelledSet) {
	t.Helper()
	number, answers := map[string]int{}, map[string]map[int]bool{}
	read := func(name string, yield func(id, text string)) {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var row struct {
			ID          string `json:"_id"`
			Title, Text string
		}
		for d := json.NewDecoder(file); d.More(); yield(row.ID, strings.TrimSpace(row.Title+" "+row.Text)) {
			row.Title = ""
			if err := d.Decode(&row); err != nil {
				t.Fatal(err)
			}
		}
	}
	read("corpus.jsonl", func(id, text string) {
		number[id] = len(s.documents)
		s.documents = append(s.documents, text)
	})
	file, err := os.Open(filepath.Join(dir, "qrels.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Split(lines.Text(), "\t")
		if d, ok := number[f[1]]; ok && f[2] != "0" {
			if answers[f[0]] == nil {
				answers[f[0]] = map[int]bool{}
			}
			answers[f[0]][d] = true
		}
	}
	read("queries.jsonl", func(id, text string) {
		if answers[id] != nil {
			s.questions, s.relevant = append(s.questions, text), append(s.relevant, answers[id])
		}
	})
	return s
}

// ndcg is the mean nDCG@10 of the cosine's order.
func (s labelledSet) ndcg(documents, questions [][]float32) float64 {
	total := 0.0
	for i, q := range questions {
		order := make([]int, len(documents))
		score := make([]float64, len(documents))
		for d, v := range documents {
			order[d], score[d] = d, cosine(q, v)
		}
		slices.SortFunc(order, func(a, b int) int {
			if score[a] > score[b] || score[a] == score[b] && a < b {
				return -1
			}
			return 1
		})
		gain, ideal := 0.0, 0.0
		for rank, d := range order[:10] {
			discount := 1 / math.Log2(float64(rank)+2)
			if s.relevant[i][d] {
				gain += discount
			}
			if rank < len(s.relevant[i]) {
				ideal += discount
			}
		}
		total += gain / ideal / float64(len(questions))
	}
	return total
}
