package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// encodeVEX spells out VPDPBUSD in functions for AVX-VNNI. Go's assembler knows its EVEX form alone, which needs AVX-512.
func encodeVEX(f *ir.Function) error {
	if !strings.HasSuffix(f.Name, avxVNNI.suffix) {
		return nil
	}
	var nodes []ir.Node
	for _, n := range f.Nodes {
		i, ok := n.(*ir.Instruction)
		if !ok || i.Opcode != "VPDPBUSD" {
			nodes = append(nodes, n)
			continue
		}
		var numbers [3]byte
		for k, o := range i.Operands {
			numbers[k] = byte(o.(reg.Physical).PhysicalIndex())
		}
		code := vpdpbusdVEX(numbers[0], numbers[1], numbers[2])
		nodes = append(nodes,
			ir.NewComment(fmt.Sprintf("VEX: VPDPBUSD Y%d, Y%d, Y%d", numbers[0], numbers[1], numbers[2])),
			&ir.Instruction{Opcode: "LONG", Operands: []operand.Op{operand.U32(uint32(code[0]) | uint32(code[1])<<8 | uint32(code[2])<<16 | uint32(code[3])<<24)}},
			&ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.U8(code[4])}})
	}
	f.Nodes = nodes
	return nil
}

// vpdpbusdVEX encodes VEX.256.66.0F38.W0 50 /r for 256-bit registers: acc (reg) += a (vvvv, unsigned) * w (rm, signed).
func vpdpbusdVEX(w, a, acc byte) [5]byte {
	const opcodeMap, length, prefix66 = 0b00010, 1 << 2, 0b01
	high := func(r byte) byte { return ^(r >> 3) & 1 } // kept inverted
	return [5]byte{
		0xc4,
		high(acc)<<7 | 1<<6 | high(w)<<5 | opcodeMap,
		(^a&15)<<3 | length | prefix66,
		0x50,
		0b11<<6 | acc&7<<3 | w&7,
	}
}
