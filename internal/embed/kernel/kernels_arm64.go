package kernel

//go:noescape
func mulInt8NEON(k4 int, a *uint8, lda int, b *int8, c *float32, ldc int, scale, columns *float32, stride int)

//go:noescape
func mulFloatNEON(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)

//go:noescape
func addNormNEON(x, y, gain, bias *float32, n int)

//go:noescape
func quantizeNEON(x *float32, n int, q *uint8, scale *float32, levels float32)

//go:noescape
func geluNEON(x *float32, n int)

//go:noescape
func softmaxNEON(x *float32, n int)
