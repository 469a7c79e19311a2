package embed

import (
	_ "embed" // the model is part of the binary
	"fmt"
	"runtime"
	"sync"

	"quarry.dev/quarry/internal/embed/kernel"
	"quarry.dev/quarry/internal/embed/transformer"
)

//go:embed models/minilm-l6-v2-int8.safetensors
var miniFile []byte

const (
	miniDimensions = transformer.Hidden
	miniTokens     = 256 // the longest sequence that the model was trained with
)

// mini is all-MiniLM-L6-v2: the vector of a text is the mean of its tokens' states, special ones included.
type mini struct {
	model      *transformer.Model
	kernels    string
	vocab      *vocabulary
	digest     func() string
	tokenizers sync.Pool
}

func loadMini() (Encoder, error) {
	set, err := kernel.Default()
	if err != nil {
		return nil, err
	}
	return newMini(set, runtime.GOMAXPROCS(0))
}

func newMini(set *kernel.Set, threads int) (*mini, error) {
	v, err := sharedVocabulary()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", MiniLM, err)
	}
	m, err := transformer.New(miniFile, set, threads)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", MiniLM, err)
	}
	if m.Vocabulary() != v.size || m.MaxTokens() != miniTokens {
		return nil, fmt.Errorf("model %s: %d words and %d positions, want %d and %d", MiniLM, m.Vocabulary(), m.MaxTokens(), v.size, miniTokens)
	}
	e := &mini{model: m, kernels: set.Name, vocab: v, digest: sync.OnceValue(func() string { return digest(miniFile, vocabularyText) })}
	e.tokenizers.New = func() any { return &tokenizer{vocab: v} }
	return e, nil
}

func (e *mini) Dimensions() int { return miniDimensions }

func (e *mini) Digest() string { return e.digest() }

func (e *mini) Kernels() string { return e.kernels }

func (e *mini) CountTokens(text string) int {
	t := e.tokenizers.Get().(*tokenizer)
	defer e.tokenizers.Put(t)
	return len(t.tokens(text))
}

func (e *mini) Encode(texts []string) [][]float32 {
	out := rows(len(texts), miniDimensions)
	ids, index := e.sequences(texts)
	e.model.Encode(ids, func(i int, states []float32) { transformer.Mean(out[index[i]], states) })
	return out
}

// EncodeTokens gives the tokens' last states.
func (e *mini) EncodeTokens(texts []string) []TokenVectors {
	out := make([]TokenVectors, len(texts))
	for i, whole := range rows(len(texts), miniDimensions) {
		out[i].Whole = whole
	}
	ids, index := e.sequences(texts)
	e.model.Encode(ids, func(i int, states []float32) {
		transformer.Mean(out[index[i]].Whole, states)
		v := append([]float32(nil), states[miniDimensions:len(states)-miniDimensions]...)
		for r := 0; r < len(v); r += miniDimensions {
			transformer.Normalize(v[r:][:miniDimensions])
		}
		out[index[i]].Vectors, out[index[i]].N = v, len(v)/miniDimensions
	})
	return out
}

// EncodeWindows encodes each window as a text of its own.
func (e *mini) EncodeWindows(passages []Passage, w Windows) [][][]float32 {
	w.Head = min(w.Head, miniTokens-2)
	w.Size = min(w.Size, miniTokens-2-w.Head)
	out := make([][][]float32, len(passages))
	var ids [][]int32
	var vectors [][]float32
	t := e.tokenizers.Get().(*tokenizer)
	for i, p := range passages {
		windows := w.cut(t, p)
		out[i] = rows(len(windows), miniDimensions)
		vectors = append(vectors, out[i]...)
		for _, pieces := range windows {
			ids = append(ids, e.marked(pieces))
		}
	}
	e.tokenizers.Put(t)
	e.model.Encode(ids, func(i int, states []float32) { transformer.Mean(vectors[i], states) })
	return out
}

// sequences are the tokens of the texts that have any, between the marks, cut to what the model takes; and whose they are.
func (e *mini) sequences(texts []string) (ids [][]int32, index []int) {
	t := e.tokenizers.Get().(*tokenizer)
	defer e.tokenizers.Put(t)
	for i, text := range texts {
		pieces := t.first(text, miniTokens-2)
		if len(pieces) == 0 {
			continue
		}
		ids = append(ids, e.marked(pieces))
		index = append(index, i)
	}
	return ids, index
}

// marked is a sequence between the model's marks.
func (e *mini) marked(pieces []int32) []int32 {
	s := make([]int32, 0, len(pieces)+2)
	return append(append(append(s, e.vocab.begin), pieces...), e.vocab.end)
}
