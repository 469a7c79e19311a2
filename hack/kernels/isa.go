package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one instruction set.
type isa struct {
	suffix string // of function names
	lanes  int    // float32 numbers in a vector
	dot    dotProduct
}

// dotProduct is how an instruction set multiplies unsigned by signed bytes.
type dotProduct int

const (
	widening dotProduct = iota // VPMADDUBSW, VPMADDWD and VPADDD
	vnni                       // VPDPBUSD
)

var (
	avx512  = isa{"AVX512", 16, vnni}
	avxVNNI = isa{"AVXVNNI", 8, vnni} // client chips without AVX-512
	avx2    = isa{"AVX2", 8, widening}
)

// bytes of a vector
func (v isa) bytes() int { return 4 * v.lanes }

func (v isa) vec() reg.VecVirtual {
	if v.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

func (v isa) vecs(n int) (r []reg.VecVirtual) {
	for range n {
		r = append(r, v.vec())
	}
	return r
}

func (v isa) zeros(n int) []reg.VecVirtual {
	r := v.vecs(n)
	for _, x := range r {
		v.zero(x)
	}
	return r
}

func (v isa) zero(r reg.VecVirtual) {
	if v.lanes == 16 {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
}

// loadBytes loads a vector of integers.
func (v isa) loadBytes(m Mem, r reg.VecVirtual) {
	if v.lanes == 16 {
		VMOVDQU32(m, r)
	} else {
		VMOVDQU(m, r)
	}
}

var constants = map[uint32]Mem{}

// broadcast is f in every lane.
func (v isa) broadcast(f float64) reg.VecVirtual {
	bits := math.Float32bits(float32(f))
	if _, ok := constants[bits]; !ok {
		constants[bits] = ConstData(fmt.Sprintf("f32_%08x", bits), U32(bits))
	}
	r := v.vec()
	VBROADCASTSS(constants[bits], r)
	return r
}

// reduce folds all lanes of x by op; each lane of the answer holds the result.
func (v isa) reduce(x reg.VecVirtual, op func(...Op)) reg.VecVirtual {
	y := YMM()
	if v.lanes == 16 {
		VEXTRACTF64X4(Imm(1), x, y)
		op(y, x.AsY(), y)
	} else {
		VMOVAPS(x, y)
	}
	s, t := XMM(), XMM()
	VEXTRACTF128(Imm(1), y, s)
	op(s, y.AsX(), s)
	VPERMILPS(Imm(0x4e), s, t)
	op(t, s, s)
	VPERMILPS(Imm(0xb1), s, t)
	op(t, s, s)
	r := v.vec()
	VBROADCASTSS(s, r)
	return r
}

// begin opens a function; its parameters are those of the fields of kernel.Set.
func (v isa) begin(name, signature string) {
	TEXT(name+v.suffix, NOSPLIT, signature)
	Pragma("noescape")
}

func end() {
	VZEROUPPER()
	RET()
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// paramBytes is a count of float32 numbers, in bytes.
func paramBytes(name string) reg.GPVirtual {
	r := param(name)
	SHLQ(Imm(2), r)
	return r
}

// loop runs body with a byte index that rises from 0 to n by step; n is above 0.
func loop(label string, n Op, step int, body func(i reg.GPVirtual)) {
	i := GP64()
	XORQ(i, i)
	Label(label)
	body(i)
	ADDQ(Imm(uint64(step)), i)
	CMPQ(i, n)
	JLT(LabelRef(label))
}

// vpdpbusd adds to each int32 of acc the products of four unsigned bytes of a with four signed ones of w. avo does not know it.
func vpdpbusd(w, a, acc Op) {
	Instruction(&ir.Instruction{Opcode: "VPDPBUSD", Operands: []Op{w, a, acc}, Inputs: []Op{w, a, acc}, Outputs: []Op{acc}})
}

// tileRows gives the addresses of n rows that are stride bytes apart. Two base registers, for the rows 0 to 2 and 3 to 5, are
// all that a loop has to move.
func tileRows(n int, base, stride reg.GPVirtual) (at func(row, offset int) Mem, advance func(bytes int)) {
	high := GP64()
	if n > 3 {
		LEAQ(Mem{Base: base, Index: stride, Scale: 2}, high)
		ADDQ(stride, high)
	}
	at = func(row, offset int) Mem {
		b := base
		if row >= 3 {
			b, row = high, row-3
		}
		if row == 0 {
			return Mem{Base: b, Disp: offset}
		}
		return Mem{Base: b, Index: stride, Scale: uint8(row), Disp: offset}
	}
	advance = func(bytes int) {
		ADDQ(Imm(uint64(bytes)), base)
		if n > 3 {
			ADDQ(Imm(uint64(bytes)), high)
		}
	}
	return at, advance
}
