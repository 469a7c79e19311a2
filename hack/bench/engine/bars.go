package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sys/unix"

	"quarry.dev/quarry/internal/bm25"
)

const (
	small   = 50_000
	usual   = 200_000
	large   = 1_000_000
	perTerm = 50 // questions of each number of terms
)

var (
	termCounts = []int{2, 4, 8}
	// filters by the percentage of documents that they allow.
	filters = []struct {
		name  string
		share float64
	}{{"100", 1}, {"50", 0.5}, {"10", 0.1}, {"1", 0.01}}
)

// engine is a corpus with the segment that was built of it.
type engine struct {
	*corpus
	segment *bm25.Segment
	bytes   int
	allow   map[string]*roaring.Bitmap // by filter
	visible map[string][]bool          // nil for the filter that allows all
}

// engine builds what a comparison needs, once.
func (b *bench) engine(documents int) (*engine, error) {
	if e := b.engines[documents]; e != nil {
		return e, nil
	}
	b.progress("%d documents: building the segment", documents)
	file, err := segment(documents)
	if err != nil {
		return nil, err
	}
	e := &engine{bytes: len(file), allow: map[string]*roaring.Bitmap{}, visible: map[string][]bool{}}
	if e.segment, err = bm25.Open(file); err != nil {
		return nil, err
	}
	b.progress("%d documents: the segment has %d MB; building the naive postings", documents, len(file)/1_000_000)
	e.corpus = newCorpus(documents)
	for _, f := range filters {
		set := roaring.New()
		visible := allowed(documents, f.share)
		for i, ok := range visible {
			if ok {
				set.AddInt(i)
			}
		}
		set.RunOptimize()
		e.allow[f.name] = set
		if f.share < 1 {
			e.visible[f.name] = visible
		}
	}
	b.engines[documents] = e
	return e, nil
}

// questions are those of the smallest corpus, for every size.
func (b *bench) questions(terms int) ([]question, error) {
	e, err := b.engine(small)
	if err != nil {
		return nil, err
	}
	return questions(e.corpus, perTerm, terms), nil
}

// ask returns a function that asks each question once, in microseconds per question. Statistics are warm after the first.
func (e *engine) ask(qs []question, filter string) func() (float64, error) {
	queries := make([]bm25.Query, len(qs))
	for i, q := range qs {
		queries[i] = bm25.Query{Text: q.String(), Allow: e.allow[filter], K: top, K1: k1, B: lengthB}
	}
	return func() (float64, error) {
		start := cpu()
		for _, q := range queries {
			if _, err := e.segment.Search(q); err != nil {
				return 0, err
			}
		}
		return micros(start, len(queries)), nil
	}
}

func (e *engine) askNaive(qs []question, filter string) func() (float64, error) {
	scan := newNaive[float32](e.corpus, e.visible[filter])
	return func() (float64, error) {
		start := cpu()
		for _, q := range qs {
			scan.search(q)
		}
		return micros(start, len(qs)), nil
	}
}

// cpu is the time that this thread has run, so that other work on the machine does not count.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // a clock of every Linux
	}
	return time.Duration(now.Nano())
}

func micros(start time.Duration, n int) float64 {
	return float64((cpu() - start).Nanoseconds()) / 1000 / float64(n)
}

// compare runs ours and theirs in turn and returns the medians of both, and of theirs/ours in the same round.
func compare(rounds int, ours, theirs func() (float64, error)) (our, their, ratio float64, err error) {
	var a, c, r []float64
	for round := range rounds + 1 {
		x, err := steady(ours)
		if err != nil {
			return 0, 0, 0, err
		}
		y, err := steady(theirs)
		if err != nil {
			return 0, 0, 0, err
		}
		if round > 0 { // the first warms up
			a, c, r = append(a, x), append(c, y), append(r, y/x)
		}
	}
	return median(a), median(c), median(r), nil
}

// steady runs f for a tenth of a second or once, whatever takes longer, and returns the mean of its results. The garbage
// of whoever ran before is gone by then.
func steady(f func() (float64, error)) (float64, error) {
	runtime.GC()
	sum, n := 0.0, 0.0
	for start := time.Now(); n == 0 || time.Since(start) < time.Second/10; n++ {
		v, err := f()
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum / n, nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// each runs measure for every number of terms and filter whose bar was asked for.
func (b *bench) each(prefix string, documents int, measure func(e *engine, qs []question, filter, name string) error) error {
	if !b.wants(prefix + "-") {
		return nil
	}
	for _, terms := range termCounts {
		for _, f := range filters {
			name := fmt.Sprintf("%s-%d-%s", prefix, terms, f.name)
			if !b.wants(name) {
				continue
			}
			qs, err := b.questions(terms)
			if err != nil {
				return err
			}
			e, err := b.engine(documents)
			if err != nil {
				return err
			}
			if err := measure(e, qs, f.name, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (b *bench) againstNaiveSmall() error { return b.againstNaive("bm25-naive-200k", usual, 1) }

func (b *bench) againstNaiveLarge() error { return b.againstNaive("bm25-naive-1m", large, 0.5) }

func (b *bench) againstNaive(prefix string, documents int, limit float64) error {
	return b.each(prefix, documents, func(e *engine, qs []question, filter, name string) error {
		if err := e.check(qs, filter); err != nil {
			return err
		}
		our, their, ratio, err := compare(b.rounds, e.ask(qs, filter), e.askNaive(qs, filter))
		if err != nil {
			return err
		}
		b.progress("%s: %.0f us, naive %.0f us", name, our, their)
		b.most(name, 1/ratio, limit, "x")
		return nil
	})
}

// check compares the scores with those of the formula in float64.
func (e *engine) check(qs []question, filter string) error {
	oracle := newNaive[float64](e.corpus, e.visible[filter])
	for _, q := range qs {
		got, err := e.segment.Search(bm25.Query{Text: q.String(), Allow: e.allow[filter], K: top, K1: k1, B: lengthB})
		if err != nil {
			return err
		}
		want := oracle.search(q)
		if len(got.Hits) != len(want) {
			return fmt.Errorf("%s: %d hits, %d expected", q, len(got.Hits), len(want))
		}
		for i, h := range got.Hits {
			if math.Abs(h.Score-want[i].score) > 1e-5 {
				return fmt.Errorf("%s: hit %d is document %d with %v, the formula gives document %d %v", q, i+1, h.Chunk, h.Score, want[i].document, want[i].score)
			}
		}
	}
	return nil
}

func (b *bench) againstBleve() error {
	var o *other
	defer func() {
		if o != nil {
			o.close()
		}
	}()
	return b.each("bm25-bleve", usual, func(e *engine, qs []question, filter, name string) error {
		if o == nil {
			var err error
			if o, err = newBleve(usual, e.visible, func(done int) { b.progress("bleve: %d of %d documents", done, usual) }); err != nil {
				return err
			}
		}
		field := filter
		if e.visible[filter] == nil {
			field = ""
		}
		our, their, ratio, err := compare(min(b.rounds, 5), e.ask(qs, filter), o.ask(qs, field))
		if err != nil {
			return err
		}
		b.progress("%s: %.0f us, bleve %.0f us", name, our, their)
		b.least(name, ratio, 20, "x")
		return nil
	})
}

func (o *other) ask(qs []question, filter string) func() (float64, error) {
	return func() (float64, error) {
		total := time.Duration(0)
		for _, q := range qs {
			request := o.request(q, filter)
			start := cpu()
			if _, err := o.index.Search(request); err != nil {
				return 0, err
			}
			total += cpu() - start
		}
		return float64(total.Nanoseconds()) / 1000 / float64(len(qs)), nil
	}
}

// growth: twenty times the documents cost less than twenty times as much.
func (b *bench) growth() error {
	return b.each("bm25-growth", large, func(e *engine, qs []question, filter, name string) error {
		first, err := b.engine(small)
		if err != nil {
			return err
		}
		our, their, ratio, err := compare(b.rounds, first.ask(qs, filter), e.ask(qs, filter))
		if err != nil {
			return err
		}
		b.progress("%s: %.0f us at %d documents, %.0f us at %d", name, our, small, their, large)
		b.most(name, ratio, large/small, "x")
		return nil
	})
}

// cold reports the first questions of principals that were never seen: each pays for the visible set and for the document
// frequencies of its words.
func (b *bench) cold() error {
	if !b.wants("bm25-cold") {
		return nil
	}
	for _, documents := range []int{small, usual, large} {
		e, err := b.engine(documents)
		if err != nil {
			return err
		}
		for _, f := range filters {
			qs, err := b.questions(4)
			if err != nil {
				return err
			}
			var times []float64
			for _, q := range qs {
				fresh := e.allow[f.name].Clone() // another identity
				start := cpu()
				if _, err := e.segment.Search(bm25.Query{Text: q.String(), Allow: fresh, K: top, K1: k1, B: lengthB}); err != nil {
					return err
				}
				times = append(times, micros(start, 1))
			}
			b.note("bm25-cold-%d-%s first question of a principal set, 4 terms: %.0f us", documents, f.name, median(times))
			b.bars++
		}
	}
	return nil
}
