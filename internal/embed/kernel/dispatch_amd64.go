package kernel

import "golang.org/x/sys/cpu"

var (
	avx512 = &Set{Name: "avx512-vnni", Levels: 255, IntRows: 6, IntColumns: 64, FloatRows: 6, FloatColumns: 32,
		mulInt8: mulInt8AVX512, mulFloat: mulFloatAVX512, addNorm: addNormAVX512, quantize: quantizeAVX512,
		gelu: geluAVX512, softmax: softmaxAVX512}
	// avxVNNI is for client chips without AVX-512. It has not run on one: its product was run in EVEX form, which differs in
	// the encoding of VPDPBUSD alone, and that encoding is compared with LLVM's (hack/kernels).
	avxVNNI = &Set{Name: "avx-vnni", Levels: 255, IntRows: 6, IntColumns: 16, FloatRows: 6, FloatColumns: 16,
		mulInt8: mulInt8AVXVNNI, mulFloat: mulFloatAVX2, addNorm: addNormAVX2, quantize: quantizeAVX2,
		gelu: geluAVX2, softmax: softmaxAVX2}
	avx2 = &Set{Name: "avx2", Levels: 127, IntRows: 4, IntColumns: tileColumns, FloatRows: 6, FloatColumns: 16,
		mulPaired: mulPairedAVX2, mulFloat: mulFloatAVX2, addNorm: addNormAVX2, quantize: quantizeAVX2,
		gelu: geluAVX2, softmax: softmaxAVX2}
)

func native() (sets []*Set) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		sets = append(sets, avx512)
	}
	if x.HasAVX2 && x.HasFMA && x.HasAVXVNNI {
		sets = append(sets, avxVNNI)
	}
	if x.HasAVX2 && x.HasFMA {
		sets = append(sets, avx2)
	}
	return sets
}
