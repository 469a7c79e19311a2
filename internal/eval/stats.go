package eval

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// resamples of the bootstrap: enough that the ends of a 95 % interval move by less than a hundredth between seeds.
const resamples = 2000

// Summarise computes the mean of a metric over all measured questions, its interval, and the comparison with the baseline.
// The seed names the measurement, so equal answers give equal numbers.
func Summarise(m Metric, seed string, subject, baseline []float64) MetricReport {
	report := MetricReport{Metric: m, Questions: len(subject)}
	if len(subject) == 0 {
		return report
	}
	report.Value = mean(subject)
	report.Lower, report.Upper = interval(subject, seed+m.String())
	if len(baseline) != len(subject) {
		return report
	}
	paired := &Paired{Baseline: mean(baseline)}
	differences := make([]float64, len(subject))
	for i := range subject {
		differences[i] = subject[i] - baseline[i]
		switch {
		case differences[i] > 0:
			paired.Gained++
		case differences[i] < 0:
			paired.Lost++
		}
	}
	paired.Delta = mean(differences)
	paired.Lower, paired.Upper = interval(differences, seed+m.String()+"delta")
	report.Paired = paired
	return report
}

// mean of at least one value.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// interval is the 95 % percentile bootstrap interval of the mean.
func interval(values []float64, seed string) (lower, upper float64) {
	hash := fnv.New64a()
	hash.Write([]byte(seed))
	random := rand.New(rand.NewPCG(hash.Sum64(), uint64(len(values))))
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range values {
			sum += values[random.IntN(len(values))]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	return means[resamples*25/1000], means[resamples*975/1000-1]
}

// percentiles of latencies in milliseconds, by the nearest rank.
func percentiles(millis []float64) Latency {
	if len(millis) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(millis))
	at := func(share float64) float64 {
		return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
	}
	return Latency{P50: at(0.50), P95: at(0.95), P99: at(0.99)}
}
