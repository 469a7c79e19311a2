// Command texts prints the hostile texts as JSON strings, one a line, for other tokenizers to read.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"quarry.dev/quarry/internal/embed/hostile"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	for n := range hostile.Count {
		if err := enc.Encode(hostile.Text(n)); err != nil {
			log.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}
