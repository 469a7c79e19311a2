// Package kernel holds the inner loops of the sentence encoder: products of int8 and of float32 matrices, quantisation,
// layer normalisation, GELU and softmax, once in plain Go and once for each instruction set that makes them fast.
package kernel

// Panel is how many columns of weights lie together.
const Panel = 64

// SpareRows is how many rows a buffer needs beyond its last one: tiles may run past it, and read and write there.
const SpareRows = 8

// KeyPanel is how many columns of the right side of a float32 product are packed together. Every FloatColumns divides it.
const KeyPanel = 32

// Set is the loops for one instruction set. Sets round differently, so that their vectors differ a little; within a set a
// row's result depends on nothing but the row.
//
// The functions take pointers as assembly does. Rows of a and c are lda and ldc elements apart.
type Set struct {
	// Name goes into attestations.
	Name string
	// Levels is the largest quantised activation: 255, or 127 where the sum of two products has only 16 bits.
	Levels float32
	// IntRows and IntColumns are the tile of mulInt8, FloatRows and FloatColumns that of mulFloat.
	IntRows, IntColumns     int
	FloatRows, FloatColumns int

	// mulInt8 sums 4*k4 products for IntRows rows of a and IntColumns columns of b, a part of a panel [k4][Panel][4], and
	// writes them dequantised; k4 is a multiple of 4:
	//
	//	c[r][j] = scale[r][0]*(columns[0][j]*sum) + (scale[r][1]*columns[1][j] + columns[2][j])
	//
	// scale holds pairs of a row's step and minimum; columns three arrays, stride apart: the column's step, the sum of
	// its dequantised weights, the bias.
	mulInt8 func(k4 int, a *uint8, lda int, b *int8, c *float32, ldc int, scale, columns *float32, stride int)
	// mulPaired replaces mulInt8 in a set without VNNI. It takes the steps of k in an order, the first 2*pairs of them by twos.
	mulPaired func(pairs, singles int, order *uint16, a *uint8, lda int, b *int8, c *float32, ldc int, scale, columns *float32, stride int)
	// mulFloat writes the product of FloatRows rows of a, k long, and FloatColumns columns of b, whose rows are ldb apart.
	mulFloat func(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
	// addNorm makes x = (x+y - mean)/sqrt(variance + 1e-12)*gain + bias, n a multiple of 16.
	addNorm func(x, y, gain, bias *float32, n int)
	// quantize makes q = round((x-min)/step), step = (max-min)/levels, scale = {step, min}, n a multiple of 32.
	quantize func(x *float32, n int, q *uint8, scale *float32, levels float32)
	// gelu in place, absolute error below 1e-4, n a multiple of 32.
	gelu func(x *float32, n int)
	// softmax in place, relative error below 5e-6, n a multiple of 16.
	softmax func(x *float32, n int)
}

// Linear is a layer y = x*W + bias: int8 weights with a step per column, packed for mulInt8.
type Linear struct {
	In, Out int
	// Weights is [Out/Panel][In/4][Panel][4].
	Weights []int8
	// Columns is [3][Out]: step, sum of the dequantised column, bias.
	Columns []float32

	pairings []pairing // per tile of columns
}

// Apply writes the output of a layer, prepared for s, for rows rows, quantised in q [rows][In] with scale [rows][2], to out: rows are stride
// apart, and panels of 64 columns panel. Buffers have SpareRows more rows.
func (s *Set) Apply(l *Linear, rows int, q []uint8, scale, out []float32, stride, panel int) {
	for p := 0; p < l.Out; p += Panel {
		for n := p; n < p+Panel; n += s.IntColumns {
			w, c := &l.Weights[p*l.In+(n-p)*4], out[p/Panel*panel+n-p:]
			if s.mulPaired != nil {
				p := l.pairings[n/s.IntColumns]
				for r := 0; r < rows; r += s.IntRows {
					s.mulPaired(p.pairs, len(p.order)-2*p.pairs, &p.order[0], &q[r*l.In], l.In, w, &c[r*stride], stride, &scale[2*r], &l.Columns[n], l.Out)
				}
				continue
			}
			for r := 0; r < rows; r += s.IntRows {
				s.mulInt8(l.In/4, &q[r*l.In], l.In, w, &c[r*stride], stride, &scale[2*r], &l.Columns[n], l.Out)
			}
		}
	}
}

// Multiply writes c = a*b for FloatRows rows of a [rows][k]. b lies in panels of KeyPanel columns, panel apart, whose rows
// are ldb apart; n is the number of columns, a multiple of KeyPanel.
func (s *Set) Multiply(k, n int, a []float32, lda int, b []float32, ldb, panel int, c []float32, ldc int) {
	for j := 0; j < n; j += s.FloatColumns {
		s.mulFloat(k, &a[0], lda, &b[j/KeyPanel*panel+j%KeyPanel], ldb, &c[j], ldc)
	}
}

// AddNorm makes x the layer normalisation of x+y, with the gain and bias of norm [2][len(x)].
func (s *Set) AddNorm(x, y, norm []float32) {
	n := len(x)
	s.addNorm(&x[0], &y[:n][0], &norm[:n][0], &norm[n:][:n][0], n)
}

// Quantize writes a row x to q and its step and minimum to scale [2].
func (s *Set) Quantize(x []float32, q []uint8, scale []float32) {
	s.quantize(&x[0], len(x), &q[:len(x)][0], &scale[:2][0], s.Levels)
}

// GELU applies x*Phi(x) to each number.
func (s *Set) GELU(x []float32) { s.gelu(&x[0], len(x)) }

// Softmax makes exp(x) of sum 1.
func (s *Set) Softmax(x []float32) { s.softmax(&x[0], len(x)) }
