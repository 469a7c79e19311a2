package eval

import (
	"strings"
	"testing"
)

func TestParseSet(t *testing.T) {
	good := `{"id":"a","question":"how long is leave","as":{"user":"ann","groups":["hr"]},"part":"Dev","evidence":[[{"document":"hr/leave.md","quote":"26 weeks","grade":2},{"document":"faq.md"}],[{"document":"law.md"}]]}

{"id":"b","question":"what is the salary of bob","as":{"user":"ann"},"kind":"Forbidden","forbidden":["hr/pay.md"]}
{"id":"c","question":"who won in 1998","as":{"user":"ann"},"kind":"Unanswerable"}
`
	questions, err := ParseSet([]byte("\xef\xbb\xbf" + good))
	if err != nil {
		t.Fatal(err)
	}
	if len(questions) != 3 || questions[0].Kind != Answerable || len(questions[0].Evidence) != 2 || questions[1].Kind != Forbidden ||
		questions[0].Part != Dev || questions[0].Evidence[0][0].gain() != 2 || questions[0].Evidence[0][1].gain() != 1 {
		t.Fatalf("got %+v", questions)
	}
}

func TestParseSetRefuses(t *testing.T) {
	line := func(fields string) string { return `{"id":"a","question":"q","as":{"user":"u"},` + fields + `}` }
	evidence := `"evidence":[[{"document":"d"}]]`
	for name, c := range map[string]struct{ set, want string }{
		"empty":            {"\n\n", "no question"},
		"broken JSON":      {"{", "line 1: not a JSON object"},
		"unknown field":    {line(`"evidense":[]`), `field "evidense" is not known: use id`},
		"wrong type":       {line(`"evidence":"d"`), "evidence is a string: write a list"},
		"two values":       {line(evidence) + "{}", "more than one JSON value"},
		"no id":            {`{"question":"q"}`, `id "" has 0 bytes`},
		"blank question":   {`{"id":"a","question":"  "}`, "blank"},
		"no user":          {`{"id":"a","question":"q"}`, "name the user"},
		"empty group":      {`{"id":"a","question":"q","as":{"user":"u","groups":[""]},` + evidence + `}`, "as.groups[0]"},
		"unknown kind":     {line(`"kind":"Maybe"`), `kind "Maybe" is not known: use Answerable`},
		"no evidence":      {line(`"kind":"Answerable"`), `evidence [] of the Answerable question "a" is empty`},
		"empty alternates": {line(`"evidence":[[]]`), "evidence[0] has 0 alternatives"},
		"empty document":   {line(`"evidence":[[{"quote":"x"}]]`), `evidence[0][0].document "" is empty`},
		"wordless quote":   {line(`"evidence":[[{"document":"d","quote":"--"}]]`), "holds no word"},
		"no grade":         {line(`"evidence":[[{"document":"d","grade":0}]]`), "evidence[0][0].grade is 0: use 1 to 1000"},
		"broken grade":     {line(`"evidence":[[{"document":"d","grade":1.5}]]`), "grade is a number 1.5: write a whole number"},
		"unknown part":     {line(`"part":"dev",` + evidence), `part "dev" is not known: use Dev`},
		"both":             {line(evidence + `,"forbidden":["d"]`), "also in forbidden"},
		"contradiction":    {line(`"kind":"Unanswerable",` + evidence), "leave evidence out"},
		"nothing to probe": {line(`"kind":"Forbidden"`), "forbidden [] of the Forbidden question"},
		"duplicate":        {line(evidence) + "\n\n" + line(evidence), `line 3: id "a" was used on line 1`},
		"second line":      {line(evidence) + "\nnull", "line 2"},
		"not UTF-8":        {"{\"id\":\"\xff\"}", "UTF-8"},
		"long line":        {strings.Repeat("x", maxLineBytes+1), "longer than"},
		"long question":    {`{"id":"a","as":{"user":"u"},"question":"` + strings.Repeat("é", maxQuestionRunes+1) + `"}`, "10001 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			questions, err := ParseSet([]byte(c.set))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if questions != nil {
				t.Errorf("a faulty set gave %d questions", len(questions))
			}
		})
	}
	many := strings.Repeat("{}\n", 100)
	if _, err := ParseSet([]byte(many)); strings.Count(err.Error(), "\n") != maxFaults-1 {
		t.Errorf("got %d faults, want %d", strings.Count(err.Error(), "\n")+1, maxFaults)
	}
}
