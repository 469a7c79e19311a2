package kernel

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
		a, b := int16(w[2*i]), int16(w[2*i+1])
		positive := max(0, a) + max(0, b)
		negative := positive - a - b
		l.positive[i], l.negative[i], l.most = positive, negative, max(l.most, positive, negative)
	}
	return l
}

// pair finds a partner for each step, the nearest after it that may be added to it: memory is read almost in its order.
func pair(loads []load) pairing {
	p := pairing{order: make([]uint16, 0, len(loads))}
	taken := make([]bool, len(loads))
	var singles []uint16
	for a := range loads {
		if taken[a] {
			continue
		}
		b := a + 1
		for b < len(loads) && (taken[b] || !fits(&loads[a], &loads[b])) {
			b++
		}
		if b == len(loads) {
			singles = append(singles, uint16(a))
			continue
		}
		taken[b] = true
		p.pairs++
		p.order = append(p.order, uint16(a), uint16(b))
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
