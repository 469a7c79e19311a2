package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	_ "embed"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/beir"
	"quarry.dev/quarry/internal/local"
)

//go:embed quarry.yaml
var manifests string

const (
	// evalSetFile is what the ConfigMap's key, the file and the end of the object's key are called.
	evalSetFile = "eval.jsonl"
	// maxConfigMap leaves room for the rest of an object: all of it may have 1 MiB.
	maxConfigMap = 900_000
	// depth is the most passages that a search returns.
	depth = 100
)

// facts fill in the manifests; all but EvalSet are JSON, which YAML takes as it is.
type facts struct{ Indexing, Retrieval, Metrics, Access, EvalSet string }

// render writes eval.jsonl and quarry.yaml into the folder.
func render(dir, recipe, folder string) error {
	r, err := local.ReadBEIRRecipe(recipe)
	if err != nil {
		return err
	}
	set, err := beir.Read(dir)
	if err != nil {
		return err
	}
	for _, note := range set.Notes {
		fmt.Fprintln(os.Stderr, "note:", note)
	}
	f := facts{EvalSet: fmt.Sprintf("configMap: {name: questions, key: %s}", evalSetFile)}
	if len(set.EvalSet) > maxConfigMap {
		f.EvalSet = "object: evals/sets/" + evalSetFile
	}
	system := local.Hybrid
	if r.Retrieval.Rerank.Type != "" && r.Retrieval.Rerank.Type != v1alpha1.RerankNone {
		system = local.HybridRerank
	}
	// A search must return as many passages as the deepest metric counts. As many candidates are asked for here as there.
	r.Retrieval.TopK = depth
	r.Retrieval.Candidates = max(cmp.Or(r.Retrieval.Candidates, depth), depth)
	for into, value := range map[*string]any{&f.Indexing: r.Indexing, &f.Retrieval: r.Retrieval, &f.Metrics: gateMetrics(), &f.Access: r.Access} {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		*into = string(text)
	}
	if err := os.WriteFile(filepath.Join(folder, evalSetFile), set.EvalSet, 0o600); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(folder, "quarry.yaml"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // Execute has reported what could not be written
	if err := template.Must(template.New("quarry.yaml").Parse(manifests)).Execute(out, f); err != nil {
		return err
	}
	fmt.Println(system)
	return nil
}

// gateMetrics are the metrics of the table; nothing is demanded of them.
func gateMetrics() (metrics []v1alpha1.GateMetric) {
	for _, m := range local.Metrics() {
		metrics = append(metrics, v1alpha1.GateMetric{Name: v1alpha1.MetricName(m.Name), K: int32(m.K), Minimum: "0"})
	}
	return metrics
}
