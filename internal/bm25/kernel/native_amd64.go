package kernel

import "golang.org/x/sys/cpu"

func native() []Kernel {
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VBMI && x.HasBMI2 {
		return []Kernel{{"avx512-vbmi", ascendAVX512, valuesAVX512, gainsAVX512}}
	}
	return nil
}
