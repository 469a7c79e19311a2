package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"quarry.dev/quarry/internal/hnsw"
)

// set is vectors and questions. A label is the cluster that a vector was drawn from.
type set struct {
	base, queries   [][]float32
	labels          []int
	centres         [][]float32
	truth           [][]int32 // nearest first; nil: not known
	metric          hnsw.Metric
	name, spaceName string
}

const (
	dimensions = 384
	perCluster = 100 // vectors of a cluster, on average
	spread     = 0.7 // standard deviation around a centre, whose components have 1
)

// clustered draws n vectors around n/perCluster centres. Every tenth is a near copy of the one before, as chunks that
// overlap are. Questions are drawn alike, without copies.
func clustered(n, questions int) *set {
	rng := rand.New(rand.NewPCG(uint64(n), 2026))
	s := &set{name: fmt.Sprintf("clustered-%d", n), spaceName: "ip", labels: make([]int, n)}
	slab := make([]float32, (n+questions+n/perCluster)*dimensions)
	row := func() []float32 {
		r := slab[:dimensions:dimensions]
		slab = slab[dimensions:]
		return r
	}
	for range n / perCluster {
		s.centres = append(s.centres, draw(rng, row(), nil, 1))
	}
	for i := range n {
		s.labels[i] = rng.IntN(len(s.centres))
		centre, deviation := s.centres[s.labels[i]], spread
		if i%10 == 9 {
			s.labels[i] = s.labels[i-1]
			centre, deviation = s.base[i-1], 0.01
		}
		s.base = append(s.base, draw(rng, row(), centre, deviation))
	}
	for range questions {
		s.queries = append(s.queries, draw(rng, row(), s.centres[rng.IntN(len(s.centres))], spread))
	}
	return s
}

func draw(rng *rand.Rand, row, centre []float32, deviation float64) []float32 {
	for j := range row {
		row[j] = float32(rng.NormFloat64() * deviation)
		if centre != nil {
			row[j] += centre[j]
		}
	}
	return row
}

// glove and mnist are the sets of the data folder.
func (b *bench) glove() (s *set, err error) {
	s = &set{name: "glove", spaceName: "ip", metric: hnsw.Cosine}
	return s, b.read(s, "glove100_base.fvecs", "glove100_query.fvecs", "glove100_gt_cosine.ivecs")
}

func (b *bench) mnist() (s *set, err error) {
	s = &set{name: "mnist", spaceName: "l2", metric: hnsw.L2}
	return s, b.read(s, "mnist784_base.bvecs.gz", "mnist784_query.bvecs", "mnist784_gt_l2.ivecs")
}

func (b *bench) read(s *set, base, queries, truth string) (err error) {
	if s.base, err = readVectors(filepath.Join(b.data, base)); err != nil {
		return err
	}
	if s.queries, err = readVectors(filepath.Join(b.data, queries)); err != nil {
		return err
	}
	rows, err := readVectors(filepath.Join(b.data, truth))
	for _, r := range rows {
		ids := make([]int32, len(r))
		for i, x := range r {
			ids[i] = int32(x)
		}
		s.truth = append(s.truth, ids)
	}
	return err
}

// readVectors reads fvecs, bvecs or ivecs, packed or not. Numbers of an ivecs file are small enough for a float32.
func readVectors(path string) (rows [][]float32, err error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var in io.Reader = bytes.NewReader(file)
	if filepath.Ext(path) == ".gz" {
		if in, err = gzip.NewReader(in); err != nil {
			return nil, err
		}
		path = path[:len(path)-3]
	}
	in = bufio.NewReader(in)
	for {
		var n int32
		if err := binary.Read(in, binary.LittleEndian, &n); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		row := make([]float32, n)
		switch filepath.Ext(path) {
		case ".fvecs":
			err = binary.Read(in, binary.LittleEndian, row)
		case ".ivecs":
			numbers := make([]int32, n)
			err = binary.Read(in, binary.LittleEndian, numbers)
			for i, x := range numbers {
				row[i] = float32(x)
			}
		default:
			numbers := make([]byte, n)
			_, err = io.ReadFull(in, numbers)
			for i, x := range numbers {
				row[i] = float32(x)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: vector %d: %w", path, len(rows), err)
		}
		rows = append(rows, row)
	}
}

// unit returns copies of length 1.
func unit(in [][]float32) [][]float32 {
	out := make([][]float32, len(in))
	for i, v := range in {
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		out[i] = make([]float32, len(v))
		for j, x := range v {
			out[i][j] = float32(float64(x) / math.Sqrt(sum))
		}
	}
	return out
}

// writeRows writes numbers alone.
func writeRows(path string, rows [][]float32) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for _, r := range rows {
		if err := binary.Write(w, binary.LittleEndian, r); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (b *bench) paths(name string) (vectors, graph string) {
	return filepath.Join(b.cache, name+".vectors.seg"), filepath.Join(b.cache, name+".hnsw.seg")
}

// index opens the index of a set, and builds it first where the cache has none. What changes the format or the build asks
// for an empty cache.
func (b *bench) index(s *set) (*hnsw.Index, error) {
	vectorsPath, graphPath := b.paths(s.name)
	if _, err := os.Stat(graphPath); err != nil {
		progress("building %s", s.name)
		p := params
		p.Metric = s.metric
		v, g, err := hnsw.Build(s.base, p)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(vectorsPath, v, 0o644); err != nil {
			return nil, err
		}
		if err := os.WriteFile(graphPath, g, 0o644); err != nil {
			return nil, err
		}
	}
	return openFiles(vectorsPath, graphPath)
}

func openFiles(vectorsPath, graphPath string) (*hnsw.Index, error) {
	v, err := mapped(vectorsPath)
	if err != nil {
		return nil, err
	}
	g, err := mapped(graphPath)
	if err != nil {
		return nil, err
	}
	return hnsw.Open(v, g)
}

// mapped maps a file for as long as the program runs.
func mapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
}
