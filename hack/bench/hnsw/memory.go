package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	memoryCount = 1_000_000
	memoryLimit = 900 << 20
)

// served is what a child tells: seconds by the wall clock of each question, in each of some rounds.
type served struct {
	Rounds [][]float64
}

// serve answers questions from the cached index, as a server does: the files mapped, no vectors but those.
func serve(b *bench) error {
	raw, err := os.ReadFile(filepath.Join(b.cache, "memory.queries"))
	if err != nil {
		return err
	}
	var queries [][]float32
	if err := json.Unmarshal(raw, &queries); err != nil {
		return err
	}
	raw = nil
	x, err := openFiles(b.paths(fmt.Sprintf("clustered-%d", memoryCount)))
	if err != nil {
		return err
	}
	all := everything(x.Len())
	var out served
	for round := range 12 {
		var seconds []float64
		for _, q := range queries {
			start := time.Now()
			if _, _, err := x.Search(q, all, k, ef); err != nil {
				return err
			}
			seconds = append(seconds, time.Since(start).Seconds())
		}
		if round >= 2 { // the first rounds read the files
			out.Rounds = append(out.Rounds, seconds)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// group is a control group with a limit of memory.
type group struct{ dir, processes string }

// newGroup makes one under version 2 or 1 of the kernel's control groups; limit 0 is none.
func newGroup(name string, limit int) (*group, error) {
	root, file := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		root, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
	}
	g := &group{dir: filepath.Join(root, fmt.Sprintf("%s-%d", name, os.Getpid()))}
	g.processes = filepath.Join(g.dir, "cgroup.procs")
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("a control group with a memory limit: %w: run this as root", err)
	}
	if limit == 0 {
		return g, nil
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *group) remove() { _ = os.Remove(g.dir) }

// forget drops files from the page cache, so that whoever reads them next is charged for them.
func forget(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// memory serves a million vectors with and without a limit of memory.
func (b *bench) memory() error {
	s := clustered(memoryCount, 300)
	x, err := b.index(s)
	if err != nil {
		return err
	}
	vectorsPath, graphPath := b.paths(s.name)
	for _, path := range []string{vectorsPath, graphPath} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Printf("note %s %.1f bytes per chunk\n", filepath.Ext(path[:len(path)-4])[1:]+".seg", float64(info.Size())/float64(x.Len()))
	}
	raw, err := json.Marshal(s.queries)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.cache, "memory.queries"), raw, 0o644); err != nil {
		return err
	}
	free, err := b.child(0, vectorsPath, graphPath)
	if err != nil {
		return err
	}
	limited, err := b.child(memoryLimit, vectorsPath, graphPath)
	if err != nil {
		return err
	}
	progress("p99 by the wall clock: %.0f us without a limit, %.0f us within %d MiB", 1e6*free, 1e6*limited, memoryLimit>>20)
	b.report("hnsw-memory-p99-vs-unlimited", limited/free, 1.5, true)
	return nil
}

// child returns the p99 of a server: of each question the best round.
func (b *bench) child(limit int, files ...string) (float64, error) {
	g, err := newGroup("quarry-bench", limit)
	if err != nil {
		return 0, err
	}
	defer g.remove()
	if err := forget(files...); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// the shell enters the group before it becomes the server
	command := exec.Command("sh", "-c", `echo $$ > "$0" && exec "$@"`, g.processes, self, "-serve", "-cache", b.cache)
	command.Stderr = os.Stderr
	raw, err := command.Output()
	if err != nil {
		return 0, err
	}
	var out served
	if err := json.Unmarshal(raw, &out); err != nil {
		return 0, err
	}
	seconds := out.Rounds[0]
	for _, round := range out.Rounds[1:] {
		for i, s := range round {
			seconds[i] = min(seconds[i], s)
		}
	}
	return quantile(seconds, 0.99), nil
}
