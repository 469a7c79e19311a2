package kernel

import (
	"math"
	"unsafe"
)

// generic runs anywhere, and is what the others are checked against.
var generic = &Set{Name: "generic", Levels: 255, IntRows: 4, IntColumns: Panel, FloatRows: 4, FloatColumns: 4,
	mulInt8: mulInt8, mulFloat: mulFloat, addNorm: addNorm, quantize: quantize, gelu: gelu, softmax: softmax}

// chunk is how many pairs of rows mulInt8 keeps at hand.
const chunk = 1536

func floats(p *float32, n int) []float32 { return unsafe.Slice(p, n) }

// mulInt8 does 4 rows of 64 columns. Two rows share a product of 64 bits: a0 + a1<<32 times a signed weight adds up both
// sums at once, as each fits 32 bits.
func mulInt8(k4 int, a *uint8, lda int, b *int8, c *float32, ldc int, scale, columns *float32, stride int) {
	var pairs [chunk]int64
	n := 4 * k4
	rows, w := unsafe.Slice(a, 3*lda+n), unsafe.Slice(b, k4*4*Panel)
	column, s, out := floats(columns, 2*stride+Panel), floats(scale, 8), floats(c, 3*ldc+Panel)
	for r := 0; r < 4; r += 2 {
		x, y := rows[r*lda:][:n], rows[(r+1)*lda:][:n]
		for k := range x {
			pairs[k] = int64(x[k]) | int64(y[k])<<32
		}
		for j := 0; j < Panel; j += 4 {
			var sums [4]int64
			sums[0], sums[1], sums[2], sums[3] = dotPairs(pairs[:n], w[j*4:])
			for i, sum := range sums {
				col, low := j+i, int32(sum)
				for h, v := range [2]int32{low, int32((sum - int64(low)) >> 32)} {
					h += r
					out[h*ldc+col] = s[2*h]*(column[col]*float32(v)) + (s[2*h+1]*column[stride+col] + column[2*stride+col])
				}
			}
		}
	}
}

// dotPairs keeps its four sums in registers.
//
//go:noinline
func dotPairs(p []int64, w []int8) (c0, c1, c2, c3 int64) {
	for len(p) >= 4 && len(w) >= 16 {
		x, y := (*[4]int64)(p), (*[16]int8)(w)
		c0 += x[0]*int64(y[0]) + x[1]*int64(y[1]) + x[2]*int64(y[2]) + x[3]*int64(y[3])
		c1 += x[0]*int64(y[4]) + x[1]*int64(y[5]) + x[2]*int64(y[6]) + x[3]*int64(y[7])
		c2 += x[0]*int64(y[8]) + x[1]*int64(y[9]) + x[2]*int64(y[10]) + x[3]*int64(y[11])
		c3 += x[0]*int64(y[12]) + x[1]*int64(y[13]) + x[2]*int64(y[14]) + x[3]*int64(y[15])
		if len(w) < 4*Panel {
			break
		}
		p, w = p[4:], w[4*Panel:]
	}
	return c0, c1, c2, c3
}

// mulFloat does 4 rows of 4 columns, two rows at a time so that eight sums stay in registers.
func mulFloat(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int) {
	rows, br, out := floats(a, 3*lda+k), floats(b, (k-1)*ldb+4), floats(c, 3*ldc+4)
	for r := 0; r < 4; r += 2 {
		x, y := rows[r*lda:][:k], rows[(r+1)*lda:][:k]
		var s0, s1, s2, s3, t0, t1, t2, t3 float32
		for i, u := range x {
			w, v := (*[4]float32)(br[i*ldb:]), y[i]
			s0 += u * w[0]
			s1 += u * w[1]
			s2 += u * w[2]
			s3 += u * w[3]
			t0 += v * w[0]
			t1 += v * w[1]
			t2 += v * w[2]
			t3 += v * w[3]
		}
		*(*[4]float32)(out[r*ldc:]) = [4]float32{s0, s1, s2, s3}
		*(*[4]float32)(out[(r+1)*ldc:]) = [4]float32{t0, t1, t2, t3}
	}
}

func addNorm(xp, yp, gain, bias *float32, n int) {
	x, y, g, b := floats(xp, n), floats(yp, n), floats(gain, n), floats(bias, n)
	var sum, square float32
	for i := range x {
		x[i] += y[i]
		sum += x[i]
	}
	mean := sum / float32(n)
	for _, f := range x {
		square += (f - mean) * (f - mean)
	}
	inverse := 1 / float32(math.Sqrt(float64(square/float32(n)+1e-12)))
	for i := range x {
		x[i] = (x[i]-mean)*inverse*g[i] + b[i]
	}
}

func quantize(xp *float32, n int, qp *uint8, scale *float32, levels float32) {
	x, q, s := floats(xp, n), unsafe.Slice(qp, n), floats(scale, 2)
	low, high := x[0], x[0]
	for _, f := range x {
		low, high = min(low, f), max(high, f)
	}
	d := max(high-low, 1e-20)
	s[0], s[1] = d/levels, low
	inverse := levels / d
	for i, f := range x {
		// adding 2^23 rounds to the nearest even number, as the vector instructions do
		q[i] = uint8(math.Float32bits(float32((f-low)*inverse) + 1<<23))
	}
}

// geluPolynomial P: gelu(x) = x*(1/2 + x*P(x*x)) on |x| <= 4.4, minimax by Lawson's iteration.
var geluPolynomial = [...]float32{0.3988981246948242, -0.06636977195739746, 0.00985859613865614, -0.0011322562349960208,
	9.989604586735368e-05, -6.621897682634881e-06, 3.1580785274764356e-07, -1.0120272619928983e-08,
	1.934362392486122e-10, -1.6564666305285414e-12}

func gelu(xp *float32, n int) {
	x := floats(xp, n)
	for i, f := range x {
		c := min(max(f, -4.4), 4.4)
		z, p := c*c, geluPolynomial[9]
		for k := 8; k >= 0; k-- {
			p = p*z + geluPolynomial[k]
		}
		x[i] = f * (p*c + .5)
	}
}

// softmax computes exp(t) as 2^k times Cephes' polynomial for expf on the rest, |rest| <= ln 2 / 2.
func softmax(xp *float32, n int) {
	x := floats(xp, n)
	most := x[0]
	for _, f := range x {
		most = max(most, f)
	}
	var sum float32
	for i, f := range x {
		t := max(f-most, -87)
		k := math.Float32frombits(math.Float32bits(float32(t*math.Log2E)+3<<22)) - 3<<22
		t = t - k*0.693359375 - k*-2.12194440e-4
		p := ((((8.3334519073e-3*t+4.1665795894e-2)*t+1.6666665459e-1)*t+.5)*t+1)*t + 1
		p = math.Float32frombits(math.Float32bits(p) + uint32(int32(k))<<23)
		x[i] = p
		sum += p
	}
	sum = 1 / sum
	for i := range x {
		x[i] *= sum
	}
}
