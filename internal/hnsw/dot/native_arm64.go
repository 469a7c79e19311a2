package dot

import "golang.org/x/sys/cpu"

//go:noescape
func rowsNEON(q, rows *byte, stride int, nodes *uint32, n int, out *int32)

func native() []Kernel {
	if cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP { // x/sys calls FEAT_DotProd by Linux's name, asimddp
		return []Kernel{{"neon-dot", rowsNEON}}
	}
	return nil
}
