// Command encoder runs the builtin encoder for bench.py: requests as JSON lines on standard input, an answer line for each.
//
// The model's threads are GOMAXPROCS, its kernel set is QUARRY_KERNELS.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/embed/kernel"
)

// request asks for one thing: "kernels" lists the sets of this CPU, "memory" tells the process's highest resident size,
// "encode" and "count" work on the texts and tell how long that took.
type request struct {
	Do    string   `json:"do"`
	Texts []string `json:"texts"`
	// Vectors are wanted in the answer; they take time to print, but not the time that is told.
	Vectors bool `json:"vectors"`
}

type answer struct {
	Seconds float64     `json:"seconds,omitempty"`
	Tokens  int         `json:"tokens,omitempty"`
	Bytes   int         `json:"bytes,omitempty"`
	Kernels []string    `json:"kernels,omitempty"`
	Vectors [][]float32 `json:"vectors,omitempty"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		a, err := serve(r)
		if err == nil {
			err = out.Encode(a)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

func serve(r request) (answer, error) {
	switch r.Do {
	case "kernels":
		var a answer
		for _, set := range kernel.Available() {
			a.Kernels = append(a.Kernels, set.Name)
		}
		return a, nil
	case "memory":
		n, err := highestResident()
		return answer{Bytes: n}, err
	}
	model, err := embed.Builtin(embed.MiniLM)
	if err != nil {
		return answer{}, err
	}
	var a answer
	start := time.Now()
	switch r.Do {
	case "encode":
		vectors := model.Encode(r.Texts)
		a.Seconds = time.Since(start).Seconds()
		if r.Vectors {
			a.Vectors = vectors
		}
	case "count":
		for _, text := range r.Texts {
			a.Tokens += model.CountTokens(text)
		}
		a.Seconds = time.Since(start).Seconds()
	default:
		err = fmt.Errorf("do: %q is unknown: use kernels, memory, encode or count", r.Do)
	}
	return a, err
}

// highestResident is the process's VmHWM in bytes.
func highestResident() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.Atoi(f[1])
			return kib * 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM: memory is measured on Linux only")
}
