package segment

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"quarry.dev/quarry/internal/segment/frame"
)

func sample() []Chunk {
	return []Chunk{
		{Document: "hr/leave.md", Ordinal: 0, Start: 0, End: 12, Text: "Leave policy", Context: "Handbook > Leave", Modified: time.Date(2026, 10, 2, 8, 0, 0, 5, time.UTC)},
		{Document: "hr/leave.md", Ordinal: 1, Start: 12, End: 40, Text: "शून्य 🙂", Headings: []string{"Leave", "Parental"}, Page: 3, Modified: time.Time{}},
		{Document: "", Text: "", Page: -1},
	}
}

func TestChunksRoundTrip(t *testing.T) {
	for _, want := range [][]Chunk{nil, sample()} {
		file, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Encode(want)
		if !bytes.Equal(file, again) {
			t.Error("equal chunks gave different bytes")
		}
		c, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if int(c.Len()) != len(want) {
			t.Fatalf("Len = %d, want %d", c.Len(), len(want))
		}
		for i := range want {
			if got := c.At(uint32(i)); !reflect.DeepEqual(got, want[i]) {
				t.Errorf("chunk %d = %+v, want %+v", i, got, want[i])
			}
		}
		if got := c.At(c.Len()); !reflect.DeepEqual(got, Chunk{}) {
			t.Errorf("a chunk that does not exist = %+v", got)
		}
	}
}

func TestChunksOpenRefusesDamage(t *testing.T) {
	file, _ := Encode(sample())
	for n := range file {
		if _, err := Open(file[:n]); !errors.Is(err, frame.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: error %v", n, len(file), err)
		}
		bad := bytes.Clone(file)
		bad[n] ^= 0x10
		if _, err := Open(bad); err == nil {
			t.Fatalf("flipped bit in byte %d passed", n)
		}
	}
}

// FuzzChunksOpen seals the body anew, so that the fuzzer gets past the checksum.
func FuzzChunksOpen(f *testing.F) {
	file, _ := Encode(sample())
	body, _ := chunksKind.Open(file)
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := Open(chunksKind.Seal(body))
		if err != nil {
			return
		}
		for i := range c.Len() {
			c.At(i)
		}
	})
}
