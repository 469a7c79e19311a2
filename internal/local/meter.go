package local

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// A line of a terminal is written anew so often; elsewhere a line is added now and then.
	terminalInterval = 100 * time.Millisecond
	lineInterval     = 5 * time.Second
)

// Meter shows progress: what is done of how much, at what rate, and how long it will take.
type Meter struct {
	out      io.Writer
	terminal bool
	now      func() time.Time

	mu             sync.Mutex
	what           string
	started, shown time.Time
	first          int  // done when this work was first heard of
	open           bool // a line of the terminal waits to be ended
}

// NewMeter writes to out; on a terminal it keeps to one line.
func NewMeter(out io.Writer, terminal bool) *Meter {
	return &Meter{out: out, terminal: terminal, now: time.Now}
}

// Progress is told how far some work is; it may be called at any rate.
func (m *Meter) Progress(what string, done, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if what != m.what {
		m.end()
		m.what, m.started, m.shown, m.first = what, now, now, done
	}
	interval := lineInterval
	if m.terminal {
		interval = terminalInterval
	}
	if now.Sub(m.shown) < interval && (done < total || !m.open) {
		return // work that ends at once is not worth a line
	}
	m.shown = now
	line := fmt.Sprintf("%s: %d of %d%s", what, done, total, m.pace(now, done, total))
	if m.terminal {
		fmt.Fprintf(m.out, "\r%s\x1b[K", line)
		m.open = true
		return
	}
	fmt.Fprintln(m.out, line)
}

// pace is the rate, and what is left at that rate.
func (m *Meter) pace(now time.Time, done, total int) string {
	seconds := now.Sub(m.started).Seconds()
	if seconds <= 0 || done <= m.first {
		return ""
	}
	rate := float64(done-m.first) / seconds
	text := fmt.Sprintf(", %.3g a second", rate)
	if rate >= 1000 {
		text = fmt.Sprintf(", %.0f a second", rate)
	}
	if done < total {
		text += fmt.Sprintf(", %s left", time.Duration(float64(total-done)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// End clears the line of a terminal, so that what follows has it.
func (m *Meter) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
	m.what = ""
}

func (m *Meter) end() {
	if m.open {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.open = false
	}
}
