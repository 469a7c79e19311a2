// Kernel for arm64 with NEON and FEAT_DotProd, whose SDOT Go's assembler does not know.

#include "textflag.h"

#define SDOT(d, n, m) WORD $(0x4E809400 | (m)<<16 | (n)<<5 | (d)) // sdot vd.4s, vn.16b, vm.16b

#define ZERO(d) VEOR d.B16, d.B16, d.B16

// func rowsNEON(q, rows *byte, stride int, nodes *uint32, n int, out *int32)
//
// stride is a multiple of 64. The row four turns later is called into the cache.
TEXT ·rowsNEON(SB), NOSPLIT, $0-48
	MOVD q+0(FP), R0
	MOVD rows+8(FP), R1
	MOVD stride+16(FP), R2
	MOVD nodes+24(FP), R3
	MOVD n+32(FP), R4
	MOVD out+40(FP), R5

row:
	MOVWU (R3), R6
	MADD  R2, R1, R6, R6
	ADD   $16, R3, R7
	CMP   $4, R4
	CSEL  GT, R7, R3, R7
	MOVWU (R7), R7
	MADD  R2, R1, R7, R7
	MOVD  R0, R8
	MOVD  R2, R9
	ZERO(V16)
	ZERO(V17)
	ZERO(V18)
	ZERO(V19)

block:
	PRFM   (R7), PLDL1KEEP
	VLD1.P 64(R8), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R6), [V4.B16, V5.B16, V6.B16, V7.B16]
	SDOT(16, 0, 4)
	SDOT(17, 1, 5)
	SDOT(18, 2, 6)
	SDOT(19, 3, 7)
	ADD    $64, R7
	SUBS   $64, R9
	BGT    block

	VADD   V17.S4, V16.S4, V16.S4
	VADD   V19.S4, V18.S4, V18.S4
	VADD   V18.S4, V16.S4, V16.S4
	VADDV  V16.S4, V16
	FMOVS  F16, (R5)
	ADD    $4, R5
	ADD    $4, R3
	SUBS   $1, R4
	BGT    row
	RET
