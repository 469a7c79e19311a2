package search

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"
)

func listen(t *testing.T, p *Process, handler http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.serve(l, handler, true)
	return "http://" + l.Addr().String()
}

func testProcess() *Process {
	p := NewProcess(slog.New(slog.DiscardHandler))
	p.delay, p.maxAge = 50*time.Millisecond, 300*time.Millisecond
	return p
}

func TestConnectionsAreCapped(t *testing.T) {
	p := testProcess()
	url := listen(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Wait(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	connections, opened := map[string]time.Time{}, 0
	for start := time.Now(); time.Since(start) < time.Second; time.Sleep(20 * time.Millisecond) {
		var local string
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { local = i.Conn.LocalAddr().String() }})
		req, _ := http.NewRequestWithContext(trace, http.MethodGet, url, nil)
		response, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if first, ok := connections[local]; !ok {
			connections[local] = time.Now()
			opened++
		} else if time.Since(first) > p.maxAge+100*time.Millisecond {
			t.Errorf("a connection lives for %v", time.Since(first))
		}
	}
	if opened < 3 || opened > 10 {
		t.Errorf("%d connections in a second with a cap of %v", opened, p.maxAge)
	}
	idle, err := net.Dial("tcp", url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	_ = idle.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection was not closed: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDrain(t *testing.T) {
	p := testProcess()
	running, release := make(chan bool), make(chan bool)
	url := listen(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(running)
			<-release
		}
		_, _ = w.Write([]byte("ok"))
	}))
	if p.Ready() {
		t.Error("ready before SetReady")
	}
	p.SetReady()
	if !p.Ready() {
		t.Error("not ready after SetReady")
	}
	ctx, stop := context.WithCancel(t.Context())
	done, slow := make(chan error), make(chan error)
	go func() { done <- p.Wait(ctx) }()
	go func() {
		response, err := http.Get(url + "/slow")
		if err == nil {
			response.Body.Close()
		}
		slow <- err
	}()
	<-running
	stop()
	time.Sleep(p.delay / 2)
	if p.Ready() {
		t.Error("ready while draining")
	}
	response, err := http.Get(url)
	if err != nil || !response.Close {
		t.Errorf("while draining: %v; the answer must end its connection", err)
	} else {
		response.Body.Close()
	}
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("a running request was cut: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAFailedServerEndsTheProcess(t *testing.T) {
	p := testProcess()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.serve(l, http.NotFoundHandler(), false)
	l.Close()
	if err := p.Wait(t.Context()); err == nil {
		t.Error("a closed listener is no error")
	}
}
