package rerank

import (
	"sync"
	"time"
)

const (
	// breakerRow failures in a row open the breaker; so does a share of breakerShare of the last breakerWindow calls.
	breakerRow    = 5
	breakerWindow = 20
	breakerShare  = 0.5
	// It stays open for breakerPause, twice as long after each probe that fails, and at most breakerMaxPause.
	breakerPause    = 5 * time.Second
	breakerMaxPause = time.Minute
)

// BreakerState is the state of a Breaker, as metrics show it.
type BreakerState int

// The states.
const (
	Closed BreakerState = iota
	HalfOpen
	Open
)

// Outcome is what came of a call.
type Outcome int

// The outcomes. Neutral says nothing of the server: the caller gave up, or its own request was at fault.
const (
	Neutral Outcome = iota
	Succeeded
	Failed
)

// Breaker leaves a server alone that fails again and again, so that it costs nothing, and lets one call through from time
// to time to see whether it is back. The zero value is closed. It is safe for concurrent use.
type Breaker struct {
	// Changed, when set, is called with each new state.
	Changed func(BreakerState)

	mu     sync.Mutex
	now    func() time.Time // time.Now by default
	state  BreakerState
	until  time.Time // open
	pause  time.Duration
	row    int
	recent [breakerWindow]bool // a ring: failed
	calls  int                 // since it was closed
}

// Allow tells whether a call may be made now. Each allowed call must be followed by one Report.
func (b *Breaker) Allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case Closed:
		return true
	case Open:
		if b.clock().Before(b.until) {
			return false
		}
		b.become(HalfOpen)
		return true
	}
	return false // a probe is under way
}

// Report tells what came of an allowed call. After a Failed one the breaker stays open for at least rest, when it opens.
func (b *Breaker) Report(outcome Outcome, rest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state == Open: // a call that began before it opened
	case b.state == HalfOpen && outcome == Succeeded:
		b.row, b.calls, b.pause = 0, 0, 0
		b.become(Closed)
	case b.state == HalfOpen && outcome == Neutral:
		b.until = b.clock() // the next call is the probe
		b.become(Open)
	case b.state == HalfOpen:
		b.open(rest)
	case outcome != Neutral && b.record(outcome == Failed):
		b.open(rest)
	}
}

// record adds a call to the window and tells whether there are too many failures.
func (b *Breaker) record(failed bool) bool {
	b.recent[b.calls%breakerWindow] = failed
	b.calls++
	if !failed {
		b.row = 0
		return false
	}
	b.row++
	share := 0
	for _, f := range b.recent[:min(b.calls, breakerWindow)] {
		if f {
			share++
		}
	}
	return b.row >= breakerRow || b.calls >= breakerWindow && float64(share) >= breakerShare*breakerWindow
}

func (b *Breaker) open(rest time.Duration) {
	b.pause = min(max(breakerPause, 2*b.pause), breakerMaxPause)
	b.until = b.clock().Add(min(max(b.pause, rest), breakerMaxPause))
	b.become(Open)
}

func (b *Breaker) become(s BreakerState) {
	b.state = s
	if b.Changed != nil {
		b.Changed(s)
	}
}

func (b *Breaker) clock() time.Time {
	if b.now != nil {
		return b.now()
	}
	return time.Now()
}
