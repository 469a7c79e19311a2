package tune

import (
	"fmt"
	"time"
)

// kind is what a trial takes: an index of its own, questions alone, or questions and a reranker.
type kind int

const (
	indexes kind = iota
	asks
	reranks
)

// clock measures how long new trials of each kind take.
type clock struct {
	in      Input
	start   time.Time
	last    time.Time
	best    Progress
	indexes map[string]bool
	spent   [3]time.Duration
	count   [3]int
	seen    [3]int // trials, those measured before included
}

func newClock(in Input) *clock {
	now := in.Now()
	return &clock{in: in, start: now, last: now, indexes: map[string]bool{}}
}

// stop says why no further trial is made after done of them. The baseline is always measured.
func (c *clock) stop(done int) string {
	switch spent := c.in.Now().Sub(c.start); {
	case done == 0:
	case c.in.Max > 0 && done >= c.in.Max:
		return fmt.Sprintf("after %d trials, as --max says", done)
	case c.in.Budget > 0 && spent >= c.in.Budget && c.count != [3]int{}:
		return fmt.Sprintf("after %d trials, because %s have passed, as --budget says; the same command goes on from there", done, c.in.Budget)
	}
	return ""
}

// tick notes a trial and reports it.
func (c *clock) tick(t Trial, cached bool, done int, in Input) {
	now := in.Now()
	k := asks
	if t.Recipe.reranks() {
		k = reranks
	} else if key := t.Recipe.IndexKey(); !c.indexes[key] {
		c.indexes[key], k = true, indexes
	}
	c.seen[k]++
	if !cached {
		c.spent[k] += now.Sub(c.last)
		c.count[k]++
	}
	c.last = now
	if done == 1 || t.Mean > c.best.Best {
		c.best.Best, c.best.BestRecipe = t.Mean, t.Recipe
	}
	if in.Progress == nil {
		return
	}
	p := c.best
	p.Trial, p.Done, p.Cached = t, done, cached
	p.Most = in.Plan.Bound()
	if in.Max > 0 {
		p.Most = min(p.Most, in.Max)
	}
	p.Left = c.left(p.Most - done)
	in.Progress(p)
}

// left guesses the time of so many trials. A kind that was not seen yet is taken for one that only asks.
func (c *clock) left(trials int) time.Duration {
	most := [3]int{indexes: c.in.Plan.indexBound(), reranks: c.in.Plan.rerankBound()}
	var left time.Duration
	for k := range most {
		n := min(trials, max(0, most[k]-c.seen[k]))
		trials -= n
		left += time.Duration(n) * c.each(kind(k))
	}
	left += time.Duration(trials) * c.each(asks)
	if c.in.Budget > 0 {
		left = min(left, max(0, c.in.Budget-c.in.Now().Sub(c.start)))
	}
	return left
}

// each is the mean time of a kind, or of whatever kind is known.
func (c *clock) each(k kind) time.Duration {
	for _, k := range []kind{k, asks, indexes} {
		if c.count[k] > 0 {
			return c.spent[k] / time.Duration(c.count[k])
		}
	}
	return 0
}
