package embed

import (
	"crypto/sha256"
	_ "embed" // the model is part of the binary
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"quarry.dev/quarry/internal/embed/safetensors"
)

//go:embed models/static-256.safetensors
var staticTable []byte

const (
	dimensions = 256
	// words of a row: eight dimensions in each
	rowWords = dimensions / 8
	// bias makes int8 unsigned, so that eight of them add in one word without a borrow
	bias = 128
	// maxAdds of biased bytes fit into 16 bits: 257 * 255 = 65535
	maxAdds = 257
	lanes   = 0x00ff00ff00ff00ff
	// batch is how many texts a worker takes at a time
	batch = 32
)

// static is a table of one int8 row per WordPiece. The vector of a text is the sum of its pieces' rows, as integers and
// so exact in any order, divided by its length.
type static struct {
	table      []uint64 // rowWords per row, little-endian, each byte plus bias
	vocab      *vocabulary
	digest     string
	tokenizers sync.Pool
}

func loadStatic() (Encoder, error) {
	v, err := sharedVocabulary()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", Static256, err)
	}
	return newStatic(staticTable, v)
}

func newStatic(file []byte, v *vocabulary) (*static, error) {
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", Static256, err)
	}
	data, err := f.Tensor("embeddings", "I8", v.size, dimensions)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", Static256, err)
	}
	s := &static{table: make([]uint64, len(data)/8), vocab: v, digest: digest(file, vocabularyText)}
	for i := range s.table {
		s.table[i] = binary.LittleEndian.Uint64(data[8*i:]) ^ 0x8080808080808080
	}
	s.tokenizers.New = func() any { return &tokenizer{vocab: v} }
	return s, nil
}

// digest covers the table's file, then the vocabulary.
func digest(file []byte, vocab string) string {
	h := sha256.New()
	h.Write(file)
	h.Write([]byte(vocab))
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (s *static) Dimensions() int { return dimensions }

func (s *static) Digest() string { return s.digest }

// Kernels: the sums are of integers.
func (s *static) Kernels() string { return "exact" }

func (s *static) CountTokens(text string) int {
	t := s.tokenizers.Get().(*tokenizer)
	n := len(t.tokens(text))
	s.tokenizers.Put(t)
	return n
}

func (s *static) Encode(texts []string) [][]float32 {
	out := rows(len(texts), dimensions)
	var done atomic.Int64
	work := func() {
		t := s.tokenizers.Get().(*tokenizer)
		defer s.tokenizers.Put(t)
		for {
			end := int(done.Add(batch))
			if end-batch >= len(texts) {
				return
			}
			for i := end - batch; i < min(end, len(texts)); i++ {
				s.encode(out[i], t.tokens(texts[i]))
			}
		}
	}
	workers := min(runtime.GOMAXPROCS(0), (len(texts)+batch-1)/batch)
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	if workers > 0 {
		work()
	}
	wg.Wait()
	return out
}

// rows are n vectors in one piece of memory.
func rows(n, width int) [][]float32 {
	out, backing := make([][]float32, n), make([]float32, n*width)
	for i := range out {
		out[i] = backing[i*width : (i+1)*width : (i+1)*width]
	}
	return out
}

// EncodeTokens gives the rows of the tokens.
func (s *static) EncodeTokens(texts []string) []TokenVectors {
	out := make([]TokenVectors, len(texts))
	t := s.tokenizers.Get().(*tokenizer)
	defer s.tokenizers.Put(t)
	for i, text := range texts {
		ids := t.tokens(text)
		v := make([]float32, len(ids)*dimensions)
		for k := range ids {
			s.encode(v[k*dimensions:][:dimensions], ids[k:k+1])
		}
		whole := make([]float32, dimensions)
		s.encode(whole, ids)
		out[i] = TokenVectors{v, len(ids), whole}
	}
	return out
}

// EncodeWindows sums the rows of each window.
func (s *static) EncodeWindows(passages []Passage, w Windows) [][][]float32 {
	out := make([][][]float32, len(passages))
	t := s.tokenizers.Get().(*tokenizer)
	defer s.tokenizers.Put(t)
	for i, p := range passages {
		windows := w.cut(t, p)
		out[i] = rows(len(windows), dimensions)
		for k, ids := range windows {
			s.encode(out[i][k], ids)
		}
	}
	return out
}

// encode fills out with the normalised sum of the rows of ids; zeros when there are none, or they cancel out.
func (s *static) encode(out []float32, ids []int32) {
	var sum [dimensions]int64
	for n := len(ids); n > 0; n = len(ids) {
		n = min(n, maxAdds)
		s.add(&sum, ids[:n])
		ids = ids[n:]
	}
	square := 0.0
	for _, v := range sum {
		// the conversion forbids a fused multiply-add, which would round differently on other CPUs
		square += float64(float64(v) * float64(v))
	}
	if square == 0 {
		clear(out)
		return
	}
	length := math.Sqrt(square)
	for i, v := range sum {
		out[i] = float32(float64(v) / length)
	}
}

// add adds the rows of at most maxAdds ids. It takes a quarter of a cache line of every row at a time, so that the sums stay
// in registers: two words hold the even and the odd bytes of each eight, 16 bits apart.
func (s *static) add(sum *[dimensions]int64, ids []int32) {
	table := s.table
	for w := 0; w < rowWords; w += 2 {
		var a0, a1, b0, b1 uint64
		for _, id := range ids {
			row := (*[2]uint64)(table[int(id)*rowWords+w:])
			a, b := row[0], row[1]
			a0 += a & lanes
			a1 += a >> 8 & lanes
			b0 += b & lanes
			b1 += b >> 8 & lanes
		}
		spread(sum, 8*w, a0, a1, len(ids))
		spread(sum, 8*w+8, b0, b1, len(ids))
	}
}

// spread adds eight sums to sum[at:], the bias of n rows taken off.
func spread(sum *[dimensions]int64, at int, even, odd uint64, n int) {
	for i := 0; i < 8; i += 2 {
		sum[at+i] += int64(even&0xffff) - int64(bias*n)
		sum[at+i+1] += int64(odd&0xffff) - int64(bias*n)
		even >>= 16
		odd >>= 16
	}
}
