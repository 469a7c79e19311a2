// Command probe is the pod of the development cluster's own check: `probe serve ADDR` answers HTTP with its pod's name,
// `probe get URL` prints an answer and fails within three seconds where there is none.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: probe serve ADDR | probe get URL, not %q", args)
	}
	switch args[0] {
	case "serve":
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		server := &http.Server{Addr: args[1], ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(w, name) // a client that hung up is no concern of ours
		})}
		return server.ListenAndServe()
	case "get":
		client := &http.Client{Timeout: 3 * time.Second}
		resp, err := client.Get(args[1])
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, err = io.Copy(os.Stdout, resp.Body)
		return err
	}
	return fmt.Errorf("unknown command %q: use serve or get", args[0])
}
