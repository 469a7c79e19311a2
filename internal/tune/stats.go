package tune

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	// exactUpTo this many questions that differ, every assignment of signs is counted: 65,536 sums.
	exactUpTo = 16
	// permutations are drawn beyond that. The least p-value is then 1 in 50,001, which still counts among 1,000 trials.
	permutations = 50_000
)

// PairedP is the two-sided p-value of the paired randomisation test (Fisher 1935; Smucker, Allan and Carterette 2007 for
// retrieval): the share of assignments of signs to the differences whose sum is at least as far from 0 as the one
// observed. Were both recipes alike, each difference could as well have had the other sign. It is exact for up to 16
// differences other than 0; beyond, (1 + as extreme) / (1 + drawn), with draws that seed fixes.
func PairedP(differences []float64, seed string) float64 {
	var d []float64
	observed, scale := 0.0, 0.0
	for _, x := range differences {
		if x != 0 {
			d = append(d, x)
			observed += x
			scale += math.Abs(x)
		}
	}
	if len(d) == 0 {
		return 1
	}
	// Sums in another order round differently; what is equal but for that is as extreme.
	limit := math.Abs(observed) - 1e-9*scale
	if len(d) <= exactUpTo {
		return exactP(d, observed, limit)
	}
	hash := fnv.New64a()
	hash.Write([]byte(seed))
	random := rand.New(rand.NewPCG(hash.Sum64(), uint64(len(d))))
	tables, extreme := signedSums(d), 0
	for range permutations {
		if math.Abs(draw(tables, random)) >= limit {
			extreme++
		}
	}
	return float64(1+extreme) / float64(1+permutations)
}

// exactP walks all signs in the order of a Gray code, in which neighbours differ by one sign.
func exactP(d []float64, sum, limit float64) float64 {
	signs := make([]float64, len(d))
	for i := range signs {
		signs[i] = 1
	}
	extreme, all := 1, 1<<len(d)
	for i := 1; i < all; i++ {
		flip := bits.TrailingZeros(uint(i))
		signs[flip] = -signs[flip]
		sum += 2 * signs[flip] * d[flip]
		if math.Abs(sum) >= limit {
			extreme++
		}
	}
	return float64(extreme) / float64(all)
}

// signedSums are, for each eight differences, the sums of all 256 assignments of signs, so that a draw costs one look-up
// per eight.
func signedSums(d []float64) [][256]float64 {
	tables := make([][256]float64, (len(d)+7)/8)
	for i, x := range d {
		for signs := range 256 {
			if signs>>(i%8)&1 == 1 {
				tables[i/8][signs] -= x
			} else {
				tables[i/8][signs] += x
			}
		}
	}
	return tables
}

func draw(tables [][256]float64, random *rand.Rand) float64 {
	sum, word := 0.0, uint64(0)
	for i := range tables {
		if i%8 == 0 {
			word = random.Uint64()
		}
		sum += tables[i][byte(word)]
		word >>= 8
	}
	return sum
}

// Holm adjusts p-values for their number (Holm 1979): with all those below alpha called real, the chance that any of them
// is none is at most alpha, however they depend on each other.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(p[a], p[b]), cmp.Compare(a, b)) })
	adjusted, highest := make([]float64, len(p)), 0.0
	for rank, i := range order {
		highest = max(highest, min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = highest
	}
	return adjusted
}

func differences(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}
