package tune

import (
	"math"
	"math/rand/v2"
	"testing"
)

// With every sign equal only the two assignments without a mixed sign are as extreme; the others are counted by hand.
func TestPairedPExact(t *testing.T) {
	for _, c := range []struct {
		name string
		d    []float64
		want float64
	}{
		{"nothing", nil, 1},
		{"no difference", []float64{0, 0, 0}, 1},
		{"one", []float64{0.3}, 1},
		{"three alike", []float64{1, 1, 1}, 2.0 / 8},
		{"three alike, with ties between", []float64{0, 1, 0, 1, 1}, 2.0 / 8},
		{"five losses", []float64{-1, -1, -1, -1, -1}, 2.0 / 32},
		{"two against one: every sum is as far from 0", []float64{1, 1, -1}, 1},
		// Sums of +-1 +-2 +-3: 6, 4, 2, 0, 0, -2, -4, -6; at least 4 away from 0 are four.
		{"observed 4 of 6", []float64{-1, 2, 3}, 4.0 / 8},
		{"sums that round differently", []float64{0.1, 0.2, 0.3, -0.6 + 0.6}, 2.0 / 8},
	} {
		if got := PairedP(c.d, "seed"); got != c.want {
			t.Errorf("%s: p %v, want %v", c.name, got, c.want)
		}
	}
}

// The drawn test agrees with the exact one: both count the same 16 differences, one of them with a 17th too small to matter.
func TestPairedPDrawn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, exactUpTo)
	for i := range d {
		d[i] = random.Float64() - 0.35
	}
	exact, drawn := PairedP(d, "a"), PairedP(append(d, 1e-12), "a")
	if math.Abs(exact-drawn) > 4*math.Sqrt(exact/permutations) {
		t.Errorf("exact p %v, drawn p %v", exact, drawn)
	}
	if again := PairedP(append(d, 1e-12), "a"); again != drawn {
		t.Errorf("the same seed gave %v and %v", drawn, again)
	}
}

// Under the null the p-values are uniform: 5 % of them are below 5 %.
func TestPairedPIsCalibrated(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const runs = 1000
	below := 0
	for range runs {
		d := make([]float64, 12)
		for i := range d {
			d[i] = random.NormFloat64()
		}
		if PairedP(d, "x") < 0.05 {
			below++
		}
	}
	if below < 25 || below > 80 { // 50, more than 3.5 standard deviations off
		t.Errorf("%d of %d p-values below 0.05 where nothing is real, want about 50", below, runs)
	}
}

func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{nil, []float64{}},
		{[]float64{0.04}, []float64{0.04}},
		// The example that textbooks use: 0.01*4, 0.02*3, 0.03*2 raised to what stands before, 0.04*1 likewise.
		{[]float64{0.04, 0.01, 0.03, 0.02}, []float64{0.06, 0.04, 0.06, 0.06}},
		{[]float64{0.6, 0.5}, []float64{1, 1}},
	} {
		got := Holm(c.p)
		if len(got) != len(c.want) {
			t.Fatalf("%v: got %v", c.p, got)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("Holm(%v) is %v, want %v", c.p, got, c.want)
			}
		}
	}
}
