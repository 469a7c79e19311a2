package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mulInt8 multiplies rows of unsigned activations by vectors of signed weight columns, with VNNI; see kernel.Set.
func (v isa) mulInt8(rows, vectors int) {
	v.begin("mulInt8", "func(k4 int, a *uint8, lda int, b *int8, c *float32, ldc int, scale *float32, columns *float32, stride int)")
	k4, a, lda, b := param("k4"), param("a"), param("lda"), param("b")
	acc := v.zeros(rows * vectors)
	at, advance := tileRows(rows, a, lda)
	w, x := v.vecs(vectors), v.vec()
	Label("k")
	for j := range w {
		v.loadBytes(Mem{Base: b, Disp: j * v.bytes()}, w[j])
	}
	for r := range rows {
		VPBROADCASTD(at(r, 0), x)
		for j := range w {
			vpdpbusd(w[j], x, acc[r*vectors+j])
		}
	}
	advance(4)
	ADDQ(U32(256), b)
	DECQ(k4)
	JNE(LabelRef("k"))
	v.dequantize(rows, vectors, acc, x, w)
	end()
}

// mulPaired is mulInt8 without VNNI. VPMADDUBSW leaves sums of two products in 16 bits, and widening those costs as much
// again. Of two steps of k whose sums cannot leave 16 bits together, the sums are added first and widened once: kernel.Linear
// finds such pairs, and puts them first in order.
func (v isa) mulPaired(rows, vectors int) {
	v.begin("mulPaired", "func(pairs, singles int, order *uint16, a *uint8, lda int, b *int8, c *float32, ldc int, scale *float32, columns *float32, stride int)")
	pairs, singles, order, a, lda, b := param("pairs"), param("singles"), param("order"), param("a"), param("lda"), param("b")
	base := []reg.GPVirtual{a}
	for r := 1; r < rows; r++ {
		next := GP64()
		LEAQ(Mem{Base: base[r-1], Index: lda, Scale: 1}, next)
		base = append(base, next)
	}
	acc := v.zeros(rows * vectors)
	ones := v.vec()
	VPCMPEQW(ones, ones, ones)
	VPSRLW(Imm(15), ones, ones)
	// step finds the weights of the i-th next step, and loads all but the first so many; x loads a row's activations
	step := func(i, remain int) (w []Op, x func(r int) reg.VecVirtual) {
		k, offset := GP64(), GP64()
		MOVWQZX(Mem{Base: order, Disp: 2 * i}, k)
		MOVQ(k, offset)
		SHLQ(Imm(8), offset)
		for j := range vectors {
			m := Mem{Base: b, Index: offset, Scale: 1, Disp: j * v.bytes()}
			if j < remain {
				w = append(w, m)
				continue
			}
			loaded := v.vec()
			VMOVDQU(m, loaded)
			w = append(w, loaded)
		}
		return w, func(r int) reg.VecVirtual {
			x := v.vec()
			VPBROADCASTD(Mem{Base: base[r], Index: k, Scale: 4}, x)
			return x
		}
	}
	widen := func(t, acc reg.VecVirtual) {
		VPMADDWD(ones, t, t)
		VPADDD(t, acc, acc)
	}
	TESTQ(pairs, pairs)
	JEQ(LabelRef("tail"))
	Label("pair")
	w0, x0 := step(0, 0)
	w1, x1 := step(1, 1) // there are 16 registers
	for r := range rows {
		x, y := x0(r), x1(r)
		for j := range vectors {
			t, u := v.vec(), v.vec()
			VPMADDUBSW(w0[j], x, t)
			VPMADDUBSW(w1[j], y, u)
			VPADDW(u, t, t)
			widen(t, acc[r*vectors+j])
		}
	}
	ADDQ(Imm(4), order)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	Label("tail")
	TESTQ(singles, singles)
	JEQ(LabelRef("done"))
	Label("single")
	w, x := step(0, 0)
	for r := range rows {
		x := x(r)
		for j := range vectors {
			t := v.vec()
			VPMADDUBSW(w[j], x, t)
			widen(t, acc[r*vectors+j])
		}
	}
	ADDQ(Imm(2), order)
	DECQ(singles)
	JNE(LabelRef("single"))
	Label("done")
	v.dequantize(rows, vectors, acc, v.vec(), v.vecs(2))
	end()
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
