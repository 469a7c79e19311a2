package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// groups of 16 numbers are in a block of 128.
const groups = 8

// unpack takes a block of 128 numbers, width bits each, from packed. A group of 16 begins at a byte and takes step of them:
// order moves to each lane the four bytes that hold its number, shifts says where in them it begins. present has a bit for
// each of the step bytes, so that nothing behind them is read.
func unpack(body func(numbers reg.VecVirtual, group Mem)) {
	out, packed, spread, step := param("out"), param("packed"), param("spread"), param("step")
	present := K()
	KMOVQ(param("present"), present)
	order, shifts, mask := ZMM(), ZMM(), ZMM()
	VMOVDQU64(Mem{Base: spread}, order)
	VMOVDQU64(Mem{Base: spread, Disp: 64}, shifts)
	VPBROADCASTD(Mem{Base: spread, Disp: 128}, mask)
	left := GP64()
	MOVQ(U32(groups), left)
	Label("group")
	z := ZMM()
	VMOVDQU8_Z(Mem{Base: packed}, present, z)
	VPERMB(z, order, z)
	VPSRLVD(shifts, z, z)
	VPANDD(mask, z, z)
	body(z, Mem{Base: out})
	ADDQ(step, packed)
	ADDQ(Imm(64), out)
	DECQ(left)
	JNZ(LabelRef("group"))
}

func ones() reg.VecVirtual {
	bits, one := GP32(), ZMM()
	MOVL(U32(1), bits)
	VPBROADCASTD(bits, one)
	return one
}

// postings writes the loops of internal/bm25/kernel.
func postings() {
	avx512.begin("values", "func(out *uint32, packed, spread *byte, step int, present uint64)")
	one := ones()
	unpack(func(z reg.VecVirtual, group Mem) {
		VPADDD(one, z, z)
		VMOVDQU32(z, group)
	})
	end()
	ascend()
	gains()
}

// ascend adds up differences less 1, from next on. It returns what comes after the last number, and whether any sum passed
// 32 bits.
func ascend() {
	avx512.begin("ascend", "func(out *uint32, packed, spread *byte, step int, present uint64, next uint32) (end, overflow uint32)")
	one, carry, zero, last := ones(), ZMM(), ZMM(), ZMM()
	bits := GP32()
	MOVL(U32(15), bits)
	VPBROADCASTD(bits, last)
	Load(Param("next"), bits)
	VPBROADCASTD(bits, carry)
	VPXORD(zero, zero, zero)
	overflow, k := K(), K()
	KXORW(overflow, overflow, overflow)
	unpack(func(z reg.VecVirtual, group Mem) {
		VPADDD(one, z, z)
		sum, t := ZMM(), ZMM()
		for i, lanes := range []uint8{15, 14, 12, 8} { // add what lies 1, 2, 4 and 8 lanes below
			from := sum
			if i == 0 {
				from = z
			}
			VALIGND(Imm(uint64(lanes)), zero, from, t)
			VPADDD(t, from, sum)
		}
		VPADDD(carry, sum, sum)
		VPCMPUD(Imm(1), z, sum, k) // sum < z
		KORW(k, overflow, overflow)
		VPERMD(sum, last, carry)
		VPSUBD(one, sum, sum)
		VMOVDQU32(sum, group)
	})
	VMOVD(carry.AsX(), bits)
	Store(bits, ReturnIndex(0))
	KMOVW(overflow, bits)
	Store(bits, ReturnIndex(1))
	end()
}

// gains computes max(1, int(weight*tf/(tf+base+slope*length)+0.5)) for n postings, each operation rounded by itself. It
// returns whether a length is 65535, which stands for any that is as long or longer.
func gains() {
	avx512.begin("gains", "func(out *int64, chunks, tfs *uint32, n int, lengths *byte, weight, base, slope float64) (long uint32)")
	out, chunks, tfs, n, lengths := param("out"), param("chunks"), param("tfs"), param("n"), param("lengths")
	weight, base, slope := spreadParam("weight"), spreadParam("base"), spreadParam("slope")
	word, half, one, low := GP64(), ZMM(), ZMM(), YMM()
	MOVQ(U64(math.Float64bits(0.5)), word)
	VPBROADCASTQ(word, half)
	MOVQ(U32(1), word)
	VPBROADCASTQ(word, one)
	MOVL(U32(0xffff), word.As32())
	VPBROADCASTD(word.As32(), low)
	all, mask := GP32(), GP32()
	MOVL(U32(0xff), all)
	present, gathered, k, long := K(), K(), K(), K()
	KXORB(long, long, long)
	Label("eight")
	BZHIL(n.As32(), all, mask)
	KMOVB(mask, present)
	KMOVB(present, gathered)
	chunk, length, tf, norm, share := YMM(), YMM(), YMM(), ZMM(), ZMM()
	VMOVDQU32_Z(Mem{Base: chunks}, present, chunk)
	VPXOR(length, length, length)
	VPGATHERDD(Mem{Base: lengths, Index: chunk, Scale: 2}, gathered, length)
	VPAND(low, length, length)
	VPCMPEQD(low, length, k)
	KORB(k, long, long)
	VCVTUDQ2PD(length, norm)
	VMULPD(slope, norm, norm)
	VADDPD(base, norm, norm)
	VMOVDQU32_Z(Mem{Base: tfs}, present, tf)
	VCVTUDQ2PD(tf, share)
	VADDPD(share, norm, norm)
	VDIVPD(norm, share, share)
	VMULPD(weight, share, share)
	VADDPD(half, share, share)
	VCVTTPD2QQ(share, share)
	VPMAXSQ(one, share, share)
	VMOVDQU64(share, present, Mem{Base: out})
	ADDQ(Imm(32), chunks)
	ADDQ(Imm(32), tfs)
	ADDQ(Imm(64), out)
	SUBQ(Imm(8), n)
	JGT(LabelRef("eight"))
	KMOVB(long, mask)
	Store(mask, ReturnIndex(0))
	end()
}

// spreadParam has a float64 in every lane.
func spreadParam(name string) reg.VecVirtual {
	x, z := XMM(), ZMM()
	Load(Param(name), x)
	VBROADCASTSD(x, z)
	return z
}
