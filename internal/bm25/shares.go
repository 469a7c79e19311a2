package bm25

// fewBlocks are bounded anew for each question.
const fewBlocks = 32

// shares are the highest shares of the weight that the blocks of a term allow in each window, 0 where it has none. They depend
// on the statistics of the visible set and not on the question, so they are found once.
type shares struct {
	of       *saturation
	byWindow []float64
}

// sharesOf returns them for a term with many blocks, else nil.
func (v *view) sharesOf(l postings, of *saturation) []float64 {
	if l.blocks <= fewBlocks {
		return nil
	}
	v.mu.Lock()
	known := v.shares[l.term]
	v.mu.Unlock()
	if known.of == of {
		return known.byWindow
	}
	known = shares{of, nil}
	block := 0
	for _, w := range windows(l.limit) {
		most := 0.0
		for block < l.blocks && l.last(block) < w.first {
			block++
		}
		for b := block; l.reaches(b, w.last); b++ {
			most = max(most, of.ofBlock(l.heads[b*headSize:]))
		}
		known.byWindow = append(known.byWindow, most)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.shares) >= keptShares {
		clear(v.shares)
	}
	v.shares[l.term] = known
	return known.byWindow
}
