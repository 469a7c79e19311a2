package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sets calls test for every set of this machine.
func sets(t *testing.T, test func(t *testing.T, s *Set, r *rand.Rand)) {
	for _, s := range Available() {
		t.Run(s.Name, func(t *testing.T) { test(t, s, rand.New(rand.NewPCG(1, 2))) })
	}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func checkClose(t *testing.T, what string, got, want []float32, absolute, relative float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= absolute+relative*math.Abs(float64(want[i]))) {
			t.Fatalf("%s: number %d is %g, want %g", what, i, got[i], want[i])
		}
	}
}

// randomLinear has weights of a random spread, up to all of them at the ends of the range.
func randomLinear(r *rand.Rand, in, out int) *Linear {
	l := &Linear{In: in, Out: out, Weights: make([]int8, in*out), Columns: normal(r, 3*out)}
	spread := 20 + 300*r.Float64()
	for i := range l.Weights {
		l.Weights[i] = int8(max(-127, min(127, math.Round(r.NormFloat64()*spread))))
	}
	for n := range out {
		sum := 0
		for k := range in {
			sum += weight(l, k, n)
		}
		l.Columns[out+n] = float32(float64(l.Columns[n]) * float64(sum))
	}
	return l
}

func weight(l *Linear, k, n int) int {
	return int(l.Weights[(n/Panel*l.In/4+k/4)*Panel*4+n%Panel*4+k%4])
}

func TestApply(t *testing.T) {
	sets(t, func(t *testing.T, s *Set, r *rand.Rand) {
		for range 40 {
			in, out, rows := 32*(1+r.IntN(48)), Panel*(1+r.IntN(4)), 1+r.IntN(30)
			l := randomLinear(r, in, out)
			s.Prepare(l)
			q, scale := make([]uint8, (rows+SpareRows)*in), normal(r, 2*(rows+SpareRows))
			for i := range q {
				q[i] = uint8(r.IntN(int(s.Levels) + 1))
				if i < in {
					q[i] = uint8(s.Levels)
				}
			}
			const stride = 70 // more than a panel: what lies between stays as it was
			panel := (rows + SpareRows) * stride
			got := slices.Repeat([]float32{-7}, out/Panel*panel)
			s.Apply(l, rows, q, scale, got, stride, panel)
			checkApply(t, l, rows, q, scale, got, stride, panel)
		}
	})
}

// checkApply compares with the definition. The sums are exact; the numbers after them differ by roundings, those of the 128
// steps too by which a set of signed activations moves the minimum.
func checkApply(t *testing.T, l *Linear, rows int, q []uint8, scale, got []float32, stride, panel int) {
	t.Helper()
	for row := range rows {
		for n := range l.Out {
			sum := 0
			for k := range l.In {
				sum += int(q[row*l.In+k]) * weight(l, k, n)
			}
			step, low := float64(scale[2*row]), float64(scale[2*row+1])
			c := func(i int) float64 { return float64(l.Columns[i*l.Out+n]) }
			want := step*c(0)*float64(sum) + low*c(1) + c(2)
			at := n/Panel*panel + row*stride + n%Panel
			size := math.Abs(step*c(0)*float64(sum)) + (math.Abs(low)+128*math.Abs(step))*math.Abs(c(1)) + math.Abs(c(2))
			if d := math.Abs(float64(got[at]) - want); d > 1e-6*size {
				t.Fatalf("%d rows, %dx%d: row %d column %d is %g, want %g", rows, l.In, l.Out, row, n, got[at], want)
			}
		}
		if got[row*stride+Panel] != -7 {
			t.Fatalf("row %d: wrote beyond its panel", row)
		}
	}
}

func TestMultiply(t *testing.T) {
	sets(t, func(t *testing.T, s *Set, r *rand.Rand) {
		for range 30 {
			k, n := 1+r.IntN(260), KeyPanel*(1+r.IntN(8))
			lda, ldc, panel := k+r.IntN(9), n+r.IntN(9), k*KeyPanel
			a, b, c := normal(r, SpareRows*lda), normal(r, n/KeyPanel*panel), make([]float32, SpareRows*ldc)
			s.Multiply(k, n, a, lda, b, KeyPanel, panel, c, ldc)
			for row := range s.FloatRows {
				want := make([]float32, n)
				for j := range want {
					sum := 0.0
					for i := range k {
						sum += float64(a[row*lda+i]) * float64(b[j/KeyPanel*panel+i*KeyPanel+j%KeyPanel])
					}
					want[j] = float32(sum)
				}
				checkClose(t, "product", c[row*ldc:], want, 1e-4, 0)
			}
		}
	})
}

func TestAddNorm(t *testing.T) {
	sets(t, func(t *testing.T, s *Set, r *rand.Rand) {
		for range 30 {
			n := 16 * (1 + r.IntN(40))
			x, y, norm := normal(r, n), normal(r, n), normal(r, 2*n)
			mean, variance := 0.0, 0.0
			for i := range x {
				mean += float64(x[i]+y[i]) / float64(n)
			}
			for i := range x {
				variance += math.Pow(float64(x[i]+y[i])-mean, 2) / float64(n)
			}
			want := make([]float32, n)
			for i := range x {
				want[i] = float32((float64(x[i]+y[i])-mean)/math.Sqrt(variance+1e-12)*float64(norm[i]) + float64(norm[n+i]))
			}
			s.AddNorm(x, y, norm)
			checkClose(t, "normalised", x, want, 1e-5, 1e-5)
		}
	})
}

func TestQuantize(t *testing.T) {
	sets(t, func(t *testing.T, s *Set, r *rand.Rand) {
		for i := range 50 {
			x := normal(r, 32*(1+r.IntN(48)))
			if i == 0 {
				clear(x) // a row without any range
			}
			q, scale := make([]uint8, len(x)), make([]float32, 2)
			s.Quantize(x, q, scale)
			low, high := slices.Min(x), slices.Max(x)
			if scale[1] != low || math.Abs(float64(scale[0]*s.Levels-(high-low))) > 1e-5 {
				t.Fatalf("scale %v for %g to %g", scale, low, high)
			}
			for k, f := range x {
				if d := math.Abs(float64(scale[0]*float32(q[k]) + scale[1] - f)); d > 0.5001*float64(scale[0]) || float32(q[k]) > s.Levels {
					t.Fatalf("%g became %d, which is %g away with a step of %g", f, q[k], d, scale[0])
				}
			}
		}
	})
}

func TestGELU(t *testing.T) {
	sets(t, func(t *testing.T, s *Set, r *rand.Rand) {
		x := make([]float32, 64*512)
		for i := range x {
			x[i] = 12 * (2*float32(i)/float32(len(x)) - 1)
		}
		x[0], x[1] = -1e30, 1e30
		want := make([]float32, len(x))
		for i, f := range x {
			want[i] = float32(float64(f) * math.Erfc(-float64(f)/math.Sqrt2) / 2)
		}
		want[0] = x[0] * 1e-7 // the clamped tail is not quite zero; see the tolerance
		s.GELU(x)
		checkClose(t, "gelu", x[2:], want[2:], 1e-4, 1e-5)
	})
}

func TestSoftmax(t *testing.T) {
	sets(t, func(t *testing.T, s *Set, r *rand.Rand) {
		for range 50 {
			n := 16 * (1 + r.IntN(16))
			x := normal(r, n)
			sum, want := 0.0, make([]float32, n)
			for i := range x {
				x[i] *= 8
				if i > 0 && r.IntN(4) == 0 {
					x[i] = -1e30 // padding
				}
			}
			for _, f := range x {
				sum += math.Exp(float64(f))
			}
			for i, f := range x {
				want[i] = float32(math.Exp(float64(f)) / sum)
			}
			s.Softmax(x)
			checkClose(t, "softmax", x, want, 1e-12, 1e-5)
		}
	})
}

// Sums that mulPaired adds in 16 bits stay within them, each step is taken once, and most find a partner.
func TestPairs(t *testing.T) {
	s, r := &Set{mulPaired: func(int, int, *uint16, *uint8, int, *int8, *float32, int, *float32, *float32, int) {}}, rand.New(rand.NewPCG(3, 4))
	for range 20 {
		l := randomLinear(r, 32*(1+r.IntN(48)), Panel)
		s.Prepare(l)
		for i, p := range l.pairings {
			seen := slices.Clone(p.order)
			slices.Sort(seen)
			if seen = slices.Compact(seen); len(seen) != l.In/4 || len(p.order) != l.In/4 {
				t.Fatalf("%d of %d steps are taken", len(seen), l.In/4)
			}
			for k := 0; k < 2*p.pairs; k += 2 {
				checkPair(t, l, i*tileColumns, int(p.order[k]), int(p.order[k+1]))
			}
		}
	}
	light := &Linear{In: 64, Out: Panel, Weights: slices.Repeat([]int8{64, -64}, 32*Panel)}
	if s.Prepare(light); light.pairings[0].pairs != 8 {
		t.Errorf("%d pairs of light weights, want all 8", light.pairings[0].pairs)
	}
}

func checkPair(t *testing.T, l *Linear, column, a, b int) {
	t.Helper()
	for i := range halves {
		positive, negative := 0, 0
		for _, step := range []int{a, b} {
			for _, w := range l.Weights[(step*Panel+column)*4+2*i:][:2] {
				positive += max(0, int(w)) * 127
				negative += min(0, int(w)) * 127
			}
		}
		if positive > math.MaxInt16 || negative < math.MinInt16 {
			t.Fatalf("steps %d and %d: sums of %d to %d leave 16 bits", a, b, negative, positive)
		}
	}
}

func TestChoose(t *testing.T) {
	all := Available()
	for _, s := range all {
		if got, err := choose(all, s.Name); err != nil || got != s {
			t.Errorf("%s: %v, %v", s.Name, got, err)
		}
	}
	if got, err := choose(all, ""); err != nil || got != all[0] {
		t.Errorf("no name: %v, %v", got, err)
	}
	_, err := choose(all, "mmx")
	if err == nil || !strings.Contains(err.Error(), "QUARRY_KERNELS=mmx") || !strings.Contains(err.Error(), "generic") {
		t.Errorf("an unknown name: %v", err)
	}
}

func BenchmarkApply(b *testing.B) {
	for _, s := range Available() {
		b.Run(s.Name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			const rows, in, out = 96, 384, 1536
			l := randomLinear(r, in, out)
			for i := range l.Weights {
				l.Weights[i] = int8(max(-127, min(127, 37*r.NormFloat64()))) // as those of the model
			}
			s.Prepare(l)
			q, scale, c := make([]uint8, (rows+SpareRows)*in), make([]float32, 2*(rows+SpareRows)), make([]float32, (rows+SpareRows)*out)
			for b.Loop() {
				s.Apply(l, rows, q, scale, c, out, Panel)
			}
			b.ReportMetric(float64(b.N)*rows*in*out/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}
