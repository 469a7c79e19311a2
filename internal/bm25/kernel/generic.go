package kernel

import "encoding/binary"

// ascend is Ascend in plain Go. A load of eight bytes holds eight values of up to eight bits, or four of up to fourteen; & 63 tells the compiler
// that a shift stays in range.
func ascend(chunks *[Block]uint32, b []byte, width uint, n int, next uint64) uint64 {
	mask := uint64(1)<<width - 1
	i := 0
	switch {
	case width <= 8:
		for at := uint(0); i+8 <= n; at += width {
			word := load(b, uint64(at))
			out := (*[8]uint32)(chunks[i:])
			v0 := next + word&mask
			word >>= width & 63
			v1 := v0 + (word&mask + 1)
			word >>= width & 63
			v2 := v1 + (word&mask + 1)
			word >>= width & 63
			v3 := v2 + (word&mask + 1)
			word >>= width & 63
			v4 := v3 + (word&mask + 1)
			word >>= width & 63
			v5 := v4 + (word&mask + 1)
			word >>= width & 63
			v6 := v5 + (word&mask + 1)
			word >>= width & 63
			v7 := v6 + (word&mask + 1)
			out[0], out[1], out[2], out[3] = uint32(v0), uint32(v1), uint32(v2), uint32(v3)
			out[4], out[5], out[6], out[7] = uint32(v4), uint32(v5), uint32(v6), uint32(v7)
			next, i = v7+1, i+8
		}
	case width <= 14:
		for at := uint(0); i+4 <= n; at += width { // in halves of a byte
			word := load(b, uint64(at/2)) >> (at % 2 * 4)
			out := (*[4]uint32)(chunks[i:])
			v0 := next + word&mask
			word >>= width & 63
			v1 := v0 + (word&mask + 1)
			word >>= width & 63
			v2 := v1 + (word&mask + 1)
			word >>= width & 63
			v3 := v2 + (word&mask + 1)
			out[0], out[1], out[2], out[3] = uint32(v0), uint32(v1), uint32(v2), uint32(v3)
			next, i = v3+1, i+4
		}
	}
	for ; i < n; i++ {
		at := uint(i) * width
		next += load(b, uint64(at/8)) >> (at % 8) & mask
		chunks[i] = uint32(next)
		next++
	}
	return next
}

// values is Values in plain Go.
func values(out *[Block]uint32, b []byte, width uint, n int) {
	i := 0
	mask := uint64(1)<<width - 1
	if width <= 8 {
		for at := uint(0); i+8 <= n; at += width {
			word := load(b, uint64(at))
			for j := range (*[8]uint32)(out[i:]) {
				out[i+j] = uint32(word&mask) + 1
				word >>= width & 63
			}
			i += 8
		}
	}
	for ; i < n; i++ {
		at := uint(i) * width
		out[i] = uint32(load(b, uint64(at/8))>>(at%8)&mask) + 1
	}
}

// load says where the slice ends, so that the compiler makes one check of it and no more.
func load(b []byte, at uint64) uint64 { return binary.LittleEndian.Uint64(b[at : at+8 : at+8]) }
