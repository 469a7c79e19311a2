package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sys/unix"

	"quarry.dev/quarry/internal/hnsw"
)

// cpuSeconds of the whole process, with its garbage collector.
func cpuSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return float64(t.Nano()) / 1e9
}

// threadSeconds is the CPU time of the calling thread, to which the caller must be locked.
func threadSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return float64(t.Nano()) / 1e9
}

func everything(n int) *roaring.Bitmap {
	all := roaring.New()
	all.AddRange(0, uint64(n))
	return all
}

// recall compares the graph with the truth: that of the data folder, or the exact scan.
func (b *bench) recall() error {
	for _, load := range []func() (*set, error){b.glove, b.mnist, func() (*set, error) { return clustered(100_000, 1000), nil }} {
		s, err := load()
		if err != nil {
			return err
		}
		x, err := b.index(s)
		if err != nil {
			return err
		}
		all, found := everything(x.Len()), 0
		for i, q := range s.queries {
			hits, _, err := x.Walk(q, all, k, ef)
			if err != nil {
				return err
			}
			if s.truth == nil {
				truth, _, err := x.Scan(q, all, k)
				if err != nil {
					return err
				}
				found += common(hits, truth)
				continue
			}
			for _, h := range hits {
				if slices.Contains(s.truth[i][:k], int32(h.Chunk)) {
					found++
				}
			}
		}
		name, _, _ := strings.Cut(s.name, "-")
		b.report("hnsw-recall-"+name, float64(found)/float64(k*len(s.queries)), 0.99, false)
		if s.truth != nil {
			if err := s.walkFiltered(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// walkFiltered prints what walks find of the allowed in real data.
func (s *set) walkFiltered(x *hnsw.Index) error {
	for _, w := range widths {
		line := fmt.Sprintf("note hnsw-recall: %s, k %d, ef %d:", s.name, w.k, w.ef)
		for _, share := range []float64{1, 0.5, 0.2, 0.1} {
			rng, allow, found := rand.New(rand.NewPCG(3, 3)), roaring.New(), 0
			for i := range x.Len() {
				if rng.Float64() < share {
					allow.AddInt(i)
				}
			}
			for _, q := range s.queries[:100] {
				truth, _, err := x.Scan(q, allow, w.k)
				if err != nil {
					return err
				}
				hits, _, err := x.Walk(q, allow, w.k, w.ef)
				if err != nil {
					return err
				}
				found += common(hits, truth)
			}
			line += fmt.Sprintf(" %.3f of a share of %g", float64(found)/float64(100*w.k), share)
		}
		fmt.Println(line)
	}
	return nil
}

// common counts hits that are as good as the worst of the truth.
func common(hits, truth []hnsw.Hit) (n int) {
	for _, h := range hits {
		if h.Score >= truth[len(truth)-1].Score {
			n++
		}
	}
	return n
}

// peer is hnswlib in a process of its own.
type peer struct {
	command *exec.Cmd
	in      *bufio.Writer
	out     *bufio.Reader
}

func (b *bench) startPeer(s *set) (*peer, error) {
	program := filepath.Join(b.cache, "hnswlib")
	out, err := exec.Command("g++", "-O3", "-march=native", "-DNDEBUG", "-std=c++17", "-o", program, filepath.Join("hack", "bench", "hnsw", "peer", "hnswlib.cpp")).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("g++: %w: %s: it needs Debian's g++ and libhnswlib-dev", err, out)
	}
	base, queries := s.base, s.queries
	if s.spaceName == "ip" {
		base, queries = unit(base), unit(queries)
	}
	basePath, queryPath := filepath.Join(b.cache, s.name+".base"), filepath.Join(b.cache, s.name+".queries")
	if err := writeRows(basePath, base); err != nil {
		return nil, err
	}
	if err := writeRows(queryPath, queries); err != nil {
		return nil, err
	}
	p := &peer{command: exec.Command(program)}
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	reader, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = bufio.NewWriter(in), bufio.NewReaderSize(reader, 1<<20)
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	_, err = p.ask("open %s %d %d %s %d %s", basePath, len(base), len(base[0]), queryPath, len(queries), s.spaceName)
	return p, err
}

func (p *peer) ask(format string, args ...any) ([]string, error) {
	fmt.Fprintf(p.in, format+"\n", args...)
	if err := p.in.Flush(); err != nil {
		return nil, err
	}
	line, err := p.out.ReadString('\n')
	return strings.Fields(line), err
}

func (p *peer) seconds(format string, args ...any) (seconds float64, labels []string, err error) {
	answer, err := p.ask(format, args...)
	if err != nil {
		return 0, nil, err
	}
	seconds, err = strconv.ParseFloat(answer[0], 64)
	return seconds, answer[1:], err
}

func (p *peer) close() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// speed builds with one thread and asks the same questions, in turns with hnswlib.
func (b *bench) speed() error {
	s := clustered(100_000, 1000)
	p, err := b.startPeer(s)
	if err != nil {
		return err
	}
	defer p.close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	start := cpuSeconds()
	v, g, err := hnsw.Build(s.base, params)
	if err != nil {
		return err
	}
	ours := cpuSeconds() - start
	theirs, _, err := p.seconds("build %d %d", params.M, params.EfConstruction)
	if err != nil {
		return err
	}
	progress("one-thread build of 100,000: %.1f s, hnswlib %.1f s", ours, theirs)
	b.report("hnsw-speed-build-vs-hnswlib", ours/theirs, 1, true)
	x, err := hnsw.Open(v, g)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ratios []float64
	all := everything(x.Len())
	for range 9 {
		start := threadSeconds()
		for _, q := range s.queries {
			if _, _, err := x.Search(q, all, k, ef); err != nil {
				return err
			}
		}
		ours := threadSeconds() - start
		theirs, labels, err := p.seconds("search %d %d", ef, k)
		if err != nil {
			return err
		}
		ratios = append(ratios, ours/theirs)
		progress("query: %.1f us, hnswlib %.1f us (recall %.4f)", 1e6*ours/float64(len(s.queries)), 1e6*theirs/float64(len(s.queries)), peerRecall(x, s, labels))
	}
	slices.Sort(ratios)
	b.report("hnsw-speed-query-vs-hnswlib", ratios[len(ratios)/2], 1, true)
	return nil
}

// peerRecall counts the labels that are among the exact best, on the first hundred questions.
func peerRecall(x *hnsw.Index, s *set, labels []string) float64 {
	found, all := 0, everything(x.Len())
	for i, q := range s.queries[:100] {
		truth, _, _ := x.Scan(q, all, k)
		for _, l := range labels[i*k:][:k] {
			n, _ := strconv.Atoi(l)
			if slices.ContainsFunc(truth, func(h hnsw.Hit) bool { return int(h.Chunk) == n }) {
				found++
			}
		}
	}
	return float64(found) / (100 * k)
}

// threads compares builds on one and two threads by the wall clock, in turns, and their bytes.
func (b *bench) threads() error {
	s := clustered(40_000, 1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var walls [3]float64 // the best of each
	var files [3][]byte
	for range 3 {
		for n := 1; n <= 2; n++ {
			runtime.GOMAXPROCS(n)
			runtime.GC()
			start, cpu := time.Now(), cpuSeconds()
			_, g, err := hnsw.Build(s.base, params)
			if err != nil {
				return err
			}
			wall := time.Since(start).Seconds()
			progress("build of 40,000 with %d threads: %.2f s wall, %.2f s CPU", n, wall, cpuSeconds()-cpu)
			if files[n] = g; walls[n] == 0 || wall < walls[n] {
				walls[n] = wall
			}
		}
	}
	if !bytes.Equal(files[1], files[2]) {
		return fmt.Errorf("two threads built other bytes than one")
	}
	b.report("hnsw-threads-speedup-wall", walls[1]/walls[2], 1.7, false)
	return nil
}
