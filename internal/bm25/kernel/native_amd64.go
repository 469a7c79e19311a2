package kernel

import "golang.org/x/sys/cpu"

func native() (kernels []Kernel) {
	x := &cpu.X86
	if !(x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasBMI2) {
		return nil
	}
	if x.HasAVX512VBMI {
		kernels = append(kernels, Kernel{"avx512-vbmi", ascendAVX512, valuesAVX512, gainsAVX512})
	}
	return append(kernels, Kernel{Name: "avx512", gains: gainsAVX512})
}
