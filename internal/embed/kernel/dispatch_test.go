package kernel

import (
	"os"
	"testing"
)

// Whoever knows the CPU, such as make test-arm64, says what it must choose.
func TestDefault(t *testing.T) {
	want := os.Getenv("QUARRY_TEST_KERNELS")
	if want == "" {
		t.Skip("QUARRY_TEST_KERNELS does not say which kernels this CPU has")
	}
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != want {
		t.Errorf("chose %s, want %s", s.Name, want)
	}
}
