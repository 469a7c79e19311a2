package main

import "testing"

// The bytes are those of LLVM's assembler for {vex} vpdpbusd acc, a, w.
func TestVPDPBUSDVEX(t *testing.T) {
	for registers, want := range map[[3]byte][5]byte{
		{2, 1, 0}:    {0xc4, 0xe2, 0x75, 0x50, 0xc2},
		{2, 1, 9}:    {0xc4, 0x62, 0x75, 0x50, 0xca},
		{2, 12, 0}:   {0xc4, 0xe2, 0x1d, 0x50, 0xc2},
		{15, 1, 0}:   {0xc4, 0xc2, 0x75, 0x50, 0xc7},
		{11, 10, 13}: {0xc4, 0x42, 0x2d, 0x50, 0xeb},
		{8, 15, 7}:   {0xc4, 0xc2, 0x05, 0x50, 0xf8},
	} {
		if got := vpdpbusdVEX(registers[0], registers[1], registers[2]); got != want {
			t.Errorf("w, a, acc %v: % x, want % x", registers, got, want)
		}
	}
}
