package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mulInt8 multiplies rows of unsigned activations by vectors of signed weight columns, see kernel.Set.
func (v isa) mulInt8(rows, vectors int) {
	v.begin("mulInt8", "func(k4 int, a *uint8, lda int, b *int8, c *float32, ldc int, scale *float32, columns *float32, stride int)")
	k4, a, lda, b := param("k4"), param("a"), param("lda"), param("b")
	acc := v.zeros(rows * vectors)
	at, advance := tileRows(rows, a, lda)
	w, x := v.vecs(vectors), v.vec()
	multiply := v.multiplier()
	Label("k")
	for j := range w {
		v.loadBytes(Mem{Base: b, Disp: j * v.bytes()}, w[j])
	}
	for r := range rows {
		VPBROADCASTD(at(r, 0), x)
		for j := range w {
			multiply(w[j], x, acc[r*vectors+j])
		}
	}
	advance(4)
	ADDQ(U32(256), b)
	DECQ(k4)
	JNE(LabelRef("k"))
	v.dequantize(rows, vectors, acc, x, w)
	end()
}

// multiplier returns what adds the products of w and x to acc.
func (v isa) multiplier() func(w, x, acc reg.VecVirtual) {
	if v.dot != widening {
		return func(w, x, acc reg.VecVirtual) { vpdpbusd(w, x, acc) }
	}
	ones, t := v.vec(), v.vec()
	VPCMPEQW(ones, ones, ones)
	VPSRLW(Imm(15), ones, ones)
	return func(w, x, acc reg.VecVirtual) {
		VPMADDUBSW(w, x, t) // two products in 16 bits: 2*127*127 fits
		VPMADDWD(ones, t, t)
		VPADDD(t, acc, acc)
	}
}

// dequantize writes step*(scale*acc) + (minimum*sum + bias) to c.
func (v isa) dequantize(rows, vectors int, acc []reg.VecVirtual, x reg.VecVirtual, w []reg.VecVirtual) {
	c, ldc, scale, columns, stride := param("c"), paramBytes("ldc"), param("scale"), param("columns"), paramBytes("stride")
	for r := range rows {
		VBROADCASTSS(Mem{Base: scale, Disp: 8 * r}, x)
		VBROADCASTSS(Mem{Base: scale, Disp: 8*r + 4}, w[1])
		for j := range vectors {
			d, f := j*v.bytes(), acc[r*vectors+j]
			VMOVUPS(Mem{Base: columns, Index: stride, Scale: 2, Disp: d}, w[0])
			VFMADD231PS(Mem{Base: columns, Index: stride, Scale: 1, Disp: d}, w[1], w[0])
			VCVTDQ2PS(f, f)
			VMULPS(Mem{Base: columns, Disp: d}, f, f)
			VFMADD213PS(w[0], x, f)
			VMOVUPS(f, Mem{Base: c, Disp: d})
		}
		ADDQ(ldc, c)
	}
}

// mulFloat multiplies rows of a by vectors of columns of b.
func (v isa) mulFloat(rows, vectors int) {
	v.begin("mulFloat", "func(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)")
	k, a, lda, b, ldb := param("k"), param("a"), paramBytes("lda"), param("b"), paramBytes("ldb")
	acc := v.zeros(rows * vectors)
	at, advance := tileRows(rows, a, lda)
	w, x := v.vecs(vectors), v.vec()
	Label("k")
	for j := range w {
		VMOVUPS(Mem{Base: b, Disp: j * v.bytes()}, w[j])
	}
	for r := range rows {
		VBROADCASTSS(at(r, 0), x)
		for j := range w {
			VFMADD231PS(w[j], x, acc[r*vectors+j])
		}
	}
	advance(4)
	ADDQ(ldb, b)
	DECQ(k)
	JNE(LabelRef("k"))
	c, ldc := param("c"), paramBytes("ldc")
	for r := range rows {
		for j := range vectors {
			VMOVUPS(acc[r*vectors+j], Mem{Base: c, Disp: j * v.bytes()})
		}
		ADDQ(ldc, c)
	}
	end()
}
