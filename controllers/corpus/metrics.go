package corpus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var objectLabels = []string{"namespace", "name"}

// The heartbeat of a Corpus is a metric, because writing it into status would make every listing an API write.
var (
	lastSync = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_corpus_last_sync_timestamp_seconds", Help: "Unix time of the last listing that succeeded.",
	}, objectLabels)
	syncSeconds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quarry_corpus_sync_duration_seconds", Help: "How long the last listing took.",
	}, objectLabels)
	syncFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quarry_corpus_sync_failures_total", Help: "Listings that failed.",
	}, objectLabels)
)

func init() { metrics.Registry.MustRegister(lastSync, syncSeconds, syncFailures) }

func observe(key client.ObjectKey, found outcome, now time.Time) {
	syncSeconds.WithLabelValues(key.Namespace, key.Name).Set(found.took.Seconds())
	if found.err != nil {
		syncFailures.WithLabelValues(key.Namespace, key.Name).Inc()
		return
	}
	lastSync.WithLabelValues(key.Namespace, key.Name).Set(float64(now.Unix()))
}

func forgetMetrics(key client.ObjectKey) {
	for _, vec := range []interface{ DeleteLabelValues(...string) bool }{lastSync, syncSeconds, syncFailures} {
		vec.DeleteLabelValues(key.Namespace, key.Name)
	}
}
