package bm25

const (
	// tabled frequencies and lengths are those of nearly all postings of chunks.
	tabledTFs     = 4
	tabledLengths = 1024
)

// saturation is tf/(tf+norm) with the length norm k1*(1-b+b*length/average): what a posting gains of the weight of its
// term. It grows with tf and falls with length, in rounding too, so that the gain of an impact bounds those of its block.
type saturation struct {
	k1, b       float64
	chunks      uint64
	tokens      uint64
	base, slope float64
	table       [tabledTFs * tabledLengths]float64 // by tf-1, then length
}

// newSaturation takes the average from the visible set.
func newSaturation(k1, b float64, chunks, tokens uint64) *saturation {
	s := &saturation{k1: k1, b: b, chunks: chunks, tokens: tokens, base: k1 * (1 - b)}
	if tokens > 0 {
		s.slope = k1 * b * float64(chunks) / float64(tokens)
	}
	for i := range s.table {
		s.table[i] = s.compute(uint32(i/tabledLengths+1), uint32(i%tabledLengths))
	}
	return s
}

func (s *saturation) compute(tf, length uint32) float64 {
	// the conversion forbids a fused multiply-add, see toFixed
	norm := s.base + float64(s.slope*float64(length))
	return float64(tf) / (float64(tf) + norm)
}

func (s *saturation) of(tf, length uint32) float64 {
	if tf-1 < tabledTFs && length < tabledLengths {
		return s.table[(tf-1)*tabledLengths+length]
	}
	return s.compute(tf, length)
}
