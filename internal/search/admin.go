package search

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin serves health and metrics, on a port that no tenant Service exposes. lastPlan may be nil.
func (p *Process) Admin(metrics *Metrics, lastPlan func() any) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.Ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("not ready\n"))
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	if lastPlan != nil {
		mux.HandleFunc("GET /debug/plan", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, lastPlan()) })
	}
	return mux
}
