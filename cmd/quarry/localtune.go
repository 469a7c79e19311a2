package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/tune"
	"quarry.dev/quarry/internal/tune/bench"
)

// tuneOptions are the flags of local tune.
type tuneOptions struct {
	evalOptions
	grid, metric, write string
	tolerance           float64
	budget              time.Duration
	most                int
	again, devOnly      bool
}

func newLocalTuneCommand() *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use: "tune [DIR]", Short: "Find the recipe that answers labelled questions best, and say whether it is really better", Args: cobra.MaximumNArgs(1),
		Example: "  quarry local tune handbook --set questions.jsonl --budget 30m\n  quarry local tune --beir scifact --metric recall@10",
		RunE:    o.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.beir, "beir", "", "folder with corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv")
	flags.StringVar(&o.set, "set", "", "eval set of Quarry about the documents in DIR, one question per line")
	flags.StringVar(&o.recipe, "recipe", "", "the current recipe, which all others are compared with; without it that of the index in --out, or the defaults")
	flags.StringVar(&o.out, "out", "", "folder for indexes and measurements; DIR.quarry for --set, in the user's cache for --beir")
	flags.StringVar(&o.grid, "grid", "", "YAML file with alternatives: lists chunking, context, models, fusion, bm25 and rerank; a list that is left out has the defaults, an empty one is not varied")
	flags.StringVar(&o.metric, "metric", "ndcg@10", "what to improve: ndcg@10, mrr, or recall at 1, 5, 10, 20 or 100")
	flags.Float64Var(&o.tolerance, "tolerance", 0.01, "how far a cheaper recipe may be behind the best one, from 0 to 1")
	flags.DurationVar(&o.budget, "budget", 0, "begin no further trial after this time, such as 30m; started again, it goes on")
	flags.IntVar(&o.most, "max", 0, "make at most so many trials; 0 for all")
	flags.BoolVar(&o.again, "again", false, "look at the Gate part although it has judged other recipes; the p-value is multiplied by the number of looks")
	flags.BoolVar(&o.devOnly, "dev-only", false, "do not look at the Gate part yet, for a search that will go on")
	flags.StringVar(&o.write, "write", "", "file for the recipe to apply")
	flags.BoolVar(&o.asJSON, "json", false, "print everything as JSON")
	return cmd
}

func (o *tuneOptions) run(cmd *cobra.Command, args []string) error {
	in, b, notes, err := o.prepare(cmd, args)
	if err != nil {
		return err
	}
	defer b.Close()
	meter := newMeter(cmd)
	b.Progress = meter.Progress
	in.Progress = func(p tune.Progress) {
		meter.End()
		fmt.Fprintln(cmd.ErrOrStderr(), p.Line(in.Metric))
	}
	result, err := tune.Run(cmd.Context(), in)
	meter.End()
	if err != nil {
		return err
	}
	report, err := result.Report(in, len(b.Parts.Gate), notes)
	if err != nil {
		return err
	}
	return o.show(cmd, report)
}

// prepare reads the set, the recipe and the grid, and opens the store.
func (o *tuneOptions) prepare(cmd *cobra.Command, args []string) (in tune.Input, b *bench.Bench, notes []string, err error) {
	if !(o.tolerance >= 0 && o.tolerance <= 1) || o.most < 0 || o.budget < 0 {
		return in, nil, nil, fmt.Errorf("--tolerance is %v, --max %d, --budget %v: use 0 to 1, and nothing below 0", o.tolerance, o.most, o.budget)
	}
	if in.Metric, err = bench.ParseMetric(o.metric); err != nil {
		return in, nil, nil, fmt.Errorf("--metric: %w", err)
	}
	set, recipe, err := o.read(cmd, args)
	if err != nil {
		return in, nil, nil, err
	}
	parts, err := bench.Divide(set.Questions)
	if err != nil {
		return in, nil, nil, err
	}
	notes = set.Notes
	if parts.Hashed {
		notes = append(notes, fmt.Sprintf("the set names no parts: by a hash of their ids, %d questions are Dev and %d are Gate", len(parts.Dev), len(parts.Gate)))
	}
	if in.Plan.Grid, err = o.readGrid(!parts.Quotes()); err != nil {
		return in, nil, nil, err
	}
	in.Plan.Baseline = tune.Recipe{Indexing: recipe.Indexing, Retrieval: recipe.Retrieval}
	b = &bench.Bench{Set: set, Parts: parts, Access: recipe.Access, Out: o.out, Log: local.Warnings(cmd.ErrOrStderr())}
	if in.Subject, err = b.Subject(cmd.Context()); err != nil {
		return in, nil, nil, err
	}
	in.DevSet, in.GateSet = parts.Digests()
	in.Measurer, in.Tolerance, in.Max, in.Budget, in.Now = b, o.tolerance, o.most, o.budget, time.Now
	in.Again, in.DevOnly = o.again, o.devOnly
	in.Store, err = tune.OpenStore(filepath.Join(o.out, "tune"))
	return in, b, notes, err
}

func (o *tuneOptions) readGrid(whole bool) (tune.Grid, error) {
	models := bench.Models()
	fallback := tune.DefaultGrid(whole, models)
	if o.grid == "" {
		return fallback, nil
	}
	data, err := os.ReadFile(o.grid)
	if err != nil {
		return fallback, fmt.Errorf("read the grid: %w", err)
	}
	grid, err := tune.ReadGrid(data, fallback, models)
	if err != nil {
		return grid, fmt.Errorf("grid %s: %w", o.grid, err)
	}
	return grid, nil
}

// show prints the report. A winner that the Gate part may not confirm is an error, after all that is known.
func (o *tuneOptions) show(cmd *cobra.Command, report tune.Report) error {
	var err error
	if o.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	} else {
		_, err = fmt.Fprint(cmd.OutOrStdout(), report.Text())
	}
	if report.Refused != "" {
		return errors.Join(err, errors.New(report.Refused))
	}
	if o.write != "" {
		err = errors.Join(err, os.WriteFile(o.write, []byte(report.YAML), 0o600))
	}
	return err
}
