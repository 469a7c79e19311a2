// Command quality measures how well the product ranks on labelled sets, and what that costs. Without flags it measures
// every bar and prints a line for each:
//
//	bar <set>/<system> <measured> <limit> ok|short
//
// It fails when one is short. With -docs it writes the tables of docs/quality.md and the input of its charts as well.
//
//	go run ./hack/bench/quality -data ../shared/data [-bar scifact/] [-docs docs/quality.md -charts charts.json]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	data := flag.String("data", "", "folder with the labelled sets")
	cache := flag.String("cache", "", "folder that keeps the indexes; the user's cache by default")
	only := flag.String("bar", "", "measure the bars whose names begin like this")
	docs := flag.String("docs", "", "Markdown file whose tables are written anew")
	charts := flag.String("charts", "", "file for the input of the charts")
	flag.Parse()
	if err := run(ctx, *data, *cache, *only, *docs, *charts); err != nil {
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, data, cache, only, docs, charts string) error {
	if data == "" {
		return errors.New("-data is missing: name the folder with the labelled sets")
	}
	m := &bench{data: data, cache: cache}
	bars, err := m.bars(ctx, only)
	if err != nil || docs == "" && charts == "" {
		return errors.Join(err, bars)
	}
	written, err := m.document(ctx)
	if err != nil {
		return err
	}
	if charts != "" {
		if err := written.writeCharts(charts); err != nil {
			return err
		}
	}
	if docs != "" {
		if err := written.writeTables(docs); err != nil {
			return err
		}
	}
	return bars
}

// bars prints a line for each; short tells of those that were not reached, err that something could not be measured.
func (m *bench) bars(ctx context.Context, only string) (short, err error) {
	var missed []string
	chosen := 0
	for _, b := range bars {
		if !strings.HasPrefix(b.name(), only) {
			continue
		}
		chosen++
		figure, err := m.measure(ctx, b.set, b.system)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name(), err)
		}
		verdict := "ok"
		if figure.Value < b.limit {
			verdict = "short"
			missed = append(missed, b.name())
		}
		fmt.Printf("bar %s %.4f %.3f %s\n", b.name(), figure.Value, b.limit, verdict)
	}
	if chosen == 0 {
		return nil, fmt.Errorf("no bar begins with %q: they are <set>/<system>, for instance %s", only, bars[0].name())
	}
	if len(missed) > 0 {
		return fmt.Errorf("short: %s", strings.Join(missed, ", ")), nil
	}
	return nil, nil
}

// out is where the indexes of a set lie.
func (m *bench) out(set string) (string, error) {
	root := m.cache
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder for the indexes: %w: name one with -cache", err)
		}
		root = filepath.Join(user, "quarry", "bench-quality")
	}
	return filepath.Join(root, strings.ReplaceAll(set, "/", "-")), nil
}
