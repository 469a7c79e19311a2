package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/search"
)

// tableSets are those of the bars, in the order of the documentation; heldOut were not looked at when weights were chosen.
var (
	tableSets = []string{"scifact", "product-docs", "ident-stylecop", "code-chunks", "pubmedqa"}
	heldOut   = []string{"xquad/en"}
	columns   = []system{lexical, static, staticRRF, staticHybrid, staticRerank, minilm, minilmRRF, minilmHybrid, minilmRerank}
	// costSet is small enough to be embedded anew each time.
	costSet = "pubmedqa"
	// priced are the systems whose cost is measured.
	priced = []system{lexical, staticHybrid, staticRerank, minilmHybrid, minilmRerank}
)

// document holds what docs/quality.md shows.
type document struct {
	quality map[string]map[system]local.Figure // by set
	weights map[string]map[string][][2]float64 // by model and set: denseWeight, nDCG@10
	costs   map[system]cost
}

// cost of a system on this machine.
type cost struct {
	documentsPerSecond float64 // while indexing
	bytesPerChunk      float64 // of the segment's files
	millis             float64 // of a question, median, one at a time
}

func (m *bench) document(ctx context.Context) (document, error) {
	d := document{quality: map[string]map[system]local.Figure{}, weights: map[string]map[string][][2]float64{}, costs: map[system]cost{}}
	for _, set := range slices.Concat(tableSets, heldOut) {
		d.quality[set] = map[system]local.Figure{}
		for _, s := range columns {
			figure, err := m.measure(ctx, set, s)
			if err != nil {
				return d, fmt.Errorf("%s/%s: %w", set, s, err)
			}
			d.quality[set][s] = figure
		}
		for _, model := range []string{embed.Static256, embed.MiniLM} {
			points, err := m.sweep(ctx, set, model)
			if err != nil {
				return d, fmt.Errorf("%s, %s: %w", set, model, err)
			}
			if d.weights[model] == nil {
				d.weights[model] = map[string][][2]float64{}
			}
			d.weights[model][set] = points
		}
	}
	for _, s := range priced {
		c, err := m.cost(ctx, s)
		if err != nil {
			return d, fmt.Errorf("cost of %s: %w", s, err)
		}
		d.costs[s] = c
	}
	return d, nil
}

// sweep measures the hybrid at every tenth of denseWeight.
func (m *bench) sweep(ctx context.Context, set, model string) (points [][2]float64, err error) {
	stack, err := m.stack(ctx, set, model)
	if err != nil {
		return nil, err
	}
	for tenth := range 11 {
		retrieval := stack.Recipe().Retrieval
		weight := float64(tenth) / 10
		retrieval.Fusion.DenseWeight = strconv.FormatFloat(weight, 'f', 1, 64)
		figure, err := m.vary(ctx, set, stack, local.Hybrid, retrieval)
		if err != nil {
			return nil, err
		}
		points = append(points, [2]float64{weight, figure.Value})
	}
	return points, nil
}

// cost indexes a set from nothing and asks its questions one after another.
func (m *bench) cost(ctx context.Context, s system) (c cost, err error) {
	set, err := m.set(ctx, costSet)
	if err != nil {
		return c, err
	}
	out, err := os.MkdirTemp("", "bench-quality-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(out)
	model, stage, _ := s.how()
	started := time.Now()
	stack, err := open(ctx, set, out, costSet, model)
	if err != nil {
		return c, err
	}
	defer stack.Close()
	c.documentsPerSecond = float64(stack.Report.Documents) / time.Since(started).Seconds()
	bytes, err := size(filepath.Join(out, "segments"))
	if err != nil {
		return c, err
	}
	c.bytesPerChunk = float64(bytes) / float64(stack.Report.Chunks)
	retrieval := stack.Recipe().Retrieval
	switch stage {
	case local.BM25:
		retrieval.Fusion.DenseWeight = "0"
	case local.HybridRerank:
		retrieval.Rerank = local.RerankOf(stack.Recipe())
	}
	if stack, err = stack.With(ctx, retrieval); err != nil {
		return c, err
	}
	c.millis, err = median(ctx, stack, set)
	return c, err
}

// asked bounds how many questions the latency is taken from.
const asked = 200

func median(ctx context.Context, stack *local.Stack, set local.Set) (float64, error) {
	var millis []float64
	for _, q := range set.Questions[:min(asked, len(set.Questions))] {
		started := time.Now()
		if _, err := stack.Search(ctx, access.Identity{User: "bench"}, search.Request{Query: q.Question}); err != nil {
			return 0, err
		}
		millis = append(millis, time.Since(started).Seconds()*1000)
	}
	slices.Sort(millis)
	return millis[len(millis)/2], nil
}

func size(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// mean over the sets of the bars.
func (d document) mean(s system) float64 {
	sum := 0.0
	for _, set := range tableSets {
		sum += d.quality[set][s].Value
	}
	return sum / float64(len(tableSets))
}

// The input of hack/plot.
type (
	chart struct {
		File   string   `json:"file"`
		Title  string   `json:"title"`
		X      axis     `json:"x"`
		Y      axis     `json:"y"`
		Series []series `json:"series"`
	}
	axis struct {
		Label string `json:"label"`
		Scale string `json:"scale,omitempty"`
	}
	series struct {
		Name   string       `json:"name"`
		Points [][2]float64 `json:"points"`
		Labels []string     `json:"labels,omitempty"`
		Line   bool         `json:"line"`
	}
)

func (d document) writeCharts(path string) error {
	var charts []chart
	for _, model := range []string{embed.Static256, embed.MiniLM} {
		c := chart{File: "weight-" + model + ".svg", Title: "Fusion with " + model,
			X: axis{Label: "weight of the vectors"}, Y: axis{Label: "nDCG@10"}}
		for _, set := range slices.Concat(tableSets, heldOut) {
			c.Series = append(c.Series, series{Name: set, Points: d.weights[model][set], Line: true})
		}
		charts = append(charts, c)
	}
	for _, c := range []struct {
		file, label string
		of          func(cost) float64
	}{
		{"cost-query.svg", "milliseconds per question (median)", func(c cost) float64 { return c.millis }},
		{"cost-index.svg", "documents indexed per second", func(c cost) float64 { return c.documentsPerSecond }},
		{"cost-bytes.svg", "bytes per chunk", func(c cost) float64 { return c.bytesPerChunk }},
	} {
		out := chart{File: c.file, Title: "Quality against cost", X: axis{Label: c.label, Scale: "log"},
			Y: axis{Label: "mean nDCG@10 of the five sets"}}
		for _, s := range priced {
			out.Series = append(out.Series, series{Name: string(s), Points: [][2]float64{{c.of(d.costs[s]), d.mean(s)}}})
		}
		charts = append(charts, out)
	}
	data, err := json.MarshalIndent(charts, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// Markers around what writeTables replaces.
const (
	begin = "<!-- tables: written by make quality-docs -->\n"
	end   = "<!-- end of tables -->\n"
)

func (d document) writeTables(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the tables: it needs the lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, slices.Concat(before, []byte(begin), []byte(d.tables()), []byte(end), after), 0o644)
}

func (d document) tables() string {
	var out strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	header, rule := []string{"set"}, []string{"---"}
	for _, s := range columns {
		header, rule = append(header, string(s)), append(rule, "---")
	}
	row(header...)
	row(rule...)
	for _, set := range slices.Concat(tableSets, heldOut) {
		cells := []string{set}
		for _, s := range columns {
			f := d.quality[set][s]
			cells = append(cells, fmt.Sprintf("%.3f (%.3f-%.3f)", f.Value, f.Lower, f.Upper))
		}
		row(cells...)
	}
	fmt.Fprintf(&out, "\nWhat it costs (%s, two cores; median of %d questions asked one after another; the mean is that of the first five sets):\n\n", costSet, asked)
	row("system", "documents indexed per second", "ms per question", "bytes per chunk", "mean nDCG@10")
	row("---", "---", "---", "---", "---")
	for _, s := range priced {
		c := d.costs[s]
		row(string(s), fmt.Sprintf("%.0f", c.documentsPerSecond), fmt.Sprintf("%.2f", c.millis), fmt.Sprintf("%.0f", c.bytesPerChunk), fmt.Sprintf("%.3f", d.mean(s)))
	}
	out.WriteString("\n")
	return out.String()
}
