// Kernels for arm64 with NEON and FEAT_DotProd.
//
// Go's assembler knows few vector instructions on floats and no SDOT, so the
// macros below spell them out. They take register numbers in the order of the
// Arm manual, the destination first, and work on four 32-bit lanes; an index
// names a lane of the last register. Loads, stores and scalars are in Go's
// syntax, the destination last.

#include "textflag.h"

#define MOVV(d, n)        WORD $(0x4EA01C00 | (n)<<16 | (n)<<5 | (d)) // mov   vd.16b, vn.16b
#define ADDI(d, n, m)     WORD $(0x4EA08400 | (m)<<16 | (n)<<5 | (d)) // add   vd.4s, vn.4s, vm.4s
#define SHL23(d, n)       WORD $(0x4F375400 | (n)<<5 | (d))           // shl   vd.4s, vn.4s, #23
#define FADD(d, n, m)     WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d)) // fadd  vd.4s, vn.4s, vm.4s
#define FSUB(d, n, m)     WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d)) // fsub  vd.4s, vn.4s, vm.4s
#define FMUL(d, n, m)     WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d)) // fmul  vd.4s, vn.4s, vm.4s
#define FMAX(d, n, m)     WORD $(0x4E20F400 | (m)<<16 | (n)<<5 | (d)) // fmax  vd.4s, vn.4s, vm.4s
#define FMIN(d, n, m)     WORD $(0x4EA0F400 | (m)<<16 | (n)<<5 | (d)) // fmin  vd.4s, vn.4s, vm.4s
#define FMLA(d, n, m)     WORD $(0x4E20CC00 | (m)<<16 | (n)<<5 | (d)) // fmla  vd.4s, vn.4s, vm.4s
#define FMLS(d, n, m)     WORD $(0x4EA0CC00 | (m)<<16 | (n)<<5 | (d)) // fmls  vd.4s, vn.4s, vm.4s
#define FMULE0(d, n, m)   WORD $(0x4F809000 | (m)<<16 | (n)<<5 | (d)) // fmul  vd.4s, vn.4s, vm.s[0]
#define FMLAE0(d, n, m)   WORD $(0x4F801000 | (m)<<16 | (n)<<5 | (d)) // fmla  vd.4s, vn.4s, vm.s[0]
#define FADDP(d, n, m)    WORD $(0x6E20D400 | (m)<<16 | (n)<<5 | (d)) // faddp vd.4s, vn.4s, vm.4s
#define FMAXV(d, n)       WORD $(0x6E30F800 | (n)<<5 | (d))           // fmaxv sd, vn.4s
#define FMINV(d, n)       WORD $(0x6EB0F800 | (n)<<5 | (d))           // fminv sd, vn.4s
#define FCVTNS(d, n)      WORD $(0x4E21A800 | (n)<<5 | (d))           // fcvtns vd.4s, vn.4s
#define SCVTF(d, n)       WORD $(0x4E21D800 | (n)<<5 | (d))           // scvtf vd.4s, vn.4s
#define SDOT(d, n, m, i)  WORD $(0x4F80E000 | ((i)&1)<<21 | (m)<<16 | ((i)>>1)<<11 | (n)<<5 | (d)) // sdot vd.4s, vn.16b, vm.4b[i]

// The same operation on four vectors in turn.
#define FADD4(d, n, m)    FADD(d, n, m); FADD(d+1, n+1, m+1); FADD(d+2, n+2, m+2); FADD(d+3, n+3, m+3)
#define FSUBS4(d, n, m)   FSUB(d, n, m); FSUB(d+1, n+1, m); FSUB(d+2, n+2, m); FSUB(d+3, n+3, m)
#define FMUL4(d, n, m)    FMUL(d, n, m); FMUL(d+1, n+1, m+1); FMUL(d+2, n+2, m+2); FMUL(d+3, n+3, m+3)
#define FMULS4(d, n, m)   FMUL(d, n, m); FMUL(d+1, n+1, m); FMUL(d+2, n+2, m); FMUL(d+3, n+3, m)
#define FMAX4(d, n, m)    FMAX(d, n, m); FMAX(d+1, n+1, m+1); FMAX(d+2, n+2, m+2); FMAX(d+3, n+3, m+3)
#define FMAXS4(d, n, m)   FMAX(d, n, m); FMAX(d+1, n+1, m); FMAX(d+2, n+2, m); FMAX(d+3, n+3, m)
#define FMIN4(d, n, m)    FMIN(d, n, m); FMIN(d+1, n+1, m+1); FMIN(d+2, n+2, m+2); FMIN(d+3, n+3, m+3)
#define FMINS4(d, n, m)   FMIN(d, n, m); FMIN(d+1, n+1, m); FMIN(d+2, n+2, m); FMIN(d+3, n+3, m)
#define FMLA4(d, n, m)    FMLA(d, n, m); FMLA(d+1, n+1, m+1); FMLA(d+2, n+2, m+2); FMLA(d+3, n+3, m+3)
#define FMLSS4(d, n, m)   FMLS(d, n, m); FMLS(d+1, n+1, m); FMLS(d+2, n+2, m); FMLS(d+3, n+3, m)
#define MOVS4(d, n)       MOVV(d, n); MOVV(d+1, n); MOVV(d+2, n); MOVV(d+3, n)
#define MOV4(d, n)        MOVV(d, n); MOVV(d+1, n+1); MOVV(d+2, n+2); MOVV(d+3, n+3)
#define FCVTNS4(d, n)     FCVTNS(d, n); FCVTNS(d+1, n+1); FCVTNS(d+2, n+2); FCVTNS(d+3, n+3)
#define SCVTF4(d, n)      SCVTF(d, n); SCVTF(d+1, n+1); SCVTF(d+2, n+2); SCVTF(d+3, n+3)

// HORNER4: four vectors d = p*t + c, a step of a polynomial in t.
#define HORNER4(d, p, t, c) MOVS4(d, c); FMLA4(d, p, t)

#define ZERO(d)  VEOR d.B16, d.B16, d.B16
#define ZERO16 \
	ZERO(V16); ZERO(V17); ZERO(V18); ZERO(V19); ZERO(V20); ZERO(V21); ZERO(V22); ZERO(V23); \
	ZERO(V24); ZERO(V25); ZERO(V26); ZERO(V27); ZERO(V28); ZERO(V29); ZERO(V30); ZERO(V31)

// DOTS: four k of the tile; i chooses them among the 16 that V0-V3 hold.
#define DOTS(i) \
	FLDPQ (256*i)(R6), (F4, F5); \
	FLDPQ (256*i+32)(R6), (F6, F7); \
	SDOT(16, 4, 0, i); SDOT(17, 5, 0, i); SDOT(18, 6, 0, i); SDOT(19, 7, 0, i); \
	SDOT(20, 4, 1, i); SDOT(21, 5, 1, i); SDOT(22, 6, 1, i); SDOT(23, 7, 1, i); \
	SDOT(24, 4, 2, i); SDOT(25, 5, 2, i); SDOT(26, 6, 2, i); SDOT(27, 7, 2, i); \
	SDOT(28, 4, 3, i); SDOT(29, 5, 3, i); SDOT(30, 6, 3, i); SDOT(31, 7, 3, i)

// ROW dequantises a row's sums acc to acc+3: step*(V0*acc) + ((minimum+128*step)*V4 + V8), and so on to V3, V7 and V11.
#define ROW(acc) \
	FLDPS.P 8(R7), (F12, F13); \
	FMADDS F15, F13, F12, F13; \
	SCVTF4(acc, acc); \
	FMUL4(acc, acc, 0); \
	MOVV(14, 8); FMLAE0(14, 4, 13); FMLAE0(14, acc, 12); MOVV(acc, 14); \
	MOVV(14, 9); FMLAE0(14, 5, 13); FMLAE0(14, acc+1, 12); MOVV(acc+1, 14); \
	MOVV(14, 10); FMLAE0(14, 6, 13); FMLAE0(14, acc+2, 12); MOVV(acc+2, 14); \
	MOVV(14, 11); FMLAE0(14, 7, 13); FMLAE0(14, acc+3, 12); MOVV(acc+3, 14)

// func mulInt8NEON(k4 int, a *uint8, lda int, b *int8, c *float32, ldc int, scale, columns *float32, stride int)
//
// 4 rows of 16 columns; k4 is a multiple of 4. SDOT takes signed numbers only, so
// it gets a-128, of which the row's minimum is 128 steps higher: with the sums
// of the dequantised weights at hand that costs nothing.
TEXT ·mulInt8NEON(SB), NOSPLIT, $0-72
	MOVD  k4+0(FP), R0
	MOVD  a+8(FP), R1
	MOVD  lda+16(FP), R5
	MOVD  b+24(FP), R6
	ADD   R5, R1, R2
	ADD   R5, R2, R3
	ADD   R5, R3, R4
	VMOVI $0x80, V8.B16
	ZERO16

products:
	FMOVQ.P 16(R1), F0
	FMOVQ.P 16(R2), F1
	FMOVQ.P 16(R3), F2
	FMOVQ.P 16(R4), F3
	VEOR    V8.B16, V0.B16, V0.B16
	VEOR    V8.B16, V1.B16, V1.B16
	VEOR    V8.B16, V2.B16, V2.B16
	VEOR    V8.B16, V3.B16, V3.B16
	DOTS(0)
	DOTS(1)
	DOTS(2)
	DOTS(3)
	ADD     $1024, R6
	SUBS    $4, R0
	BGT     products

	MOVD  c+32(FP), R5
	MOVD  ldc+40(FP), R6
	MOVD  scale+48(FP), R7
	MOVD  columns+56(FP), R8
	MOVD  stride+64(FP), R9
	LSL   $2, R6
	LSL   $2, R9
	VLD1  (R8), [V0.S4, V1.S4, V2.S4, V3.S4]   // steps
	ADD   R9, R8
	VLD1  (R8), [V4.S4, V5.S4, V6.S4, V7.S4]   // sums of the dequantised weights
	ADD   R9, R8
	VLD1  (R8), [V8.S4, V9.S4, V10.S4, V11.S4] // biases
	FMOVS $128.0, F15
	ROW(16)
	VST1  [V16.S4, V17.S4, V18.S4, V19.S4], (R5)
	ADD   R6, R5
	ROW(20)
	VST1  [V20.S4, V21.S4, V22.S4, V23.S4], (R5)
	ADD   R6, R5
	ROW(24)
	VST1  [V24.S4, V25.S4, V26.S4, V27.S4], (R5)
	ADD   R6, R5
	ROW(28)
	VST1  [V28.S4, V29.S4, V30.S4, V31.S4], (R5)
	RET

#define FMLAROW(acc, a) FMLAE0(acc, 4, a); FMLAE0(acc+1, 5, a); FMLAE0(acc+2, 6, a); FMLAE0(acc+3, 7, a)

// func mulFloatNEON(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
//
// 4 rows of 16 columns; k is any number from 1.
TEXT ·mulFloatNEON(SB), NOSPLIT, $0-56
	MOVD k+0(FP), R0
	MOVD a+8(FP), R1
	MOVD lda+16(FP), R5
	MOVD b+24(FP), R6
	MOVD ldb+32(FP), R7
	ADD  R5<<2, R1, R2
	ADD  R5<<2, R2, R3
	ADD  R5<<2, R3, R4
	LSL  $2, R7
	ZERO16

multiply:
	FLDPQ   (R6), (F4, F5)
	FLDPQ   32(R6), (F6, F7)
	FMOVS.P 4(R1), F0
	FMOVS.P 4(R2), F1
	FMOVS.P 4(R3), F2
	FMOVS.P 4(R4), F3
	ADD     R7, R6
	FMLAROW(16, 0)
	FMLAROW(20, 1)
	FMLAROW(24, 2)
	FMLAROW(28, 3)
	SUBS    $1, R0
	BGT     multiply

	MOVD c+40(FP), R5
	MOVD ldc+48(FP), R6
	LSL  $2, R6
	VST1 [V16.S4, V17.S4, V18.S4, V19.S4], (R5)
	ADD  R6, R5
	VST1 [V20.S4, V21.S4, V22.S4, V23.S4], (R5)
	ADD  R6, R5
	VST1 [V24.S4, V25.S4, V26.S4, V27.S4], (R5)
	ADD  R6, R5
	VST1 [V28.S4, V29.S4, V30.S4, V31.S4], (R5)
	RET

// SUM4: d.s[0] = the sum of the 16 lanes of d to d+3.
#define SUM4(d) FADD(d, d, d+1); FADD(d+2, d+2, d+3); FADD(d, d, d+2); FADDP(d, d, d); FADDP(d, d, d)

// func addNormNEON(x, y, gain, bias *float32, n int)
//
// n is a multiple of 16.
TEXT ·addNormNEON(SB), NOSPLIT, $0-40
	MOVD   x+0(FP), R0
	MOVD   y+8(FP), R1
	MOVD   gain+16(FP), R2
	MOVD   bias+24(FP), R3
	MOVD   n+32(FP), R4
	SCVTFS R4, F8 // n
	ZERO(V16)
	ZERO(V17)
	ZERO(V18)
	ZERO(V19)
	MOVD   R0, R5
	MOVD   R4, R6

sum:
	VLD1   (R5), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	FADD4(0, 0, 4)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R5)
	FADD4(16, 16, 0)
	SUBS   $16, R6
	BGT    sum
	SUM4(16)
	FDIVS  F8, F16, F9
	VDUP   V9.S[0], V9.S4 // the mean

	ZERO(V16)
	ZERO(V17)
	ZERO(V18)
	ZERO(V19)
	MOVD   R0, R5
	MOVD   R4, R6

variance:
	VLD1.P 64(R5), [V0.S4, V1.S4, V2.S4, V3.S4]
	FSUBS4(0, 0, 9)
	FMLA4(16, 0, 0)
	SUBS   $16, R6
	BGT    variance
	SUM4(16)
	FDIVS  F8, F16, F10
	FMOVS  $1e-12, F11
	FADDS  F11, F10, F10
	FSQRTS F10, F10
	FMOVS  $1.0, F11
	FDIVS  F10, F11, F10 // 1/deviation

out:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R2), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R3), [V16.S4, V17.S4, V18.S4, V19.S4]
	FSUBS4(0, 0, 9)
	FMULE0(0, 0, 10)
	FMULE0(1, 1, 10)
	FMULE0(2, 2, 10)
	FMULE0(3, 3, 10)
	FMLA4(16, 0, 4)
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R0)
	SUBS   $16, R4
	BGT    out
	RET

// func quantizeNEON(x *float32, n int, q *uint8, scale *float32, levels float32)
//
// n is a multiple of 16.
TEXT ·quantizeNEON(SB), NOSPLIT, $0-36
	MOVD  x+0(FP), R0
	MOVD  n+8(FP), R1
	MOVD  q+16(FP), R2
	MOVD  scale+24(FP), R3
	FMOVS levels+32(FP), F8
	MOVD  R0, R5
	MOVD  R1, R6
	VLD1  (R0), [V16.S4, V17.S4, V18.S4, V19.S4] // least
	MOV4(20, 16)                                 // greatest

range:
	VLD1.P 64(R5), [V0.S4, V1.S4, V2.S4, V3.S4]
	FMIN4(16, 16, 0)
	FMAX4(20, 20, 0)
	SUBS   $16, R6
	BGT    range
	FMIN(16, 16, 17)
	FMIN(18, 18, 19)
	FMIN(16, 16, 18)
	FMINV(9, 16)
	FMAX(20, 20, 21)
	FMAX(22, 22, 23)
	FMAX(20, 20, 22)
	FMAXV(10, 20)
	FSUBS  F9, F10, F10
	FMOVS  $1e-20, F11
	FMAXS  F11, F10, F10
	FDIVS  F8, F10, F11
	FSTPS  (F11, F9), (R3)
	FDIVS  F10, F8, F10  // 1/scale
	VDUP   V9.S[0], V9.S4
	VDUP   V10.S[0], V10.S4

round:
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	FSUBS4(0, 0, 9)
	FMULS4(0, 0, 10)
	FCVTNS4(0, 0)
	VUZP1  V1.H8, V0.H8, V0.H8
	VUZP1  V3.H8, V2.H8, V2.H8
	VUZP1  V2.B16, V0.B16, V0.B16
	FMOVQ.P F0, 16(R2)
	SUBS   $16, R1
	BGT    round
	RET

// func geluNEON(x *float32, n int)
//
// n is a multiple of 16.
TEXT ·geluNEON(SB), NOSPLIT, $0-16
	MOVD    x+0(FP), R0
	MOVD    n+8(FP), R1
	MOVD    $·geluPolynomial(SB), R2
	VLD1R.P 4(R2), [V0.S4]
	VLD1R.P 4(R2), [V1.S4]
	VLD1R.P 4(R2), [V2.S4]
	VLD1R.P 4(R2), [V3.S4]
	VLD1R.P 4(R2), [V4.S4]
	VLD1R.P 4(R2), [V5.S4]
	VLD1R.P 4(R2), [V6.S4]
	VLD1R.P 4(R2), [V7.S4]
	VLD1R.P 4(R2), [V8.S4]
	VLD1R.P 4(R2), [V9.S4]
	FMOVS   $0.5, F10
	FMOVS   $4.4, F11
	FMOVS   $-4.4, F12
	VDUP    V10.S[0], V10.S4
	VDUP    V11.S[0], V11.S4
	VDUP    V12.S[0], V12.S4

gelu:
	VLD1   (R0), [V20.S4, V21.S4, V22.S4, V23.S4]
	FMINS4(20, 20, 11)
	FMAXS4(20, 20, 12)
	FMUL4(24, 20, 20)
	MOVS4(28, 9)
	HORNER4(16, 28, 24, 8)
	HORNER4(28, 16, 24, 7)
	HORNER4(16, 28, 24, 6)
	HORNER4(28, 16, 24, 5)
	HORNER4(16, 28, 24, 4)
	HORNER4(28, 16, 24, 3)
	HORNER4(16, 28, 24, 2)
	HORNER4(28, 16, 24, 1)
	HORNER4(16, 28, 24, 0)
	HORNER4(28, 16, 20, 10)
	VLD1   (R0), [V20.S4, V21.S4, V22.S4, V23.S4]
	FMUL4(20, 20, 28)
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R0)
	SUBS   $16, R1
	BGT    gelu
	RET

// log2(e), the floor of x-max, ln(2) in two parts, the polynomial from its end.
DATA softmaxC<>+0(SB)/4, $1.44269504
DATA softmaxC<>+4(SB)/4, $-87.0
DATA softmaxC<>+8(SB)/4, $0.693359375
DATA softmaxC<>+12(SB)/4, $-2.12194440e-4
DATA softmaxC<>+16(SB)/4, $8.3334519073e-3
DATA softmaxC<>+20(SB)/4, $4.1665795894e-2
DATA softmaxC<>+24(SB)/4, $1.6666665459e-1
DATA softmaxC<>+28(SB)/4, $0.5
DATA softmaxC<>+32(SB)/4, $1.0
GLOBL softmaxC<>(SB), RODATA|NOPTR, $36

// func softmaxNEON(x *float32, n int)
//
// n is a multiple of 16.
TEXT ·softmaxNEON(SB), NOSPLIT, $0-16
	MOVD x+0(FP), R0
	MOVD n+8(FP), R1
	MOVD R0, R5
	MOVD R1, R6
	VLD1 (R0), [V16.S4, V17.S4, V18.S4, V19.S4]

most:
	VLD1.P 64(R5), [V0.S4, V1.S4, V2.S4, V3.S4]
	FMAX4(16, 16, 0)
	SUBS   $16, R6
	BGT    most
	FMAX(16, 16, 17)
	FMAX(18, 18, 19)
	FMAX(16, 16, 18)
	FMAXV(0, 16)
	VDUP   V0.S[0], V0.S4

	MOVD    $softmaxC<>(SB), R2
	VLD1R.P 4(R2), [V1.S4]
	VLD1R.P 4(R2), [V2.S4]
	VLD1R.P 4(R2), [V3.S4]
	VLD1R.P 4(R2), [V4.S4]
	VLD1R.P 4(R2), [V5.S4]
	VLD1R.P 4(R2), [V6.S4]
	VLD1R.P 4(R2), [V7.S4]
	VLD1R.P 4(R2), [V8.S4]
	VLD1R.P 4(R2), [V9.S4]
	ZERO(V10)
	ZERO(V11)
	ZERO(V12)
	ZERO(V13)
	MOVD    R0, R5
	MOVD    R1, R6

exp: // x = k*ln(2) + t, exp(x) = 2^k * P(t)
	VLD1   (R5), [V16.S4, V17.S4, V18.S4, V19.S4]
	FSUBS4(16, 16, 0)
	FMAXS4(16, 16, 2)
	FMULS4(24, 16, 1)
	FCVTNS4(20, 24)
	SCVTF4(24, 20)
	FMLSS4(16, 24, 3)
	FMLSS4(16, 24, 4)
	MOVS4(28, 5)
	HORNER4(24, 28, 16, 6)
	HORNER4(28, 24, 16, 7)
	HORNER4(24, 28, 16, 8)
	HORNER4(28, 24, 16, 9)
	HORNER4(24, 28, 16, 9)
	SHL23(20, 20)
	SHL23(21, 21)
	SHL23(22, 22)
	SHL23(23, 23)
	ADDI(24, 24, 20)
	ADDI(25, 25, 21)
	ADDI(26, 26, 22)
	ADDI(27, 27, 23)
	FADD4(10, 10, 24)
	VST1.P [V24.S4, V25.S4, V26.S4, V27.S4], 64(R5)
	SUBS   $16, R6
	BGT    exp
	SUM4(10)
	FDIVS  F10, F9, F10
	VDUP   V10.S[0], V10.S4

norm:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	FMULS4(0, 0, 10)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R1
	BGT    norm
	RET
