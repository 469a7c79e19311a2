package rerank

import (
	"context"
	"errors"
	"time"
)

// Reason says why there are no scores: a label of metrics, from this closed list.
type Reason string

// The reasons.
const (
	// ReasonTimeout: not within the time that there was.
	ReasonTimeout Reason = "Timeout"
	// ReasonCancelled: nobody waits for the scores any more.
	ReasonCancelled Reason = "Cancelled"
	// ReasonConnection: the server cannot be reached, or the connection broke.
	ReasonConnection Reason = "Connection"
	// ReasonOverloaded: HTTP 408, 424, 429 and 5xx.
	ReasonOverloaded Reason = "Overloaded"
	// ReasonRefused: HTTP 400, 413 and 422, which are about this question and its passages.
	ReasonRefused Reason = "Refused"
	// ReasonStatus: any other HTTP status, such as 401 and redirects: settings or key are wrong.
	ReasonStatus Reason = "Status"
	// ReasonAnswer: an answer that is not the scores of these passages.
	ReasonAnswer Reason = "Answer"
	// ReasonKey: the API key cannot be read.
	ReasonKey Reason = "Key"
	// ReasonOpen: the server failed too often and is left alone for a while.
	ReasonOpen Reason = "BreakerOpen"
)

// Failure is why there are no scores. Its text holds nothing of the question, of a passage, of the key, or of what a
// server wrote, which may repeat any of them.
type Failure struct {
	Reason  Reason
	Message string

	// again: the same request may succeed, but not before after has passed.
	again bool
	after time.Duration
}

// Error implements error.
func (f *Failure) Error() string { return "rerank: " + string(f.Reason) + ": " + f.Message }

func contextFailure(ctx context.Context) *Failure {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Failure{Reason: ReasonTimeout, Message: "the time for reranking has passed"}
	}
	return &Failure{Reason: ReasonCancelled, Message: "nobody waits for the scores"}
}
