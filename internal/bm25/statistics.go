package bm25

// Statistics are what BM25 takes from a visible set for one question. Those of the parts of a set add up to those of the
// whole, so that an index of several segments scores as if it were one.
type Statistics struct {
	Chunks, Tokens uint64
	// Frequencies say in how many visible chunks each distinct term stands, in the order of their first appearance.
	Frequencies []uint64
}

// Statistics of the visible chunks of this segment, as far as q needs them. The error wraps frame.ErrCorrupt.
func (s *Segment) Statistics(q Query) (Statistics, error) {
	v := s.view(q.Allow)
	out := Statistics{Chunks: v.chunks, Tokens: v.tokens, Frequencies: []uint64{}}
	for _, word := range s.termsOf(q) {
		_, _, df, err := s.lookUp(word.text, v)
		if err != nil {
			return Statistics{}, err
		}
		out.Frequencies = append(out.Frequencies, uint64(df))
	}
	return out, nil
}

// Add adds those of another part of the same set for the same question.
func (s *Statistics) Add(part Statistics) {
	s.Chunks += part.Chunks
	s.Tokens += part.Tokens
	if s.Frequencies == nil {
		s.Frequencies = make([]uint64, len(part.Frequencies))
	}
	for i := range min(len(s.Frequencies), len(part.Frequencies)) {
		s.Frequencies[i] += part.Frequencies[i]
	}
}
