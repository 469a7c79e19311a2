package stage

// Size of a segment in chunks.
type Size struct{ Living, Dead uint64 }

// The policy of compaction.
const (
	// maxSegments bounds what a search has to ask and merge.
	maxSegments = 8
	// maxDeadPercent of a segment's chunks: they take memory, and a walk of the graph passes through them.
	maxDeadPercent = 30
	// tier is how many times larger than all that is newer a segment must be to stay as it is.
	tier = 2
)

// Compact chooses which of some segments, oldest first, are not kept: their living documents go into the new segment, beside
// as many chunks as were added. It is pure, so that equal inputs give equal indexes. A segment goes
//
//  1. when nothing of it lives, or more than 30 % of it is dead;
//  2. when something new is written that, with all that goes, is at least half of it: so each segment that stays is more
//     than twice as large as what is newer, and a chunk is written again a number of times that grows with the logarithm
//     of the corpus;
//  3. when there would be more than eight segments: then the smallest go.
func Compact(segments []Size, added uint64) (goes []bool) {
	goes = make([]bool, len(segments))
	kept, written := len(segments), added
	take := func(i int) {
		goes[i] = true
		kept--
		written += segments[i].Living
	}
	for i, s := range segments {
		if s.Living == 0 || s.Dead*100 > (s.Living+s.Dead)*maxDeadPercent {
			take(i)
		}
	}
	for {
		i := smallest(segments, goes)
		tooMany := kept >= maxSegments && written > 0 || kept > maxSegments
		if i < 0 || !(tooMany || written > 0 && segments[i].Living <= tier*written) {
			return goes
		}
		take(i)
	}
}

// smallest of those that are kept, the newest of equal ones; -1: none is kept.
func smallest(segments []Size, goes []bool) int {
	best := -1
	for i, s := range segments {
		if !goes[i] && (best < 0 || s.Living <= segments[best].Living) {
			best = i
		}
	}
	return best
}
