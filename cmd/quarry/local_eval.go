package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/local"
)

// evalOptions are the flags of local eval.
type evalOptions struct {
	beir, set, recipe, out string
	systems                []string
	asJSON                 bool
}

func newLocalEvalCommand() *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use: "eval [DIR]", Short: "Measure how well each stage answers labelled questions, and whether anything leaks", Args: cobra.MaximumNArgs(1),
		Example: "  quarry local eval --beir scifact\n  quarry local eval handbook --set questions.jsonl --recipe recipe.yaml",
		RunE:    o.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.beir, "beir", "", "folder with corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv")
	flags.StringVar(&o.set, "set", "", "eval set of Quarry about the documents in DIR, one question per line")
	flags.StringVar(&o.recipe, "recipe", "", "YAML file with the fields access, indexing and retrieval; without it the defaults hold, for --beir with whole documents as chunks")
	flags.StringVar(&o.out, "out", "", "folder for the index; DIR.quarry for --set, in the user's cache for --beir")
	flags.StringSliceVar(&o.systems, "systems", nil, "measure these alone, of bm25, hnsw, hybrid and hybrid+rerank")
	flags.BoolVar(&o.asJSON, "json", false, "print the table as JSON")
	return cmd
}

func (o *evalOptions) run(cmd *cobra.Command, args []string) error {
	set, recipe, err := o.read(cmd, args)
	if err != nil {
		return err
	}
	var systems []local.System
	for _, s := range o.systems {
		systems = append(systems, local.System(s))
	}
	meter := newMeter(cmd)
	table, err := local.Compare(cmd.Context(), set, o.out, recipe, meter.Progress, local.Warnings(cmd.ErrOrStderr()), systems...)
	meter.End()
	if err != nil {
		return err
	}
	if o.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(table)
	} else {
		_, err = fmt.Fprint(cmd.OutOrStdout(), table.Text())
	}
	if table.Invalid() != "" {
		err = errors.Join(err, fmt.Errorf("the figures above measure nothing: %s", table.Invalid()))
	}
	if l := table.Leaks; l != nil && l.Hits > 0 {
		err = errors.Join(err, fmt.Errorf("%d hits were shown to readers who may not see them: a gate promotes no such index", l.Hits))
	}
	return err
}

// read reads the questions and the recipe that goes with them, and fills in where the index lies.
func (o *evalOptions) read(cmd *cobra.Command, args []string) (set local.Set, r local.Recipe, err error) {
	switch {
	case o.beir != "" && o.set == "" && len(args) == 0:
		if r, err = local.ReadBEIRRecipe(o.recipe); err != nil {
			return set, r, err
		}
		if o.out == "" {
			if o.out, err = local.Cache(o.beir); err != nil {
				return set, r, err
			}
		}
		set, err = local.ReadBEIR(cmd.Context(), o.beir)
		return set, r, err
	case o.beir == "" && o.set != "" && len(args) == 1:
		if o.out == "" {
			o.out = local.DefaultOut(args[0])
		}
		if r, err = recipeOf(cmd, o.recipe, o.out); err != nil {
			return set, r, err
		}
		set, err = local.ReadSet(args[0], o.set)
		return set, r, err
	}
	return set, r, errors.New("give either --beir FOLDER, or the folder of the documents and --set FILE")
}
