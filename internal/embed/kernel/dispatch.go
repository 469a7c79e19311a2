package kernel

import (
	"fmt"
	"os"
	"strings"
)

// Variable is the environment variable that forces a kernel set by its name, for tests and benchmarks.
const Variable = "QUARRY_KERNELS"

// Available lists the sets that this CPU can run, the fastest first. The last one is plain Go.
func Available() []*Set { return append(native(), generic) }

// Default is the fastest set, or the one that Variable names.
func Default() (*Set, error) { return choose(Available(), os.Getenv(Variable)) }

func choose(sets []*Set, name string) (*Set, error) {
	var names []string
	for _, s := range sets {
		if name == "" || name == s.Name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("%s=%s: this CPU has no such kernels: use %s, or leave it empty for the first of them", Variable, name, strings.Join(names, ", "))
}
