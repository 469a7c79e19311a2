package search

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"
)

// decodeBody reads one JSON object of at most limit bytes, with known fields only.
func decodeBody(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return problem(http.StatusRequestEntityTooLarge, "RequestTooLarge", "the body has more than %d bytes: shorten the query", limit)
		}
		return badRequest("the body ended early: send it whole")
	}
	if !utf8.Valid(body) {
		return badRequest("the body is not valid UTF-8: encode it as UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return badRequest("%s", explainJSON(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badRequest("text follows the JSON object: send one object")
	}
	return nil
}

// explainJSON says what is wrong without repeating values, which may be the text of a query.
func explainJSON(err error) string {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		if wrongType.Field == "" {
			return "the body is a JSON " + wrongType.Value + ": send an object such as {\"query\": \"..\"}"
		}
		return wrongType.Field + " is a " + wrongType.Value + ": it must be a " + jsonName(wrongType.Type.Kind())
	}
	if name, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return "field " + name + " is not known: use query, topK and explain"
	}
	return "the body is not valid JSON: send an object such as {\"query\": \"..\"}"
}

// jsonName is what a user of JSON calls a Go type.
func jsonName(kind reflect.Kind) string {
	if kind == reflect.Int {
		return "whole number"
	}
	return kind.String()
}

func checkQuery(query string) error {
	if strings.TrimSpace(query) == "" {
		return badRequest("query is empty: write what to search for")
	}
	if n := utf8.RuneCountInString(query); n > MaxQuery {
		return badRequest("query has %d characters: at most %d are allowed", n, MaxQuery)
	}
	return nil
}

// check fills in the defaults of a request and refuses what is out of range.
func (r *Request) check(defaultTopK int) (topK int, err error) {
	if err := checkQuery(r.Query); err != nil {
		return 0, err
	}
	topK = defaultTopK
	if r.TopK != nil {
		topK = *r.TopK
	}
	if topK < 1 || topK > MaxTopK {
		return 0, badRequest("topK is %d: use 1 to %d", topK, MaxTopK)
	}
	if r.Explain != "" && r.Explain != "None" && r.Explain != "Ranks" {
		return 0, badRequest("explain is not known: use Ranks or None")
	}
	return topK, nil
}
