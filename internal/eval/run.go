package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// concurrency is how many questions are asked at once: enough to hide latency, too few to disturb a small stack.
	concurrency = 4
	// maxK is the deepest rank that can be measured, which is the most passages that a gateway returns.
	maxK = 100
	// documentFactor is how many passages are fetched per wanted document, since several may belong to one document.
	documentFactor = 5
	// staleShare is the share of stale questions above which the set no longer describes the corpus.
	staleShare = 0.10
)

// Gateway is one running index version and how to ask it.
type Gateway struct {
	// Index must be the version that answers; an answer by another one is an error.
	Index         string
	VersionDigest string
	// URL of the evaluation port, without a path.
	URL string
	// Token mints a token for the principal; it is called once per request, because such tokens live for a minute.
	Token func(Principal) (string, error)
	// Reranks tells that the recipe reranks. An answer in the fused order is then asked for again, and at last an error: it
	// would measure the recipe without its reranker.
	Reranks bool
	// Ask, where set, answers instead of the URL: for one retriever alone, in this process. Depth is the number of passages
	// that are wanted; more may come.
	Ask func(ctx context.Context, q Question, depth int) ([]Hit, error)

	pause time.Duration // before the second attempt; 0 means firstPause
}

// RunInput is everything that a run needs.
type RunInput struct {
	// Run names the EvalRun.
	Run           string
	Subject       Gateway
	Baseline      *Gateway
	Questions     []Question
	EvalSetDigest string
	Metrics       []Metric
	// InSnapshot tells whether the subject's snapshot holds a document.
	InSnapshot func(document string) bool
	// Access reads the raw access data. It is called at the start and, when a forbidden hit is seen, once more at the end: only
	// what is forbidden both times is a leak, so a permission that was granted in between is none.
	Access func(context.Context) (RawAccess, error)
	// Grace is how long a revocation may take to reach the gateways: the sync interval and a little more. A forbidden hit that
	// is gone after it was that delay, and no leak. 0 grants none.
	Grace       time.Duration
	AccessEpoch int64
	// Client is http.DefaultClient's replacement; nil means one with a timeout of 30 s.
	Client *http.Client
	// Concurrency is how many questions are asked at once; 0 means a few.
	Concurrency int
	// Progress, when set, is called after each question.
	Progress func(done, total int)
}

// Run asks every question and reports what it found. A question without an answer is recorded in the report; an error means
// that there is no report at all.
func Run(ctx context.Context, in RunInput) (Report, error) {
	if err := in.check(); err != nil {
		return Report{}, err
	}
	access, err := in.Access(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read the access rules, without which no leak can be seen: %w", err)
	}
	report := Report{
		Run: in.Run, Index: in.Subject.Index, VersionDigest: in.Subject.VersionDigest,
		EvalSetDigest: in.EvalSetDigest, AccessEpoch: in.AccessEpoch,
	}
	if in.Baseline != nil {
		report.Baseline, report.BaselineDigest = in.Baseline.Index, in.Baseline.VersionDigest
	}
	asked, stale := in.split(access)
	report.Stale = stale
	client := in.Client
	if client == nil {
		client = &http.Client{Timeout: 30 * time.Second}
	}
	answers := in.askAll(ctx, client, asked)
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("the run was stopped: %w", err)
	}
	if report.Leaks, err = in.probe(ctx, client, answers, access); err != nil {
		return Report{}, err
	}
	in.describe(&report, answers)
	in.measure(&report, answers)
	report.Invalid = invalid(in.Questions, stale)
	return report, nil
}

// check refuses an input that could only give a report without evidence.
func (in RunInput) check() error {
	switch {
	case len(in.Questions) == 0:
		return errors.New("the eval set has no question: write one JSON object per line")
	case len(in.Metrics) == 0:
		return errors.New("no metric to measure: name one in spec.promotion.gate.metrics")
	case in.Access == nil || in.InSnapshot == nil || in.Subject.Token == nil && in.Subject.Ask == nil || in.Baseline != nil && in.Baseline.Token == nil:
		return errors.New("a run needs access rules, a snapshot and a token for each gateway")
	}
	for _, m := range in.Metrics {
		if err := m.check(); err != nil {
			return err
		}
	}
	return nil
}

// split separates the questions that can be asked from those that the corpus has outgrown.
func (in RunInput) split(access RawAccess) (asked []Question, stale []StaleQuestion) {
	for _, q := range in.Questions {
		if reason := staleReason(q, in.InSnapshot, access); reason != "" {
			if q.Measured() {
				stale = append(stale, StaleQuestion{ID: q.ID, Reason: reason})
			}
			continue
		}
		asked = append(asked, q)
	}
	return asked, stale
}

// answer is what subject and baseline said to one question.
type answer struct {
	question Question
	subject  []Hit
	baseline []Hit
	latency  time.Duration
	err      error
	// leaked are the documents that the subject must not have shown.
	leaked []string
}

// askAll asks all questions, a few at once, and keeps their order.
func (in RunInput) askAll(ctx context.Context, client *http.Client, questions []Question) []answer {
	answers := make([]answer, len(questions))
	next := make(chan int)
	var workers sync.WaitGroup
	var progress sync.Mutex
	done := 0
	for range min(cmp.Or(in.Concurrency, concurrency), len(questions)) {
		workers.Go(func() {
			for i := range next {
				answers[i] = in.ask(ctx, client, questions[i])
				if in.Progress != nil {
					progress.Lock()
					done++
					in.Progress(done, len(questions))
					progress.Unlock()
				}
			}
		})
	}
	for i := range questions {
		next <- i
	}
	close(next)
	workers.Wait()
	return answers
}

// ask puts one question to the subject and, where it is measured, to the baseline.
func (in RunInput) ask(ctx context.Context, client *http.Client, q Question) answer {
	a := answer{question: q}
	depth := in.depth(q)
	if a.subject, a.latency, a.err = in.Subject.search(ctx, client, q, depth); a.err != nil {
		a.err = fmt.Errorf("subject: %w", a.err)
		return a
	}
	if in.Baseline != nil && q.Measured() {
		if a.baseline, _, a.err = in.Baseline.search(ctx, client, q, depth); a.err != nil {
			a.err = fmt.Errorf("baseline: %w", a.err)
		}
	}
	return a
}

// deepest is the deepest rank of any metric, and at least ten; a report holds as many hits per question.
func (in RunInput) deepest() int {
	deepest := 10
	for _, m := range in.Metrics {
		deepest = max(deepest, m.K)
	}
	return deepest
}

// depth is how many passages to ask for.
func (in RunInput) depth(q Question) int {
	depth := in.deepest()
	if !q.Passages() {
		depth *= documentFactor
	}
	return min(depth, maxK)
}

// describe writes one entry per question: located hits, forbidden hits, errors.
func (in RunInput) describe(report *Report, answers []answer) {
	for _, a := range answers {
		if a.err != nil {
			report.Errors = append(report.Errors, QuestionError{ID: a.question.ID, Message: a.err.Error()})
		}
		entry := QuestionReport{ID: a.question.ID, Kind: a.question.Kind, Hits: []HitReport{}, ForbiddenHits: a.leaked, LatencyMillis: millis(a.latency)}
		hits := order(a.subject)
		for _, h := range hits[:min(in.deepest(), len(hits))] {
			entry.Hits = append(entry.Hits, HitReport{Document: h.Document, Start: h.Start, End: h.End, Score: h.Score})
		}
		report.Questions = append(report.Questions, entry)
	}
}

// measure computes the metrics over the answered questions.
func (in RunInput) measure(report *Report, answers []answer) {
	var latencies []float64
	subject, baseline := map[Metric][]float64{}, map[Metric][]float64{}
	for i, a := range answers {
		if a.subject != nil {
			latencies = append(latencies, millis(a.latency))
		}
		if a.err != nil || !a.question.Measured() {
			continue
		}
		entry := &report.Questions[i]
		found := a.question.find(a.subject)
		entry.Ranks, entry.Values = ranksOf(found), in.values(found, subject)
		if in.Baseline != nil {
			entry.Baseline = in.values(a.question.find(a.baseline), baseline)
		}
	}
	for _, m := range in.Metrics {
		report.Metrics = append(report.Metrics, Summarise(m, in.EvalSetDigest, subject[m], baseline[m]))
	}
	report.Latency = percentiles(latencies)
}

// values computes every metric of one ranking, and adds each to the lists by metric.
func (in RunInput) values(found []finding, lists map[Metric][]float64) map[string]float64 {
	out := map[string]float64{}
	values, err := valuesOf(found, in.Metrics)
	if err != nil {
		return out // check has refused such a metric before anything was asked
	}
	for i, m := range in.Metrics {
		out[m.String()] = values[i]
		lists[m] = append(lists[m], values[i])
	}
	return out
}

// invalid says why a set with too many stale questions measures nothing: the rest may be the easy ones.
func invalid(questions []Question, stale []StaleQuestion) string {
	answerable := 0
	for _, q := range questions {
		if q.Measured() {
			answerable++
		}
	}
	if answerable == 0 || float64(len(stale)) <= staleShare*float64(answerable) {
		return ""
	}
	return fmt.Sprintf("%d of %d answerable questions are stale, more than %.0f %%: bring the eval set up to date with the corpus, beginning with %q (%s)",
		len(stale), answerable, staleShare*100, clip(stale[0].ID), stale[0].Reason)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
