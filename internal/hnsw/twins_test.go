package hnsw

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// copied is a set of single vectors with copies of some texts among them, and the text that each stands for.
func copied(texts, copies, single, dimensions int) (in [][]float32, text []int) {
	rng := rand.New(rand.NewPCG(1, uint64(copies)))
	points := clustered(rng, texts+single, dimensions, (texts+single)/20)
	rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	for i, p := range points {
		n := 1
		if i < texts {
			n = copies
		}
		for range n {
			in, text = append(in, p), append(text, i)
		}
	}
	rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i]; text[i], text[j] = text[j], text[i] })
	return in, text
}

// TestEveryChunkIsReached follows links and rings from the entry on, however many documents hold the same text.
func TestEveryChunkIsReached(t *testing.T) {
	for _, copies := range []int{1, 2, 30, 300} {
		in, _ := copied(10, copies, 2000, 64)
		x := open(t, in, params)
		seen := make([]bool, len(in))
		todo := []uint32{x.g.entry}
		seen[x.g.entry] = true
		reached := 0
		visit := func(chunk uint32) {
			if !seen[chunk] {
				seen[chunk] = true
				todo = append(todo, chunk)
			}
		}
		for ; len(todo) > 0; reached++ {
			chunk := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			links, err := x.g.layers[0].neighbours(chunk)
			if err != nil {
				t.Fatal(err)
			}
			for ; len(links) > 0; links = links[4:] {
				visit(binary.LittleEndian.Uint32(links))
			}
			if twin, ok, _ := x.g.next(chunk); ok {
				visit(twin)
			}
		}
		if reached < len(in) {
			t.Errorf("%d copies: %d of %d chunks cannot be reached", copies, len(in)-reached, len(in))
		}
	}
}

// TestHiddenTwinsHideNothing: a template stands in many documents, of which the asker may read one. That one is found by its
// own words although its twins are hidden, as it is without them.
func TestHiddenTwinsHideNothing(t *testing.T) {
	const texts, copies = 100, 30
	in, text := copied(texts, copies, 4000, 64)
	x := open(t, in, params)
	allow, own := roaring.New(), map[int]uint32{}
	for i := len(in) - 1; i >= 0; i-- { // the last of its twins, so never the node that stands for them
		if text[i] < texts {
			if _, ok := own[text[i]]; ok {
				continue
			}
			own[text[i]] = uint32(i)
		}
		allow.AddInt(i)
	}
	for _, way := range []func(filter, int, int) way{filter.choose, func(filter, int, int) way { return byWalk }} {
		missed := 0
		for _, chunk := range own {
			hits, _, err := x.search(in[chunk], allow, 10, way, 128)
			if err != nil {
				t.Fatal(err)
			}
			if hits[0].Chunk != chunk {
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("the visible copy is missed by %d of %d questions", missed, len(own))
		}
	}
}

// TestTwinsAreAnsweredInOrder: of many copies that may all be read, those with the lowest numbers come first, as in a scan.
func TestTwinsAreAnsweredInOrder(t *testing.T) {
	in, text := copied(5, 400, 3000, 32)
	x := open(t, in, params)
	for i, of := range text {
		if of >= 5 || i%50 > 0 {
			continue
		}
		walked, _, err := x.Walk(in[i], every(len(in)), 20, 100)
		if err != nil {
			t.Fatal(err)
		}
		scanned, _, err := x.Scan(in[i], every(len(in)), 20)
		if err != nil {
			t.Fatal(err)
		}
		for j := range scanned {
			if walked[j] != scanned[j] {
				t.Fatalf("hit %d of a walk is %+v, of a scan %+v", j, walked[j], scanned[j])
			}
		}
	}
}

// TestNearCopiesAreLinkedTo: texts of one template differ less than 8 bits tell, and still a link leads to each.
func TestNearCopiesAreLinkedTo(t *testing.T) {
	const count, dimensions, variants = 4000, 128, 200
	for _, spread := range []float64{0.05, 0.03, 0.01} {
		rng := rand.New(rand.NewPCG(1, 1))
		in := make([][]float32, count)
		centre := make([]float32, dimensions)
		for i := range in {
			in[i] = make([]float32, dimensions)
			for j := range in[i] {
				if i%variants == 0 {
					centre[j] = float32(rng.NormFloat64())
				}
			}
			for j := range in[i] {
				in[i][j] = centre[j] + float32(rng.NormFloat64()*spread)
			}
		}
		x := open(t, in, params)
		linked := make([]bool, count)
		for i := range uint32(count) {
			links, err := x.g.layers[0].neighbours(i)
			if err != nil {
				t.Fatal(err)
			}
			for ; len(links) > 0; links = links[4:] {
				linked[binary.LittleEndian.Uint32(links)] = true
			}
			if twin, ok, _ := x.g.next(i); ok {
				linked[twin] = true
			}
		}
		alone := 0
		for _, is := range linked {
			if !is {
				alone++
			}
		}
		if alone > 0 {
			t.Errorf("spread %v: no link leads to %d of %d chunks", spread, alone, count)
		}
	}
}
