// Command encode reads texts as JSON strings, one a line, and writes their vectors by the builtin transformer: little-endian
// float32, 384 a text. It is the teacher of static-256.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"time"

	"quarry.dev/quarry/internal/embed"
)

// batch is how many texts are encoded, and progress told, at a time.
const batch = 4096

func main() {
	model, err := embed.Builtin(embed.MiniLM)
	if err != nil {
		log.Fatal(err)
	}
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), bufio.NewWriter(os.Stdout)
	start, done := time.Now(), 0
	for more := true; more; {
		var texts []string
		texts, more = read(in)
		for _, v := range model.Encode(texts) {
			if err := binary.Write(out, binary.LittleEndian, v); err != nil {
				log.Fatal(err)
			}
		}
		done += len(texts)
		log.Printf("%d texts, %.0f a second", done, float64(done)/time.Since(start).Seconds())
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// read takes up to a batch of texts, and tells whether there may be more.
func read(in *json.Decoder) (texts []string, more bool) {
	for len(texts) < batch {
		var s string
		if err := in.Decode(&s); errors.Is(err, io.EOF) {
			return texts, false
		} else if err != nil {
			log.Fatal(err)
		}
		texts = append(texts, s)
	}
	return texts, true
}
