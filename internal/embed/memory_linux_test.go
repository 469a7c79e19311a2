package embed

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/embed/kernel"
)

// TestMiniLMMemory encodes in a process of its own with two threads, which tells the most that was resident.
func TestMiniLMMemory(t *testing.T) {
	const child = "QUARRY_TEST_MEMORY"
	if os.Getenv(child) != "" {
		e, err := newMini(kernel.Available()[0], 2)
		if err != nil {
			t.Fatal(err)
		}
		e.Encode(passages(200))
		status, err := os.ReadFile("/proc/self/status")
		fmt.Println(string(status), err)
		return
	}
	if raceDetector {
		t.Skip("the race detector has memory of its own")
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestMiniLMMemory$")
	c.Env = append(os.Environ(), child+"=1", "GOMAXPROCS=2")
	out, err := c.Output()
	_, line, found := strings.Cut(string(out), "VmHWM:")
	kib := 0
	if _, scan := fmt.Sscan(line, &kib); err != nil || !found || scan != nil {
		t.Fatalf("%v, %v: %s", err, scan, out)
	}
	t.Logf("%d MiB resident at most, the model's file among them", kib>>10)
	if kib > 100<<10 {
		t.Errorf("%d MiB are resident, want at most 100", kib>>10)
	}
}
