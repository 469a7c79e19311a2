package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Problem is an RFC 9457 problem document, and an error. Title is a stable CamelCase word; Detail is for people and never
// holds a query, a token or the name of a document.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

func problem(status int, title, format string, args ...any) *Problem {
	return &Problem{Type: "urn:quarry:problem:" + title, Title: title, Status: status, Detail: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *Problem {
	return problem(http.StatusBadRequest, "InvalidRequest", format, args...)
}

// unauthorized is one and the same for every token that proves nothing here, whatever the reason.
func unauthorized() *Problem {
	return problem(http.StatusUnauthorized, "Unauthorized", "send a valid token of this service in the header Authorization: Bearer")
}

func unavailable(detail string) *Problem {
	return problem(http.StatusServiceUnavailable, "Unavailable", "%s; try again shortly", detail)
}

// writeProblem writes err as a problem document. An error that is no Problem is a fault of ours, whose text stays here.
func writeProblem(w http.ResponseWriter, err error) int {
	var p *Problem
	if !errors.As(err, &p) {
		p = unavailable("the search failed")
	}
	body, marshalErr := json.Marshal(p)
	if marshalErr != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
	return p.Status
}

func writeJSON(w http.ResponseWriter, value any) int {
	body, err := json.Marshal(value)
	if err != nil {
		return writeProblem(w, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
	return http.StatusOK
}
