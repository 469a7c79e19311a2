// Package embed turns texts into vectors with models that are part of the binary.
package embed

import (
	"fmt"
	"strings"
)

// Encoder makes a vector of each text. It is safe for concurrent use, and equal texts give equal bits on every machine
// and for any number of threads.
type Encoder interface {
	// Dimensions is the length of each vector.
	Dimensions() int
	// Digest is "sha256:<hex>" over everything that the vectors depend on.
	Digest() string
	// Encode returns one vector per text, of length 1, or all zeros for a text without any token.
	Encode(texts []string) [][]float32
	// CountTokens is the number of tokens of text, special ones aside.
	CountTokens(text string) int
}

// Static256 is the name of the static table of 256 dimensions.
const Static256 = "static-256"

// planned models are known to the API and come later.
var planned = []string{"minilm-l6-v2", "multilingual-e5-small"}

// Builtin returns the model of that name.
func Builtin(model string) (Encoder, error) {
	if model == Static256 {
		return static256()
	}
	for _, p := range planned {
		if model == p {
			return nil, fmt.Errorf("embedding.model: %s is not yet available: use %s", model, Static256)
		}
	}
	return nil, fmt.Errorf("embedding.model: %q is unknown: use %s (%s not yet)", model, Static256, strings.Join(planned, ", "))
}
