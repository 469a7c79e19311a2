// Package eval measures how well an index version answers labelled questions, and whether it shows anybody what they may not read.
//
// It asks a running gateway as the principals that the eval set names, and knows nothing of how the gateway works: matching,
// tie rule, statistics and the check for leaks are its own, so that one bug cannot hide on both sides.
package eval

// Kind says what a question is for.
type Kind string

const (
	// Answerable questions have evidence, and are measured.
	Answerable Kind = "Answerable"
	// Unanswerable questions have no answer in the corpus; they only probe for leaks.
	Unanswerable Kind = "Unanswerable"
	// Forbidden questions have an answer that the asker must not see; they only probe for leaks.
	Forbidden Kind = "Forbidden"
)

// Principal is who asks a question. The tenant is that of the index.
type Principal struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
}

// Evidence is one place where the answer stands: a document or, with a quote, a passage of it.
type Evidence struct {
	Document string `json:"document"`
	Quote    string `json:"quote,omitempty"`
	// Grade is the gain of nDCG, linear as in trec_eval: 1 to 1000, and 1 where it is absent. The other metrics ask only
	// whether something is evidence.
	Grade *int `json:"grade,omitempty"`
}

// gain is the grade, or its default.
func (e Evidence) gain() int {
	if e.Grade == nil {
		return 1
	}
	return *e.Grade
}

// Part keeps the questions that a recipe was chosen on apart from those that judge it: a recipe that was chosen on a
// question answers that one better than the next.
type Part string

const (
	// Dev questions are for trying: a gate does not count them.
	Dev Part = "Dev"
	// Gate questions judge. It is the part of every question that names none.
	Gate Part = "Gate"
)

// Question is one line of an eval set.
type Question struct {
	ID       string    `json:"id"`
	Question string    `json:"question"`
	As       Principal `json:"as"`
	Kind     Kind      `json:"kind,omitempty"`
	// Part is Dev or Gate; absent in a set that is not divided.
	Part Part `json:"part,omitempty"`
	// Evidence holds groups of alternatives: an answer needs every group, and any one member of it.
	Evidence [][]Evidence `json:"evidence,omitempty"`
	// Forbidden names documents that must never be among the hits, whatever the rules say.
	Forbidden []string `json:"forbidden,omitempty"`
}

// Measured tells whether a gate counts the question. All others only probe for leaks.
func (q Question) Measured() bool { return q.Kind == Answerable && q.Part != Dev }

// Passages tells whether the question counts passages; without any quote it counts distinct documents.
func (q Question) Passages() bool {
	for _, group := range q.Evidence {
		for _, e := range group {
			if e.Quote != "" {
				return true
			}
		}
	}
	return false
}
