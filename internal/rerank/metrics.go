package rerank

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Scorer. No label holds a question, a passage or an address.
type Metrics struct {
	hits, misses prometheus.Counter
	bytes        prometheus.Gauge
	breaker      prometheus.Gauge
	failures     *prometheus.CounterVec
	retries      prometheus.Counter
}

// NewMetrics registers with registry, which may be nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quarry_rerank_cache_lookups_total", Help: "Passages looked up in the cache of vectors, by result."}, []string{"result"})
	m := &Metrics{
		hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss"),
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quarry_rerank_cache_bytes", Help: "Bytes of the vectors that are kept."}),
		breaker: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quarry_rerank_breaker_state", Help: "The circuit breaker of the endpoint: 0 closed, 1 half-open, 2 open."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quarry_rerank_failures_total", Help: "Questions whose passages were not scored, by reason."}, []string{"reason"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quarry_rerank_retries_total", Help: "Requests to the endpoint that were sent once more."}),
	}
	if registry != nil {
		registry.MustRegister(lookups, m.bytes, m.breaker, m.failures, m.retries)
	}
	return m
}

// Failed counts an error of a Scorer.
func (m *Metrics) Failed(err error) {
	var f *Failure
	if errors.As(err, &f) {
		m.failures.WithLabelValues(string(f.Reason)).Inc()
	}
}
