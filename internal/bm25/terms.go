package bm25

// Terms of a question, for asking several segments of one analyzer.
type Terms struct{ terms []queryTerm }

// Terms are what this segment's analyzer finds in a text.
func (s *Segment) Terms(text string) *Terms { return &Terms{s.queryTerms(text)} }

func (s *Segment) termsOf(q Query) []queryTerm {
	if q.Terms == nil {
		return s.queryTerms(q.Text)
	}
	return q.Terms.terms
}
