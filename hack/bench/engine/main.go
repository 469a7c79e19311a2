// Command engine measures the lexical index: against bleve and a naive scan in the same run, as it grows, when it is
// opened, and how well it ranks labelled sets. Each bar is a line:
//
//	bar <name> <measured> <limit> ok|short
//
// Times are CPU times of one thread, so that other work on the machine does not count, except that of opening a file.
//
// It fails when one is short. Lines that begin with `note` have no limit. Progress goes to the standard error.
//
//	go run . [-bar prefix] [-data ../../../../shared/data] [-rounds 9] [-profile file]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

func main() {
	only := flag.String("bar", "", "measure the bars whose names begin like this")
	data := flag.String("data", "", "folder with the labelled sets; without it quality is not measured")
	rounds := flag.Int("rounds", 9, "rounds of each comparison; the median counts")
	profile := flag.String("profile", "", "write the CPU profile to this file")
	flag.Parse()
	if err := run(*only, *data, *rounds, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run(only, data string, rounds int, profile string) error {
	runtime.LockOSThread() // cpu is the time of one thread
	if rounds < 1 {
		return fmt.Errorf("-rounds = %d: at least 1", rounds)
	}
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	b := &bench{only: only, data: data, rounds: rounds, out: os.Stdout, start: time.Now(), engines: map[int]*engine{}}
	for _, measure := range []func() error{b.quality, b.againstNaiveSmall, b.againstBleve, b.againstNaiveLarge, b.growth, b.cold, b.opening} {
		if err := measure(); err != nil {
			return err
		}
	}
	if b.bars == 0 {
		return fmt.Errorf("-bar = %q: no bar was measured: none begins like this, or its data are missing", only)
	}
	if len(b.short) > 0 {
		return errors.New("short: " + strings.Join(b.short, ", "))
	}
	return nil
}

// bench is one run.
type bench struct {
	only, data string
	rounds     int
	out        io.Writer
	start      time.Time
	engines    map[int]*engine // by documents
	bars       int
	short      []string
}

// wants says whether some bar with this prefix was asked for.
func (b *bench) wants(prefix string) bool {
	return strings.HasPrefix(prefix, b.only) || strings.HasPrefix(b.only, prefix)
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0f s  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}

// least prints a bar that must be reached, most one that must not be passed.
func (b *bench) least(name string, measured, limit float64, unit string) {
	b.bar(name, measured, limit, measured >= limit, ">=", unit)
}

func (b *bench) most(name string, measured, limit float64, unit string) {
	b.bar(name, measured, limit, measured <= limit, "<=", unit)
}

func (b *bench) bar(name string, measured, limit float64, ok bool, relation, unit string) {
	if !strings.HasPrefix(name, b.only) {
		return
	}
	b.bars++
	verdict := "ok"
	if !ok {
		verdict = "short"
		b.short = append(b.short, name)
	}
	fmt.Fprintf(b.out, "bar %s %.4g%s %s%g%s %s\n", name, measured, unit, relation, limit, unit, verdict)
}

func (b *bench) note(format string, args ...any) {
	fmt.Fprintf(b.out, "note "+format+"\n", args...)
}
