// Package dot multiplies rows of signed bytes: the one inner loop of the vector index, in plain Go and in the instruction
// sets that make it fast. Products are integer sums, so every kernel gives the same numbers.
package dot

// Block divides the length of every row: kernels have no tails. Pad rows with zeros.
const Block = 64

// Kernel is the loop for one instruction set.
type Kernel struct {
	Name string
	// rows writes the product of q with row nodes[i] of rows, both stride long, to out[i], for n nodes, n above 0.
	rows func(q, rows *byte, stride int, nodes *uint32, n int, out *int32)
}

// Available lists the kernels that this CPU can run, the fastest first. The last one is plain Go.
func Available() []Kernel { return append(native(), Kernel{"generic", nil}) }

// Rows writes the product of q with row nodes[i] of rows to out[i]. Rows are as long as q, a multiple of Block and at most
// 1<<16. It checks no number: every node must be a row that rows holds, and out as long as nodes.
func (k *Kernel) Rows(q, rows []byte, nodes []uint32, out []int32) {
	if len(nodes) == 0 || len(q) == 0 {
		clear(out[:len(nodes)])
		return
	}
	if k.rows == nil {
		generic(q, rows, nodes, out)
		return
	}
	k.rows(&q[0], &rows[0], len(q), &nodes[0], len(nodes), &out[:len(nodes)][0])
}

func generic(q, rows []byte, nodes []uint32, out []int32) {
	for i, node := range nodes {
		row := rows[int(node)*len(q):][:len(q)]
		var s0, s1, s2, s3 int32
		for a, b := q, row; len(a) >= 8 && len(b) >= 8; a, b = a[8:], b[8:] {
			s0 += product(a[0], b[0]) + product(a[4], b[4])
			s1 += product(a[1], b[1]) + product(a[5], b[5])
			s2 += product(a[2], b[2]) + product(a[6], b[6])
			s3 += product(a[3], b[3]) + product(a[7], b[7])
		}
		out[i] = s0 + s1 + s2 + s3
	}
}

func product(a, b byte) int32 { return int32(int8(a)) * int32(int8(b)) }
