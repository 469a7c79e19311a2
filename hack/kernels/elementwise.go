package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func indexed(p, i reg.GPVirtual) Mem { return Mem{Base: p, Index: i, Scale: 1} }

// addNorm: x = layernorm(x+y)*gain + bias; n is a multiple of 16.
func (v isa) addNorm() {
	v.begin("addNorm", "func(x, y, gain, bias *float32, n int)")
	x, y, gain, bias, n := param("x"), param("y"), param("gain"), param("bias"), param("n")
	inverse, f := XMM(), v.vec()
	one := v.broadcast(1)
	VCVTSI2SSQ(n, one.AsX(), inverse)
	VDIVSS(inverse, one.AsX(), inverse)
	VBROADCASTSS(inverse, f) // 1/n
	SHLQ(Imm(2), n)
	s, t := v.vec(), v.vec()
	v.zero(s)
	loop("sum", n, v.bytes(), func(i reg.GPVirtual) {
		VMOVUPS(indexed(x, i), t)
		VADDPS(indexed(y, i), t, t)
		VMOVUPS(t, indexed(x, i))
		VADDPS(t, s, s)
	})
	mean := v.reduce(s, VADDPS)
	VMULPS(f, mean, mean)
	v.zero(s)
	loop("variance", n, v.bytes(), func(i reg.GPVirtual) {
		VMOVUPS(indexed(x, i), t)
		VSUBPS(mean, t, t)
		VFMADD231PS(t, t, s)
	})
	deviation := v.reduce(s, VADDPS)
	VMULPS(f, deviation, deviation)
	VADDPS(v.broadcast(1e-12), deviation, deviation)
	VSQRTPS(deviation, deviation)
	VDIVPS(deviation, one, deviation)
	loop("out", n, v.bytes(), func(i reg.GPVirtual) {
		VMOVUPS(indexed(x, i), t)
		VSUBPS(mean, t, t)
		VMULPS(deviation, t, t)
		VMOVUPS(indexed(bias, i), s)
		VFMADD231PS(indexed(gain, i), t, s)
		VMOVUPS(s, indexed(x, i))
	})
	end()
}

// quantize: q = round((x-min)*levels/(max-min)), scale = {(max-min)/levels, min}; n is a multiple of 32.
func (v isa) quantize() {
	v.begin("quantize", "func(x *float32, n int, q *uint8, scale *float32, levels float32)")
	x, n, q, scale := param("x"), param("n"), param("q"), param("scale")
	SHLQ(Imm(2), n)
	low, high, t := v.vec(), v.vec(), v.vec()
	VMOVUPS(Mem{Base: x}, low)
	VMOVUPS(low, high)
	loop("range", n, v.bytes(), func(i reg.GPVirtual) {
		VMOVUPS(indexed(x, i), t)
		VMINPS(t, low, low)
		VMAXPS(t, high, high)
	})
	low, high = v.reduce(low, VMINPS), v.reduce(high, VMAXPS)
	levels := v.vec()
	p, _ := Param("levels").Resolve()
	VBROADCASTSS(p.Addr, levels)
	VSUBPS(low, high, high)
	VMAXPS(v.broadcast(1e-20), high, high)
	VDIVPS(levels, high, t)
	VMOVSS(t.AsX(), Mem{Base: scale})
	VMOVSS(low.AsX(), Mem{Base: scale, Disp: 4})
	VDIVPS(high, levels, high) // 1/step
	store, vectors := v.packBytes()
	loop("round", n, vectors*v.bytes(), func(i reg.GPVirtual) {
		r := v.vecs(vectors)
		for j := range r {
			VMOVUPS(Mem{Base: x, Index: i, Scale: 1, Disp: j * v.bytes()}, r[j])
			VSUBPS(low, r[j], r[j])
			VMULPS(high, r[j], r[j])
			VCVTPS2DQ(r[j], r[j])
		}
		store(r, q)
	})
	end()
}

// packBytes returns what stores the int32 numbers of so many vectors as bytes and moves q behind them.
func (v isa) packBytes() (store func(r []reg.VecVirtual, q reg.GPVirtual), vectors int) {
	if v.lanes == 16 {
		return func(r []reg.VecVirtual, q reg.GPVirtual) {
			VPMOVUSDB(r[0], Mem{Base: q})
			ADDQ(Imm(16), q)
		}, 1
	}
	d := GLOBL("order", RODATA|NOPTR) // packing works within halves of a register
	for i, k := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(k))
	}
	order := v.vec()
	VMOVDQU(d, order)
	return func(r []reg.VecVirtual, q reg.GPVirtual) {
		VPACKSSDW(r[1], r[0], r[0])
		VPACKSSDW(r[3], r[2], r[2])
		VPACKUSWB(r[2], r[0], r[0])
		VPERMD(r[0], order, r[0])
		VMOVDQU(r[0], Mem{Base: q})
		ADDQ(Imm(32), q)
	}, 4
}

// geluPolynomial P: gelu(x) = x*(1/2 + x*P(x*x)) on |x| <= 4.4, minimax by Lawson's iteration.
var geluPolynomial = []float64{0.3988981246948242, -0.06636977195739746, 0.00985859613865614, -0.0011322562349960208,
	9.989604586735368e-05, -6.621897682634881e-06, 3.1580785274764356e-07, -1.0120272619928983e-08,
	1.934362392486122e-10, -1.6564666305285414e-12}

// gelu in place; n is a multiple of 32.
func (v isa) gelu() {
	v.begin("gelu", "func(x *float32, n int)")
	x, n := param("x"), param("n")
	SHLQ(Imm(2), n)
	low, high, half := v.broadcast(-4.4), v.broadcast(4.4), v.broadcast(.5)
	coefficients := v.geluCoefficients()
	const chains = 2 // independent ones in flight
	loop("l", n, chains*v.bytes(), func(i reg.GPVirtual) {
		a, c, z, p := v.vecs(chains), v.vecs(chains), v.vecs(chains), v.vecs(chains)
		for u := range chains {
			VMOVUPS(Mem{Base: x, Index: i, Scale: 1, Disp: u * v.bytes()}, a[u])
			VMINPS(high, a[u], c[u])
			VMAXPS(low, c[u], c[u])
			VMULPS(c[u], c[u], z[u])
			VMOVUPS(coefficients[len(coefficients)-1], p[u])
		}
		for k := len(coefficients) - 2; k >= 0; k-- {
			for u := range chains {
				VFMADD213PS(coefficients[k], z[u], p[u])
			}
		}
		for u := range chains {
			VFMADD213PS(half, c[u], p[u])
			VMULPS(a[u], p[u], p[u])
			VMOVUPS(p[u], Mem{Base: x, Index: i, Scale: 1, Disp: u * v.bytes()})
		}
	})
	end()
}

// geluCoefficients lie in registers, or in memory where those are few.
func (v isa) geluCoefficients() (r []Op) {
	for _, f := range geluPolynomial {
		if v.lanes == 16 {
			r = append(r, v.broadcast(f))
			continue
		}
		d := GLOBL(fmt.Sprintf("gelu_%08x", math.Float32bits(float32(f))), RODATA|NOPTR)
		for i := range v.lanes {
			DATA(4*i, F32(f))
		}
		r = append(r, d)
	}
	return r
}

// expPolynomial is that of Cephes' expf, its linear coefficients being 1.
var expPolynomial = []float64{1, 1, 5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3}

// softmax in place; n is a multiple of 16.
func (v isa) softmax() {
	v.begin("softmax", "func(x *float32, n int)")
	x, n := param("x"), param("n")
	SHLQ(Imm(2), n)
	m, s, t := v.vec(), v.vec(), v.vec()
	VMOVUPS(Mem{Base: x}, m)
	loop("max", n, v.bytes(), func(i reg.GPVirtual) { VMAXPS(indexed(x, i), m, m) })
	m = v.reduce(m, VMAXPS)
	v.zero(s)
	log2e, floor := v.broadcast(math.Log2E), v.broadcast(-87)
	ln2high, ln2low := v.broadcast(0.693359375), v.broadcast(-2.12194440e-4)
	var co []reg.VecVirtual
	for _, f := range expPolynomial {
		co = append(co, v.broadcast(f))
	}
	loop("exp", n, v.bytes(), func(i reg.GPVirtual) {
		k, kf, p := v.vec(), v.vec(), v.vec()
		VMOVUPS(indexed(x, i), t)
		VSUBPS(m, t, t)
		VMAXPS(floor, t, t)
		VMULPS(log2e, t, kf)
		VCVTPS2DQ(kf, k)
		VCVTDQ2PS(k, kf)
		VFNMADD231PS(ln2high, kf, t)
		VFNMADD231PS(ln2low, kf, t)
		VMOVAPS(co[5], p)
		for j := 4; j >= 0; j-- {
			VFMADD213PS(co[j], t, p)
		}
		VPSLLD(Imm(23), k, k)
		VPADDD(k, p, p)
		VADDPS(p, s, s)
		VMOVUPS(p, indexed(x, i))
	})
	s = v.reduce(s, VADDPS)
	VDIVPS(s, co[0], s)
	loop("norm", n, v.bytes(), func(i reg.GPVirtual) {
		VMULPS(indexed(x, i), s, t)
		VMOVUPS(t, indexed(x, i))
	})
	end()
}
