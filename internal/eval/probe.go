package eval

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// confirmations is how often a suspected question is asked again: a gateway has several replicas, and each must be clean.
const confirmations = 3

// probe checks every answer of the subject with the second evaluator, and notes in each answer what it must not have shown.
func (in RunInput) probe(ctx context.Context, client *http.Client, answers []answer, access RawAccess) (LeakReport, error) {
	var report LeakReport
	suspected := false
	for i := range answers {
		a := &answers[i]
		if a.subject != nil {
			report.Probes++
		}
		a.leaked = forbiddenHits(a.question, a.subject, access)
		suspected = suspected || len(a.leaked) > 0
	}
	if !suspected {
		return report, nil
	}
	select {
	case <-ctx.Done():
		return report, fmt.Errorf("the run was stopped: %w", ctx.Err())
	case <-time.After(in.Grace):
	}
	again, err := in.Access(ctx)
	if err != nil {
		return report, fmt.Errorf("read the access rules again, to confirm a forbidden hit: %w", err)
	}
	for i := range answers {
		a := &answers[i]
		a.leaked = both(a.leaked, forbiddenHits(a.question, a.subject, again))
		if len(a.leaked) == 0 {
			continue
		}
		confirmed := in.confirm(ctx, client, *a, again)
		report.Late += len(a.leaked) - len(confirmed)
		report.Hits += len(confirmed)
		a.leaked = confirmed
	}
	return report, nil
}

// confirm asks a question again after the grace period, and returns what is still shown. Without a grace period, without an
// answer, and for what the question itself forbids, the first answer stands.
func (in RunInput) confirm(ctx context.Context, client *http.Client, a answer, access RawAccess) []string {
	if in.Grace <= 0 {
		return a.leaked
	}
	var confirmed []string
	for _, document := range a.leaked {
		if slices.Contains(a.question.Forbidden, document) {
			confirmed = append(confirmed, document)
		}
	}
	for range confirmations {
		hits, _, err := in.Subject.search(ctx, client, a.question, in.depth(a.question))
		if err != nil {
			return a.leaked
		}
		confirmed = append(confirmed, both(a.leaked, forbiddenHits(a.question, hits, access))...)
	}
	slices.Sort(confirmed)
	return slices.Compact(confirmed)
}

// both keeps what two lists share.
func both(first, second []string) []string {
	var shared []string
	for _, s := range first {
		if slices.Contains(second, s) {
			shared = append(shared, s)
		}
	}
	return shared
}
