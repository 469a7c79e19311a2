package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/local"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRender(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	write(t, dir+"/corpus.jsonl", `{"_id":"1","text":"Sixteen weeks."}`)
	write(t, dir+"/queries.jsonl", `{"_id":"q","text":"how long"}`)
	write(t, dir+"/qrels.tsv", "q\t1\t1\n")
	recipe := write(t, dir+"/recipe.yaml", "indexing: {embedding: {model: static-256}}\nretrieval: {candidates: 50, rerank: {type: Builtin}}")
	if err := render(dir, recipe, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "quarry.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	var corpus v1alpha1.Corpus
	var pipeline v1alpha1.RetrievalPipeline
	if len(documents) != 2 || yaml.UnmarshalStrict([]byte(documents[0]), &corpus) != nil || yaml.UnmarshalStrict([]byte(documents[1]), &pipeline) != nil {
		t.Fatalf("not two manifests:\n%s", text)
	}
	retrieval, indexing := pipeline.Spec.Retrieval, pipeline.Spec.Indexing
	if retrieval.TopK != 100 || retrieval.Candidates != 100 || retrieval.Rerank.Type != v1alpha1.RerankBuiltin || indexing.Chunking.Strategy != v1alpha1.ChunkWhole ||
		indexing.Embedding.Model != "static-256" || corpus.Spec.Access.Default != v1alpha1.AccessEveryone || len(pipeline.Spec.Promotion.Gate.Metrics) != len(local.Metrics()) {
		t.Errorf("%+v %+v %+v", corpus.Spec, indexing, retrieval)
	}
	if set, err := os.ReadFile(filepath.Join(out, evalSetFile)); err != nil || !strings.Contains(string(set), `"evidence":[[{"document":"1.txt"}]]`) {
		t.Errorf("%s, %v", set, err)
	}
	if err := render(dir, write(t, dir+"/wrong.yaml", "promotion: {}"), out); err == nil || !strings.Contains(err.Error(), "promotion") {
		t.Errorf("an unknown field gives %v", err)
	}
}

func TestCompare(t *testing.T) {
	tenth := 0.1
	sum := tenth + 0.2 // not 0.3
	dir := t.TempDir()
	report := eval.Report{Metrics: []eval.MetricReport{{Metric: eval.Metric{Name: eval.NDCG, K: 10}, Value: sum, Lower: 0.25, Upper: 0.35}}}
	table := func(value float64, name string) local.Table {
		return local.Table{Systems: map[local.System]map[string]local.Figure{local.Hybrid: {name: {Value: value, Lower: 0.25, Upper: 0.35}}}}
	}
	file := func(name string, value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, filepath.Join(dir, name), string(text))
	}
	if err := compare(file("report", report), file("table", table(sum, "ndcg@10"))); err != nil {
		t.Errorf("equal figures: %v", err)
	}
	for name, other := range map[string]local.Table{"last bit": table(0.3, "ndcg@10"), "another metric": table(sum, "mrr"), "nothing": {}} {
		if err := compare(file("report", report), file("table", other)); err == nil {
			t.Errorf("%s: no difference was seen", name)
		}
	}
}
