// Package transformer runs BERT-like sentence encoders with int8 weights: tokens in, a state per token out.
//
// Linear layers multiply unsigned 8-bit activations, quantised per row as they come (x = minimum + step*q), by signed 8-bit
// weights with a step per column; all else is float32. A sequence's states depend on the sequence and the kernel set alone:
// not on how many threads there are, nor on what else is encoded with it.
package transformer

import (
	"fmt"
	"sync"
	"unsafe"

	"quarry.dev/quarry/internal/embed/kernel"
	"quarry.dev/quarry/internal/embed/safetensors"
)

// The shape of the models that this package runs, which their weights' layout has in it.
const (
	Hidden  = 384 // numbers of a state
	heads   = 12
	headDim = 32
	inner   = 1536 // width between the two layers of the feed-forward part
)

// cacheLine is what arrays are aligned to: vector loads that straddle lines cost 2 to 4 % of the time.
const cacheLine = 64

type layer struct {
	attention, output, up, down kernel.Linear // attention: queries, keys and values beside each other
	attentionNorm, outputNorm   []float32     // [2][Hidden]: gain, bias
}

// Model is read-only weights, and scratch memory for so many threads. It is safe for concurrent use.
type Model struct {
	kernels   *kernel.Set
	words     []int8    // [vocabulary][Hidden]
	wordSteps []float32 // [vocabulary]
	positions []float32 // [MaxTokens][Hidden], the embedding of the only token type added
	norm      []float32 // [2][Hidden]
	layers    []layer
	threads   chan *scratch
}

// New reads a model file and takes its arrays in place, so that processes which map the same file share them. Where the file
// begins off a cache line, it copies all but the word embeddings, half of it.
func New(file []byte, kernels *kernel.Set, threads int) (*Model, error) {
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, err
	}
	m := &Model{kernels: kernels, threads: make(chan *scratch, threads)}
	for range threads {
		m.threads <- new(scratch)
	}
	r := reader{file: f}
	m.words = r.int8s("word.q", -1, Hidden)
	m.wordSteps = r.floats("word.s", len(m.words)/Hidden)
	m.positions = r.floats("pos", -1, Hidden)
	m.norm = r.floats("ln", 2, Hidden)
	for i := 0; f.Has(fmt.Sprint(i, ".ln1")); i++ {
		m.layers = append(m.layers, r.layer(fmt.Sprint(i, ".")))
	}
	if r.err == nil && len(m.layers) == 0 {
		r.err = fmt.Errorf("no tensor 0.ln1: the file has no layer")
	}
	if r.err != nil {
		return nil, r.err
	}
	m.prepare()
	return m, nil
}

func (m *Model) prepare() {
	var wg sync.WaitGroup
	for i := range m.layers {
		l := &m.layers[i]
		for _, linear := range []*kernel.Linear{&l.attention, &l.output, &l.up, &l.down} {
			wg.Go(func() { m.kernels.Prepare(linear) })
		}
	}
	wg.Wait()
}

// MaxTokens is the longest sequence.
func (m *Model) MaxTokens() int { return len(m.positions) / Hidden }

// Vocabulary is the number of word embeddings: ids are below it.
func (m *Model) Vocabulary() int { return len(m.wordSteps) }

// reader keeps the first error.
type reader struct {
	file *safetensors.File
	err  error
}

func (r *reader) int8s(name string, shape ...int) []int8 {
	v, err := r.file.Int8(name, shape...)
	return keep(r, v, err)
}

func (r *reader) floats(name string, shape ...int) []float32 {
	v, err := r.file.Float32(name, shape...)
	return aligned(keep(r, v, err))
}

func keep[T any](r *reader, v []T, err error) []T {
	if r.err == nil {
		r.err = err
	}
	return v
}

func (r *reader) layer(prefix string) layer {
	return layer{
		attention:     r.linear(prefix+"qkv", Hidden, 3*Hidden),
		output:        r.linear(prefix+"out", Hidden, Hidden),
		attentionNorm: r.floats(prefix+"ln1", 2, Hidden),
		up:            r.linear(prefix+"up", Hidden, inner),
		down:          r.linear(prefix+"down", inner, Hidden),
		outputNorm:    r.floats(prefix+"ln2", 2, Hidden),
	}
}

func (r *reader) linear(name string, in, out int) kernel.Linear {
	return kernel.Linear{In: in, Out: out, Columns: r.floats(name+".col", 3, out),
		Weights: aligned(r.int8s(name+".q", out/kernel.Panel, in/4, kernel.Panel, 4))}
}

// aligned returns v, or a copy of it where it begins off a cache line.
func aligned[T int8 | float32](v []T) []T {
	if len(v) == 0 || uintptr(unsafe.Pointer(&v[0]))%cacheLine == 0 {
		return v
	}
	most := cacheLine / int(unsafe.Sizeof(v[0]))
	c := make([]T, len(v)+most)
	for uintptr(unsafe.Pointer(&c[0]))%cacheLine != 0 {
		c = c[1:]
	}
	return c[:copy(c[:len(v)], v)]
}
