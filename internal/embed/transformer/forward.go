package transformer

import "quarry.dev/quarry/internal/embed/kernel"

// batch is sequences laid end to end, without padding.
type batch struct {
	model *Model
	crew  crew
	*scratch
	ids    [][]int32
	starts []int // first row of each sequence
	rows   int
	stride int // rows of a panel of qkv
}

// forward encodes sequences; their states are rows of the first thread's states, one sequence after another.
func (m *Model) forward(c crew, ids [][]int32) {
	b := &batch{model: m, crew: c, scratch: c[0], ids: ids}
	for _, s := range ids {
		b.starts = append(b.starts, b.rows)
		b.rows += len(s)
	}
	b.growBatch(b.rows)
	b.stride = b.rows + kernel.SpareRows
	c.each(len(ids), func(_ *scratch, i int) { b.embed(i) })
	for i := range m.layers {
		l := &m.layers[i]
		b.blocks(func(s *scratch, first, rows int) { b.project(s, l, first, rows) })
		c.each(len(ids)*heads, func(s *scratch, i int) { b.attend(s, i/heads, i%heads) })
		b.blocks(func(s *scratch, first, rows int) { b.feed(s, l, first, rows) })
	}
}

// blocks runs task for all rows, in blocks of equal size, as many for each of the crew. A block other than the last is whole tiles, so that
// no task writes rows of another one.
func (b *batch) blocks(task func(s *scratch, first, rows int)) {
	workers, tile := len(b.crew), b.model.kernels.IntRows
	count := ((b.rows+blockRows-1)/blockRows + workers - 1) / workers * workers
	n := ((b.rows+count-1)/count + tile - 1) / tile * tile
	b.crew.each((b.rows+n-1)/n, func(s *scratch, i int) {
		s.growBlock(n)
		task(s, i*n, min(n, b.rows-i*n))
	})
}

// embed writes the first states of a sequence: word plus position, normalised.
func (b *batch) embed(sequence int) {
	m := b.model
	for t, id := range b.ids[sequence] {
		x := b.states[(b.starts[sequence]+t)*Hidden:][:Hidden]
		step := m.wordSteps[id]
		for i, q := range m.words[int(id)*Hidden:][:Hidden] {
			x[i] = float32(q) * step
		}
		m.kernels.AddNorm(x, m.positions[t*Hidden:], m.norm)
	}
}

// project computes queries, keys and values.
func (b *batch) project(s *scratch, l *layer, first, rows int) {
	b.quantize(s, b.states[first*Hidden:], rows, Hidden)
	b.model.kernels.Apply(&l.attention, rows, s.q, s.scale, b.qkv[first*kernel.Panel:], kernel.Panel, b.stride*kernel.Panel)
}

// attend computes what one head of one sequence makes of its values: softmax(queries * keys) * values. The division by the
// root of headDim is in the query weights.
func (b *batch) attend(s *scratch, sequence, head int) {
	k, t, row := b.model.kernels, len(b.ids[sequence]), b.starts[sequence]
	columns := (t + kernel.KeyPanel - 1) &^ (kernel.KeyPanel - 1)
	s.growHead(columns)
	queries, values := b.part(row, head), b.part(row, 2*heads+head)
	transpose(s.keys, b.part(row, heads+head), t)
	for r := 0; r < t; r += k.FloatRows {
		k.Multiply(headDim, columns, queries[r*kernel.Panel:], kernel.Panel, s.keys, kernel.KeyPanel, headDim*kernel.KeyPanel, s.scores, columns)
		for i := range k.FloatRows {
			p := s.scores[i*columns:][:columns]
			for j := t; j < columns; j++ {
				p[j] = -1e30
			}
			k.Softmax(p)
		}
		k.Multiply(t, headDim, s.scores, columns, values, kernel.Panel, 0, s.tile, headDim)
		for i := range min(k.FloatRows, t-r) {
			copy(b.context[(row+r+i)*Hidden+head*headDim:][:headDim], s.tile[i*headDim:])
		}
	}
}

// part is where head i of the queries, keys and values, counted through, begins for the sequence at row; kernel.Panel apart.
func (b *batch) part(row, i int) []float32 {
	return b.qkv[(i/2*b.stride+row)*kernel.Panel+i%2*headDim:]
}

// transpose writes t keys, kernel.Panel apart, in panels [headDim][KeyPanel].
func transpose(out, keys []float32, t int) {
	for j := range t {
		o := out[j/kernel.KeyPanel*kernel.KeyPanel*headDim+j%kernel.KeyPanel:][:(headDim-1)*kernel.KeyPanel+1]
		for i, f := range keys[j*kernel.Panel:][:headDim] {
			o[i*kernel.KeyPanel] = f
		}
	}
}

// feed runs what follows attention in a layer.
func (b *batch) feed(s *scratch, l *layer, first, rows int) {
	k, x := b.model.kernels, b.states[first*Hidden:][:rows*Hidden]
	b.quantize(s, b.context[first*Hidden:], rows, Hidden)
	k.Apply(&l.output, rows, s.q, s.scale, s.narrow, Hidden, kernel.Panel)
	b.addNorm(s, x, l.attentionNorm)
	b.quantize(s, x, rows, Hidden)
	k.Apply(&l.up, rows, s.q, s.scale, s.wide, inner, kernel.Panel)
	k.GELU(s.wide[:rows*inner])
	b.quantize(s, s.wide, rows, inner)
	k.Apply(&l.down, rows, s.q, s.scale, s.narrow, Hidden, kernel.Panel)
	b.addNorm(s, x, l.outputNorm)
}

// addNorm adds s.narrow to the states x and normalises them.
func (b *batch) addNorm(s *scratch, x, norm []float32) {
	for i := 0; i < len(x); i += Hidden {
		b.model.kernels.AddNorm(x[i:i+Hidden], s.narrow[i:], norm)
	}
}

// quantize fills s.q and s.scale with rows of x, n wide.
func (b *batch) quantize(s *scratch, x []float32, rows, n int) {
	for r := range rows {
		b.model.kernels.Quantize(x[r*n:][:n], s.q[r*n:], s.scale[2*r:])
	}
}
