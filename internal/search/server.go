package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxConnAge caps the life of a connection, so that clients with keep-alive follow a switch of the Service within
	// seconds and never alternate between two versions.
	maxConnAge = 3 * time.Second
	// drainDelay lets the cluster's Services forget this pod before it stops listening.
	drainDelay    = 4 * time.Second
	shutdownLimit = 8 * time.Second
	// maxHeader fits a token with many groups, in bytes.
	maxHeader = 256 << 10
)

// Process runs the servers of one serving process: they start when its work is loaded, and drain when it is told to end.
type Process struct {
	Log      *slog.Logger
	servers  []*http.Server
	draining atomic.Bool
	ready    atomic.Bool
	failed   chan error
	delay    time.Duration
	maxAge   time.Duration
}

// NewProcess returns a process without servers, which is not ready.
func NewProcess(log *slog.Logger) *Process {
	return &Process{Log: log, failed: make(chan error, 8), delay: drainDelay, maxAge: maxConnAge}
}

// SetReady makes /readyz succeed, until the process drains. It stays so while storage or retrievers are down: a gateway
// that says what is wrong is better than one that refuses connections.
func (p *Process) SetReady() { p.ready.Store(true) }

// Ready tells whether /readyz succeeds.
func (p *Process) Ready() bool { return p.ready.Load() && !p.draining.Load() }

// Listen serves handler on address, in the background. Connections of an aged server are capped.
func (p *Process) Listen(address string, handler http.Handler, aged bool) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.serve(listener, handler, aged)
	return nil
}

func (p *Process) serve(listener net.Listener, handler http.Handler, aged bool) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
	}
	if aged {
		(&ages{process: p, limit: p.maxAge, conns: map[net.Conn]*age{}}).attach(server)
	}
	p.servers = append(p.servers, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.failed <- err
		}
	}()
}

// Wait serves until ctx ends, which SIGTERM does, and then drains: not ready, every answer ends its connection, the
// Services get time to forget this pod, running requests end. It returns early when a server fails.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case err := <-p.failed:
		return err
	case <-ctx.Done():
	}
	p.draining.Store(true)
	p.Log.Info("draining")
	time.Sleep(p.delay)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, s.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// ages ends connections that are too old, between two requests.
type ages struct {
	process *Process
	limit   time.Duration
	mu      sync.Mutex
	conns   map[net.Conn]*age
}

type age struct {
	start time.Time
	timer *time.Timer
	idle  bool
}

type ageKey struct{}

func (a *ages) attach(server *http.Server) {
	inner := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, ageKey{}, a.add(c))
	}
	server.ConnState = a.state
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The last third of its life, every answer announces the end; an idle connection is closed hard at the limit.
		if start, ok := r.Context().Value(ageKey{}).(time.Time); !ok || time.Since(start) >= a.limit*2/3 || a.process.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		inner.ServeHTTP(w, r)
	})
}

func (a *ages) add(c net.Conn) time.Time {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[c] = &age{start: now, idle: true, timer: time.AfterFunc(a.limit, func() { a.expire(c) })}
	return now
}

func (a *ages) expire(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if conn, ok := a.conns[c]; ok && conn.idle {
		c.Close()
	}
}

func (a *ages) state(c net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn, ok := a.conns[c]
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		conn.idle = false
	case http.StateIdle:
		conn.idle = true
		if time.Since(conn.start) >= a.limit || a.process.draining.Load() {
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		conn.timer.Stop()
		delete(a.conns, c)
	}
}
