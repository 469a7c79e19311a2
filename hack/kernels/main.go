// Command kernels writes amd64 kernels: those of internal/embed/kernel, with -for dot those of internal/hnsw/dot, with -for
// postings those of internal/bm25/kernel. Each
// loop is described once and printed for every instruction set. Run it by hack/generate.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
)

func main() {
	target := flag.String("for", "encoder", "what to write: encoder, dot or postings")
	flag.Parse()
	ConstraintExpr("amd64")
	switch *target {
	case "encoder":
		encoder()
	case "dot":
		avx512.dotRows()
		avx2.dotRows()
	case "postings":
		postings()
	default:
		log.Fatalf("-for %s: use encoder, dot or postings", *target)
	}
	pass.Compile = pass.Concat(pass.Compile, pass.FunctionPass(encodeVEX))
	Generate()
}

func encoder() {
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
}
