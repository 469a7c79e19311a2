package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/local"
)

func newLocalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "local", Short: "Build, ask and judge an index of a folder, without a cluster",
		// What can run refuses a misspelt command; what cannot shows its help and succeeds.
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLocalBuildCommand(), newLocalSearchCommand(), newLocalEvalCommand(), newLocalTuneCommand())
	return cmd
}

func newLocalBuildCommand() *cobra.Command {
	var recipe, out string
	cmd := &cobra.Command{
		Use: "build DIR", Short: "Index the documents of a folder", Args: oneFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				out = local.DefaultOut(args[0])
			}
			r, err := recipeOf(cmd, recipe, out)
			if err != nil {
				return err
			}
			if err := buildFolder(cmd, args[0], out, r, cmd.OutOrStdout()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Now ask: quarry local search --out %s \"your question\"\n", out)
			return nil
		},
	}
	cmd.Flags().StringVar(&recipe, "recipe", "", "YAML file with the fields access, indexing and retrieval; without it that of the index in --out, else the defaults, by which everyone reads everything; \"\" for the defaults")
	cmd.Flags().StringVar(&out, "out", "", "folder for the index; DIR.quarry by default")
	return cmd
}

// recipeOf is the recipe in file, and that of the index which is there where no file is named: who indexes a folder again
// must not lift its access rules.
func recipeOf(cmd *cobra.Command, file, out string) (local.Recipe, error) {
	if !cmd.Flags().Changed("recipe") {
		if r, ok := local.BuiltRecipe(out); ok {
			return r, nil
		}
	}
	return local.ReadRecipe(file)
}

func oneFolder(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d folders are named: name one, that of the documents: quarry local build DIR", len(args))
	}
	return nil
}

// buildFolder indexes a folder with progress, and says on w what came of it.
func buildFolder(cmd *cobra.Command, documents, out string, r local.Recipe, w io.Writer) error {
	meter := newMeter(cmd)
	report, err := local.Build(cmd.Context(), documents, out, r, meter.Progress)
	meter.End()
	if err != nil {
		return err
	}
	for _, f := range report.Failures {
		fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s: %s: %s\n", local.Printable(f.Document), f.Reason, local.Printable(f.Message))
	}
	fmt.Fprintf(w, "%d documents (%d failed), %d chunks in %s\n", report.Documents, report.Failed, report.Chunks, out)
	return nil
}

// newMeter shows progress on stderr: on one line of a terminal, or as a line every few seconds.
func newMeter(cmd *cobra.Command) *local.Meter {
	return local.NewMeter(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
}

// isTerminal tells whether w understands control sequences.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	stat, err := f.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}
