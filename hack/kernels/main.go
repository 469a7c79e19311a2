// Command kernels writes the amd64 kernels of internal/embed/kernel: each loop is described once and printed for every
// instruction set. Run it by hack/generate.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
)

func main() {
	ConstraintExpr("amd64")
	avx512.mulInt8(6, 4)
	avxVNNI.mulInt8(6, 2)
	avx2.mulPaired(4, 2)
	for _, v := range []isa{avx512, avx2} {
		v.mulFloat(6, 2)
		v.addNorm()
		v.quantize()
		v.gelu()
		v.softmax()
	}
	pass.Compile = pass.Concat(pass.Compile, pass.FunctionPass(encodeVEX))
	Generate()
}
