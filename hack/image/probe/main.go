// Command probe is the pod of the development cluster's own check: `probe serve ADDR` answers HTTP with its pod's name,
// `probe get URL` prints an answer and fails within three seconds where there is none, and `probe knock URL...` posts to each
// URL, with the bearer token in TOKEN if there is one, and prints a line for each: its status, or that it is unreachable. Before
// that it waits for the time in PAUSE, for instance 10s, because a network takes a moment to know a new pod.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 1 && args[0] == "knock" {
		knock(args[1:])
		return nil
	}
	if len(args) != 2 {
		return fmt.Errorf("usage: probe serve ADDR | probe get URL | probe knock URL..., not %q", args)
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

// knock tries all URLs at once: most of them are meant not to answer, and waiting for one after the other takes minutes.
func knock(urls []string) {
	results := make([]string, len(urls))
	pause, _ := time.ParseDuration(os.Getenv("PAUSE")) // none where it is absent
	time.Sleep(pause)
	var tries sync.WaitGroup
	for i, url := range urls {
		tries.Go(func() { results[i] = post(url, os.Getenv("TOKEN")) })
	}
	tries.Wait()
	for i, url := range urls {
		fmt.Println(url, results[i])
	}
}

func post(url, token string) string {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"query": "open"}`))
	if err != nil {
		return "unusable: " + err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	client := &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext}}
	response, err := client.Do(request)
	var failed *net.OpError
	switch {
	case errors.As(err, &failed) && failed.Op == "dial":
		return "unreachable: " + failed.Error()
	case err != nil:
		return "connected, and then: " + err.Error()
	}
	_ = response.Body.Close() // the status is all that counts
	return fmt.Sprintf("status %d", response.StatusCode)
}
