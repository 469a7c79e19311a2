// Command hnsw measures the vector index: recall, speed beside hnswlib, filters, threads and memory. It prints a line
//
//	bar <name> <measured> <limit> ok|short
//
// for each bar, and curves as CSV below -out. It exits with 1 when a bar is short.
//
// Times are CPU times of one thread, so that other work on the machine does not count, except where a line says wall.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"quarry.dev/quarry/internal/hnsw"
)

// bar is a group of figures that are measured together; their names begin with its name.
type bar struct {
	name    string
	measure func(*bench) error
}

var bars = []bar{
	{"hnsw-recall", (*bench).recall},
	{"hnsw-speed", (*bench).speed},
	{"hnsw-threads", (*bench).threads},
	{"hnsw-cost", (*bench).cost},
	{"hnsw-filter-100k", func(b *bench) error { return b.filters("hnsw-filter-100k", 100_000, 100) }},
	{"hnsw-filter-1m", func(b *bench) error { return b.filters("hnsw-filter-1m", 1_000_000, 40) }},
	{"hnsw-memory", (*bench).memory},
}

// params are those that the bars ask for.
var params = hnsw.Params{M: 16, EfConstruction: 128}

const (
	k  = 10
	ef = 100
)

// bench is one run.
type bench struct {
	cache, data, out string
	short            bool
}

// report prints a bar. The figure must be at least the limit, or at most when below.
func (b *bench) report(name string, measured, limit float64, below bool) {
	word := "ok"
	if (below && measured > limit) || (!below && measured < limit) || measured != measured {
		word, b.short = "short", true
	}
	fmt.Printf("bar %s %.4g %.4g %s\n", name, measured, limit, word)
}

// progress tells what is going on, apart from the figures.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func main() {
	log.SetFlags(0)
	b := &bench{}
	prefix := flag.String("bar", os.Getenv("BAR"), "measure the bars whose names begin so")
	flag.StringVar(&b.cache, "cache", filepath.Join("bin", "bench-hnsw"), "folder for data sets and indexes that take long to make")
	flag.StringVar(&b.data, "data", filepath.Join("..", "shared", "data", "ann"), "folder of GloVe and MNIST")
	flag.StringVar(&b.out, "out", filepath.Join("bin", "bench-hnsw"), "folder for curves")
	child := flag.Bool("serve", false, "answer queries from the cached index; the memory bar starts this")
	flag.Parse()
	if *child {
		if err := serve(b); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		log.Fatal(err)
	}
	measured := 0
	for _, x := range bars {
		// a prefix may name one figure of a group
		if !strings.HasPrefix(x.name, *prefix) && !strings.HasPrefix(*prefix, x.name) {
			continue
		}
		progress("%s", x.name)
		measured++
		if err := x.measure(b); err != nil {
			log.Fatalf("%s: %v", x.name, err)
		}
	}
	if measured == 0 {
		log.Fatalf("-bar = %q: no bar begins so", *prefix)
	}
	if b.short {
		os.Exit(1)
	}
}
