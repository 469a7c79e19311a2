// Package embed turns texts into vectors with models that are part of the binary.
package embed

import "sync"

// Encoder makes a vector of each text. It is safe for concurrent use, and equal texts give equal bits on every machine with
// the same kernels, for any number of threads and whatever else is encoded with them.
type Encoder interface {
	// Dimensions is the length of each vector.
	Dimensions() int
	// Digest is "sha256:<hex>" over the model's files.
	Digest() string
	// Kernels names the instruction set whose roundings the vectors carry: avx512-vnni, avx-vnni, avx2, neon-dot or generic;
	// exact for a model whose vectors are the same everywhere. Vectors of different kernels may be compared.
	Kernels() string
	// Encode returns one vector per text, of length 1, or all zeros for a text without any token.
	Encode(texts []string) [][]float32
	// CountTokens is the number of tokens of text, special ones aside. It is not bounded by what the model reads of a text.
	CountTokens(text string) int
}

// TokenEncoder makes vectors of a text's tokens and of its parts as well, for late interaction.
type TokenEncoder interface {
	Encoder
	// EncodeTokens returns the vectors of each text's tokens, special ones left out.
	EncodeTokens(texts []string) []TokenVectors
	// EncodeWindows returns the vectors of each passage's windows, of length 1; none for a passage without any token.
	EncodeWindows(passages []Passage, w Windows) [][][]float32
}

// TokenVectors are N rows of Dimensions numbers, each of length 1, and beside them the text's own vector, as Encode gives it.
type TokenVectors struct {
	Vectors []float32
	N       int
	Whole   []float32
}

// Static256 is the name of the static table of 256 dimensions.
const Static256 = "static-256"

var builtin = map[string]func() (Encoder, error){
	MiniLM:    sync.OnceValues(loadMini),
	Static256: sync.OnceValues(loadStatic),
}

// Builtin returns the model of that name, which is loaded once.
func Builtin(model string) (Encoder, error) {
	if _, err := Describe(model); err != nil {
		return nil, err
	}
	return builtin[model]()
}
