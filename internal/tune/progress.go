package tune

import (
	"fmt"
	"time"
)

// clock measures how long new trials take: those that need an index of their own, and those that only ask.
type clock struct {
	in      Input
	start   time.Time
	last    time.Time
	best    Progress
	indexes map[string]bool
	// spent and count of new trials, with an index of their own and without.
	spent [2]time.Duration
	count [2]int
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
	case c.in.Budget > 0 && spent >= c.in.Budget && c.count[0]+c.count[1] > 0:
		return fmt.Sprintf("after %d trials, because %s have passed, as --budget says: start again to go on", done, c.in.Budget)
	}
	return ""
}

// tick notes a trial and reports it.
func (c *clock) tick(t Trial, cached bool, done int, in Input) {
	now := in.Now()
	kind := 1
	if key := t.Recipe.IndexKey(); !c.indexes[key] {
		c.indexes[key], kind = true, 0
	}
	if !cached {
		c.spent[kind] += now.Sub(c.last)
		c.count[kind]++
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

// left guesses the time of so many trials: those that build an index come first, so the later ones are those that ask.
func (c *clock) left(trials int) time.Duration {
	indexes := min(trials, max(0, c.in.Plan.indexBound()-len(c.indexes)))
	each := func(kind int) time.Duration {
		if c.count[kind] == 0 {
			kind = 1 - kind
		}
		if c.count[kind] == 0 {
			return 0
		}
		return c.spent[kind] / time.Duration(c.count[kind])
	}
	left := time.Duration(indexes)*each(0) + time.Duration(trials-indexes)*each(1)
	if c.in.Budget > 0 {
		left = min(left, max(0, c.in.Budget-c.in.Now().Sub(c.start)))
	}
	return left
}
