package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ahead is how many rows before its turn a row is called into the cache: the rows of a graph's neighbours lie anywhere.
const ahead = 4

// dotRows multiplies one row of signed bytes by n others; see dot.Kernel.
func (v isa) dotRows() {
	v.begin("rows", "func(q, rows *byte, stride int, nodes *uint32, n int, out *int32)")
	q, rows, stride, nodes, n, out := param("q"), param("rows"), param("stride"), param("nodes"), param("n"), param("out")
	block := v.signedBlock
	if v.dot == vnni {
		block = v.unsignedBlock()
	}
	Label("row")
	row := address(nodes, rows, stride)
	later := GP64()
	LEAQ(Mem{Base: nodes, Disp: 4 * ahead}, later)
	CMPQ(n, Imm(ahead))
	CMOVQLE(nodes, later)
	next := address(later, rows, stride)
	acc := v.zeros(2)
	loop("block", stride, 64, func(i reg.GPVirtual) {
		PREFETCHT0(Mem{Base: next, Index: i, Scale: 1})
		block(Mem{Base: q, Index: i, Scale: 1}, Mem{Base: row, Index: i, Scale: 1}, acc)
	})
	if v.dot == vnni {
		VPSUBD(acc[1], acc[0], acc[0])
	} else {
		VPADDD(acc[1], acc[0], acc[0])
	}
	sum := GP32()
	VMOVD(v.sum(acc[0]), sum)
	MOVL(sum, Mem{Base: out})
	ADDQ(Imm(4), nodes)
	ADDQ(Imm(4), out)
	DECQ(n)
	JNE(LabelRef("row"))
	end()
}

// address is that of the row whose number lies at node.
func address(node, rows, stride reg.GPVirtual) reg.GPVirtual {
	a := GP64()
	MOVL(Mem{Base: node}, a.As32())
	IMULQ(stride, a)
	ADDQ(rows, a)
	return a
}

// unsignedBlock multiplies 64 bytes by VPDPBUSD, whose left side is unsigned: that gets q+128, and what the 128 add is
// summed apart.
func (v isa) unsignedBlock() func(q, row Mem, acc []reg.VecVirtual) {
	bits, bias := GP32(), v.vec()
	MOVL(U32(0x80808080), bits)
	VPBROADCASTD(bits, bias)
	return func(q, row Mem, acc []reg.VecVirtual) {
		x, w := v.vec(), v.vec()
		VMOVDQU32(row, w)
		VPXORD(q, bias, x)
		vpdpbusd(w, x, acc[0])
		vpdpbusd(w, bias, acc[1])
	}
}

// signedBlock multiplies 64 bytes as 16-bit numbers, so that no sum of two products saturates.
func (v isa) signedBlock(q, row Mem, acc []reg.VecVirtual) {
	for i := range 4 {
		x, w := v.vec(), v.vec()
		q.Disp, row.Disp = 16*i, 16*i
		VPMOVSXBW(q, x)
		VPMOVSXBW(row, w)
		VPMADDWD(x, w, w)
		VPADDD(w, acc[i%2], acc[i%2])
	}
}

// sum adds the int32 lanes of x.
func (v isa) sum(x reg.VecVirtual) reg.VecVirtual {
	half, s, t := YMM(), XMM(), XMM()
	if v.lanes == 16 {
		VEXTRACTI64X4(Imm(1), x, half)
		VPADDD(half, x.AsY(), half)
	} else {
		VMOVDQU(x, half)
	}
	VEXTRACTI128(Imm(1), half, s)
	VPADDD(s, half.AsX(), s)
	VPSHUFD(Imm(0x4e), s, t)
	VPADDD(t, s, s)
	VPSHUFD(Imm(0xb1), s, t)
	VPADDD(t, s, s)
	return s
}
