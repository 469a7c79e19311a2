package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/local"
	"quarry.dev/quarry/internal/search"
)

func newLocalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "local", Short: "Build, ask and judge an index of a folder, without a cluster"}
	cmd.AddCommand(newLocalBuildCommand(), newLocalSearchCommand(), newLocalEvalCommand())
	return cmd
}

func newLocalBuildCommand() *cobra.Command {
	var recipe, out string
	cmd := &cobra.Command{
		Use: "build DIR", Short: "Index the documents of a folder", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := local.ReadRecipe(recipe)
			if err != nil {
				return err
			}
			if out == "" {
				out = local.DefaultOut(args[0])
			}
			report, err := local.Build(cmd.Context(), args[0], out, r, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			for _, f := range report.Failures {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %s\n", f.Document, f.Reason, f.Message)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d documents (%d failed), %d chunks in %s\nNow ask: quarry local search --out %s \"your question\"\n",
				report.Documents, report.Failed, report.Chunks, out, out)
			return nil
		},
	}
	cmd.Flags().StringVar(&recipe, "recipe", "", "YAML file with the fields access, indexing and retrieval; without it the defaults hold and everyone reads everything")
	cmd.Flags().StringVar(&out, "out", "", "folder for the index; DIR.quarry by default")
	return cmd
}

// withStack opens the index in out for run.
func withStack(cmd *cobra.Command, out string, run func(context.Context, *local.Stack) error) error {
	if out == "" {
		found, err := filepath.Glob("*.quarry")
		if err != nil || len(found) != 1 {
			return fmt.Errorf("--out is empty and there are %d folders *.quarry here: name the folder that quarry local build wrote", len(found))
		}
		out = found[0]
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := local.Open(cmd.Context(), out, log)
	if err != nil {
		return err
	}
	defer s.Close()
	return run(cmd.Context(), s)
}

func newLocalSearchCommand() *cobra.Command {
	var out, as string
	var topK int
	var explain, asJSON bool
	cmd := &cobra.Command{
		Use: "search QUESTION", Short: "Ask an index that local build made", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := local.ParseAs(as)
			if err != nil {
				return err
			}
			request := search.Request{Query: args[0]}
			if cmd.Flags().Changed("top-k") {
				request.TopK = &topK
			}
			if explain {
				request.Explain = "Ranks"
			}
			return withStack(cmd, out, func(ctx context.Context, s *local.Stack) error {
				response, err := s.Search(ctx, id, request)
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(response)
				}
				printHits(cmd.OutOrStdout(), response)
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "folder that local build wrote; the only *.quarry here by default")
	flags.StringVar(&as, "as", "user:local", "who asks: one user and any groups, such as user:ann,group:hr")
	flags.IntVar(&topK, "top-k", 0, "number of passages; the recipe's by default")
	flags.BoolVar(&explain, "explain", false, "show ranks and scores of each stage")
	flags.BoolVar(&asJSON, "json", false, "print the answer of the API")
	return cmd
}

func printHits(w io.Writer, response *search.Response) {
	if len(response.Hits) == 0 {
		fmt.Fprintln(w, "Nothing found that this reader may see.")
	}
	for i, h := range response.Hits {
		fmt.Fprintf(w, "%d. %s", i+1, h.Document)
		if len(h.Headings) > 0 {
			fmt.Fprintf(w, " (%s)", strings.Join(h.Headings, " > "))
		}
		fmt.Fprintf(w, "  %.3f\n", h.Score)
		if h.Ranks != nil {
			fmt.Fprintf(w, "   bm25 rank %d score %.3f, hnsw rank %d cosine %.3f\n", h.Ranks.BM25, h.Scores.BM25, h.Ranks.HNSW, h.Scores.HNSW)
		}
		fmt.Fprintf(w, "   %s\n", strings.ReplaceAll(strings.TrimSpace(h.Text), "\n", "\n   "))
	}
}

func newLocalEvalCommand() *cobra.Command {
	var out, set string
	var k int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "eval DIR", Short: "Ask every question of an eval set, and show how well the index answers and whether it leaks", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			questions, err := os.ReadFile(set)
			if err != nil {
				return fmt.Errorf("read the eval set: %w", err)
			}
			if out == "" {
				out = local.DefaultOut(args[0])
			}
			return withStack(cmd, out, func(ctx context.Context, s *local.Stack) error {
				report, err := s.Eval(ctx, args[0], questions, k, nil)
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
				}
				fmt.Fprint(cmd.OutOrStdout(), report.Text())
				if report.Invalid != "" {
					return fmt.Errorf("the figures above measure nothing: %s", report.Invalid)
				}
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "folder that local build wrote; DIR.quarry by default")
	flags.StringVar(&set, "set", "", "file with the questions, one JSON object per line")
	flags.IntVar(&k, "k", 10, "depth to measure at")
	flags.BoolVar(&asJSON, "json", false, "print the whole report")
	return cmd
}
