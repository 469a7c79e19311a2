package kernel

import (
	"cmp"
	"slices"
)

// A step is four rows of weights, which the kernels multiply at a time; a half step two of them. Without VNNI the products of
// a half step with activations of at most 127 are summed in 16 bits: 127*(127+127) fits. The sums of two steps may be added
// before they are widened where neither their positive nor their negative weights together exceed mostPaired, in any column.
const mostPaired = (1<<15 - 1) / 127

// pairing is in which order mulPaired takes the steps of tileColumns columns: first those that are paired.
type pairing struct {
	pairs int
	order []uint16
}

const (
	tileColumns = 16
	halves      = 2 * tileColumns // half steps of a tile
)

// load is the sums of a step's positive weights and of its negative ones, for each half step.
type load struct {
	positive, negative [halves]int16
	most               int16
}

// Prepare works out what s needs to know of a layer's weights, once.
func (s *Set) Prepare(l *Linear) {
	if s.mulPaired == nil {
		return
	}
	l.pairings = make([]pairing, 0, l.Out/tileColumns)
	loads := make([]load, l.In/4)
	for n := 0; n < l.Out; n += tileColumns {
		tile := l.Weights[n/Panel*Panel*l.In+n%Panel*4:]
		for k := range loads {
			loads[k] = newLoad(tile[k*Panel*4:][:tileColumns*4])
		}
		l.pairings = append(l.pairings, pair(loads))
	}
}

func newLoad(w []int8) (l load) {
	for i := range halves {
		for _, v := range w[2*i : 2*i+2] {
			l.positive[i] += max(0, int16(v))
			l.negative[i] -= min(0, int16(v))
		}
		l.most = max(l.most, l.positive[i], l.negative[i])
	}
	return l
}

// pair finds, for the heaviest step left, the lightest one that may be added to it.
func pair(loads []load) pairing {
	left := make([]uint16, len(loads))
	for k := range left {
		left[k] = uint16(k)
	}
	slices.SortStableFunc(left, func(a, b uint16) int { return cmp.Compare(loads[b].most, loads[a].most) })
	var p pairing
	var singles []uint16
	for len(left) > 0 {
		heavy, at := left[0], len(left)-1
		for at > 0 && !fits(&loads[heavy], &loads[left[at]]) {
			at--
		}
		if at == 0 {
			singles = append(singles, heavy)
		} else {
			p.pairs++
			p.order = append(p.order, heavy, left[at])
			left = slices.Delete(left, at, at+1)
		}
		left = left[1:]
	}
	p.order = append(p.order, singles...)
	return p
}

func fits(a, b *load) bool {
	if a.most+b.most <= mostPaired {
		return true
	}
	for i := range halves {
		if a.positive[i]+b.positive[i] > mostPaired || a.negative[i]+b.negative[i] > mostPaired {
			return false
		}
	}
	return true
}
