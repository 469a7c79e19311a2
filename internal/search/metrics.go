package search

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics of one serving process. No label holds a query, a user or a document.
type Metrics struct {
	Registry *prometheus.Registry
	// Labelled registers further metrics of the role.
	Labelled prometheus.Registerer
	// Violations counts hits that a later check of access had to stop: each is a bug.
	Violations prometheus.Counter
	requests   *prometheus.CounterVec
	seconds    prometheus.Histogram
	// reranks counts answers of a recipe that reranks.
	reranks *prometheus.CounterVec
}

// NewMetrics registers everything that a role reports. A role without access data has no overlays.
func NewMetrics(role string, overlays *Overlays) *Metrics {
	registry := prometheus.NewRegistry()
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"role": role}, registry)
	m := &Metrics{
		Registry: registry, Labelled: labelled,
		Violations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quarry_access_violations_total", Help: "Hits that the last check of access had to stop. Any value above 0 is a bug."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quarry_requests_total", Help: "Requests by HTTP status."}, []string{"code"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quarry_request_seconds", Help: "Time to answer a request.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}),
		reranks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quarry_reranks_total", Help: "Answers of a recipe that reranks, by outcome: Reranked, or why they keep the fused order."}, []string{"outcome"}),
	}
	labelled.MustRegister(m.Violations, m.requests, m.seconds, m.reranks,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if overlays == nil {
		return m
	}
	labelled.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quarry_access_epoch", Help: "Epoch of the access data in use, -1 without any."}, func() float64 { return float64(overlays.Epoch()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quarry_access_age_seconds", Help: "Time since the source of the access data was last listed whole."}, func() float64 { return overlays.Age().Seconds() }))
	return m
}

// observe counts and times a handler that returns its HTTP status.
func (m *Metrics) observe(handle func(http.ResponseWriter, *http.Request) int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		code := handle(w, r)
		m.requests.WithLabelValues(strconv.Itoa(code)).Inc()
		m.seconds.Observe(time.Since(start).Seconds())
	}
}
