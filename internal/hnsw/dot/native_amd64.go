package dot

import "golang.org/x/sys/cpu"

func native() (kernels []Kernel) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		kernels = append(kernels, Kernel{"avx512-vnni", rowsAVX512})
	}
	if x.HasAVX2 {
		kernels = append(kernels, Kernel{"avx2", rowsAVX2})
	}
	return kernels
}
