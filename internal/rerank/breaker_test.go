package rerank

import (
	"slices"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	now := time.Unix(0, 0)
	var states []BreakerState
	b := &Breaker{now: func() time.Time { return now }, Changed: func(s BreakerState) { states = append(states, s) }}
	call := func(o Outcome) bool {
		if !b.Allow() {
			return false
		}
		b.Report(o, 0)
		return true
	}
	expect := func(what string, want ...BreakerState) {
		t.Helper()
		if !slices.Equal(states, want) {
			t.Errorf("%s: states %v, want %v", what, states, want)
		}
		states = nil
	}
	for range 100 { // failures that never come in a row, and are fewer than half
		call(Failed)
		call(Succeeded)
		call(Succeeded)
		call(Neutral)
	}
	expect("some failures")
	for range breakerRow {
		call(Failed)
	}
	expect("failures in a row", Open)
	now = now.Add(breakerPause - 1)
	if call(Succeeded) {
		t.Error("a call while it is open")
	}
	now = now.Add(1)
	if !b.Allow() || b.Allow() {
		t.Error("there must be one probe, and one only")
	}
	b.Report(Failed, 0)
	expect("a probe that fails", HalfOpen, Open)
	now = now.Add(2*breakerPause - 1)
	if call(Succeeded) {
		t.Error("the pause did not double")
	}
	now = now.Add(1)
	call(Neutral)
	expect("a probe that says nothing", HalfOpen, Open)
	call(Succeeded)
	expect("a probe that succeeds", HalfOpen, Closed)
	for i := range breakerRow - 1 {
		if !call(Failed) {
			t.Errorf("closed, but call %d was not allowed", i)
		}
	}
	expect("fewer failures than a row")
	call(Succeeded)
	for range breakerWindow {
		call(Failed)
		call(Failed)
		call(Succeeded)
	}
	expect("half of the window failed", Open)
}

func TestBreakerRestsAsLongAsItIsAsked(t *testing.T) {
	now := time.Unix(0, 0)
	b := &Breaker{now: func() time.Time { return now }}
	for range breakerRow {
		b.Allow()
		b.Report(Failed, time.Hour)
	}
	now = now.Add(breakerMaxPause - 1)
	if b.Allow() {
		t.Error("it was asked to rest longer")
	}
	now = now.Add(1)
	if !b.Allow() {
		t.Error("nobody may ask for more than the longest pause")
	}
	for range 20 { // pauses stop growing
		b.Report(Failed, 0)
		now = now.Add(breakerMaxPause)
		if !b.Allow() {
			t.Fatal("a pause is longer than the longest")
		}
	}
}
