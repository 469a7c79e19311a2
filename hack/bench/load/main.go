// Command load asks a gateway the questions of an eval set from several clients at once and prints the percentiles of
// the time to the whole answer. It only accepts addresses of this machine's own networks.
//
//	load -url http://ADDRESS -token TOKEN -questions eval.jsonl -clients 1,8 -requests 2000
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	target := flag.String("url", "", "base URL of the tenant's Service")
	token := flag.String("token", "", "an end user's token")
	questions := flag.String("questions", "", "eval set whose questions are asked")
	clients := flag.String("clients", "1,8", "numbers of clients, one run each")
	requests := flag.Int("requests", 2000, "requests of each run")
	flag.Parse()
	if err := run(*target, *token, *questions, *clients, *requests); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(target, token, questions, clients string, requests int) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !(ip.IsLoopback() || ip.IsPrivate()) {
		return fmt.Errorf("-url is %q: name a loopback address or one of the development cluster", target)
	}
	bodies, err := readQuestions(questions)
	if err != nil {
		return err
	}
	for _, text := range strings.Split(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients has %q: give numbers from 1", text)
		}
		times, failed := measure(target+"/v1/search", token, bodies, n, requests)
		if len(times) == 0 {
			return fmt.Errorf("none of %d requests was answered", requests)
		}
		at := func(p float64) time.Duration { return times[int(p*float64(len(times)-1))].Round(10 * time.Microsecond) }
		fmt.Printf("clients %d: p50 %v, p95 %v, p99 %v, %d answers, %d failures\n", n, at(0.5), at(0.95), at(0.99), len(times), failed)
	}
	return nil
}

func readQuestions(path string) ([][]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var bodies [][]byte
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var q struct {
			Question string `json:"question"`
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, err
		}
		body, err := json.Marshal(map[string]any{"query": q.Question, "topK": 5})
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, lines.Err()
}

func measure(target, token string, bodies [][]byte, clients, requests int) (times []time.Duration, failed int) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan int)
	for range clients {
		workers.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
			for i := range next {
				started := time.Now()
				err := ask(client, target, token, bodies[i%len(bodies)])
				took := time.Since(started)
				mu.Lock()
				if err != nil {
					failed++
				} else {
					times = append(times, took)
				}
				mu.Unlock()
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	workers.Wait()
	slices.Sort(times)
	return times, failed
}

func ask(client *http.Client, target, token string, body []byte) error {
	request, err := http.NewRequest(http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}
