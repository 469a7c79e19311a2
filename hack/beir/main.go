// Command beir moves a labelled set into a cluster and compares what both sides measured, for `make beir`. The S3 server
// and its credentials come from S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY.
//
//	beir render DIR RECIPE FOLDER   write the eval set and the manifests of the set into FOLDER, and print the system that
//	                                the recipe is; an empty RECIPE is the default of `quarry local eval --beir`
//	beir put DIR BUCKET/PREFIX      make the objects below the prefix those of the set, one per document
//	beir clear BUCKET/PREFIX        delete every object below the prefix
//	beir compare REPORT TABLE       compare an EvalRun's report with the JSON of `quarry local eval`; fails when they differ
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/local"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "beir:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: beir render DIR RECIPE FOLDER | put DIR BUCKET/PREFIX | clear BUCKET/PREFIX | compare REPORT TABLE")
	}
	switch command, rest := args[0], args[1:]; {
	case command == "render" && len(rest) == 3:
		return render(rest[0], rest[1], rest[2])
	case command == "put" && len(rest) == 2:
		return put(ctx, rest[0], rest[1])
	case command == "clear" && len(rest) == 1:
		return clearPrefix(ctx, rest[0])
	case command == "compare" && len(rest) == 2:
		return compare(rest[0], rest[1])
	}
	return fmt.Errorf("unknown command or wrong number of arguments: %q", args)
}

// compare prints the figures of both sides beside each other, and fails unless every bit of them is equal.
func compare(reportFile, tableFile string) error {
	var report eval.Report
	var table local.Table
	for file, into := range map[string]any{reportFile: &report, tableFile: &table} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(table.Systems) != 1 || len(report.Metrics) == 0 {
		return fmt.Errorf("%d systems and %d metrics: compare one system, and a report that measured something", len(table.Systems), len(report.Metrics))
	}
	differ := 0
	for system, figures := range table.Systems {
		fmt.Printf("   %-12s %-26s %-26s\n", "", "EvalRun", "local eval, "+string(system))
		for _, m := range report.Metrics {
			here, ok := figures[local.Name(m.Metric)]
			there := local.Figure{Value: m.Value, Lower: m.Lower, Upper: m.Upper}
			verdict := "equal"
			if !ok || here != there {
				verdict = "DIFFERENT"
				differ++
			}
			fmt.Printf("   %-12s %-26s %-26s %s\n", local.Name(m.Metric), text(there), text(here), verdict)
		}
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d metrics differ", differ, len(report.Metrics))
	}
	return nil
}

func text(f local.Figure) string { return fmt.Sprintf("%.4f %.4f-%.4f", f.Value, f.Lower, f.Upper) }
