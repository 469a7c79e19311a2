package kernel

import "golang.org/x/sys/cpu"

var neon = &Set{Name: "neon-dot", Levels: 255, IntRows: 4, IntColumns: 16, FloatRows: 4, FloatColumns: 16,
	mulInt8: mulInt8NEON, mulFloat: mulFloatNEON, addNorm: addNormNEON, quantize: quantizeNEON,
	gelu: geluNEON, softmax: softmaxNEON}

func native() []*Set {
	if cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP { // x/sys calls FEAT_DotProd by Linux's name, asimddp
		return []*Set{neon}
	}
	return nil
}
