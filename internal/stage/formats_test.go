package stage

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/eval"
	"quarry.dev/quarry/internal/gate"
	"quarry.dev/quarry/internal/hnsw"
	"quarry.dev/quarry/internal/segment"
	"quarry.dev/quarry/internal/source"
)

// format is a kind of file that a part of Quarry reads back.
type format struct {
	name string
	// sample is what its writer writes.
	sample []byte
	// read decodes a file and uses what it decoded. Where a digest names the file, it takes that of the damaged one.
	read func(file []byte) error
	// place is there instead of read where what goes before reading is no part of it.
	place func(file []byte) (read func(file []byte) error)
	// wrap packs what sample and damage are inside of.
	wrap func(file []byte) []byte
	// seal makes what a file says of itself right again after damage; nil where nothing does.
	seal func(file []byte) []byte
	// text is JSON; prefixes are good files too, or no bytes at all.
	text, prefixes, empty bool
	// times the size of the file, beside the slack, may be allocated.
	times int
	// window is what a decoder of compressed files takes for a file of any size, in bytes.
	window int
	// hostile are files that no damage of the sample leads to.
	hostile map[string]func() []byte
}

// written is an index of two segments, one with dead documents, and all that led to it.
type written struct {
	*bench
	t        testing.TB
	manifest artifact.Manifest
	build    Report
}

func write(t testing.TB) *written {
	w := &written{bench: newBench(t, 150), t: t}
	w.bench.put("team/secret.md", "# Secret\n\nOnly for the team.\n")
	w.bench.put("team/secret.md.acl.json", `{"allow":[{"type":"Group","name":"team"},{"type":"User","name":"ann"}]}`)
	w.sync()
	_, _, first := w.run()
	w.follow(first)
	for i := range 5 {
		w.bench.put(fmt.Sprintf("d%02d.md", i), fmt.Sprintf("# Changed %d\n\nThe marble quarry closed.\n", i))
	}
	w.build, w.manifest = w.next()
	return w
}

// object is the first one whose key begins and ends so.
func (w *written) object(prefix, suffix string) []byte {
	w.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.under(prefix))) {
		if strings.HasSuffix(key, suffix) {
			return w.get(key)
		}
	}
	w.t.Fatalf("nothing is written as %s*%s", prefix, suffix)
	return nil
}

func (w *written) get(key string) []byte {
	w.t.Helper()
	data, _, err := w.art.Get(ctx, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// formats are all that Quarry reads back of what it wrote, each with what a real build wrote.
func formats(t testing.TB) []format {
	t.Helper()
	w := write(t)
	return slices.Concat(w.segmentFormats(), w.manifestFormats(), w.accessFormats(), w.listingFormats(), w.stageFormats())
}

var whatever = bm25.Query{Text: "granite quarry marble number 7 opens absent", K: 10, K1: 0.9, B: 0.4}

func (w *written) segmentFormats() []format {
	vectors, graph := w.object("segments/", "/vectors.seg"), w.object("segments/", "/hnsw.seg")
	return []format{
		{name: "bm25.seg", sample: w.object("segments/", "/bm25.seg"), seal: sealFramed, times: 16, read: readBM25},
		{name: "vectors.seg", sample: vectors, seal: sealFramed, times: 16, read: func(file []byte) error {
			return readHNSW(file, linked(graph, file))
		}},
		{name: "hnsw.seg", sample: graph, seal: sealFramed, times: 16, hostile: map[string]func() []byte{
			"a graph of more vectors":  func() []byte { return graphOf(300, vectors) },
			"a graph of fewer vectors": func() []byte { return graphOf(20, vectors) },
		}, read: func(file []byte) error { return readHNSW(vectors, file) }},
		{name: "chunks.seg", sample: w.object("segments/", "/chunks.seg"), seal: sealFramed, times: 32, hostile: map[string]func() []byte{
			"a long name of many chunks": longName,
		}, read: func(file []byte) error {
			chunks, err := segment.Open(file)
			if err != nil {
				return err
			}
			chunks.At(0)
			chunks.At(chunks.Len() - 1)
			return nil
		}},
		{name: "tombstones.seg", sample: w.tombstones(), seal: sealFramed, times: 64, read: func(file []byte) error {
			_, err := segment.DecodeTombstones(file, 150)
			return err
		}},
		{name: "access.seg", sample: w.object("segments/", "/access.seg"), times: 64, hostile: map[string]func() []byte{
			"many documents of many readers": manyReaders,
		}, read: func(file []byte) error {
			table, err := access.DecodeTable(file)
			if err == nil {
				table.AllowSet(access.Identity{User: "ann", Groups: []string{"team"}}, nil)
				table.Encode()
			}
			return err
		}},
	}
}

func (w *written) tombstones() []byte {
	w.t.Helper()
	for key := range w.under("segments/") {
		if strings.Contains(key, "/tombstones-") {
			return w.get(key)
		}
	}
	w.t.Fatal("nothing is dead")
	return nil
}

func readBM25(file []byte) error {
	s, err := bm25.Open(file)
	if err != nil {
		return err
	}
	all := roaring.New()
	all.AddRange(0, uint64(s.Chunks()))
	var errs []error
	for _, allow := range []*roaring.Bitmap{all, roaring.BitmapOf(0, 1, 77, 130)} {
		q := whatever
		q.Allow = allow
		_, searched := s.Search(q)
		_, scored := s.Score(q, []uint32{0, 5, 130, 1 << 31})
		_, counted := s.Statistics(q)
		errs = append(errs, searched, scored, counted)
	}
	return errors.Join(append(errs, bm25.Check(file))...)
}

func readHNSW(vectors, graph []byte) error {
	x, err := hnsw.Open(vectors, graph)
	if err != nil {
		return err
	}
	q := make([]float32, x.Dimensions())
	for i := range q {
		q[i] = float32(i%7) - 3
	}
	all := roaring.New()
	all.AddRange(0, uint64(x.Len()))
	var errs []error
	for _, allow := range []*roaring.Bitmap{all, roaring.BitmapOf(0, 1, 77, 130)} {
		_, _, walked := x.Walk(q, allow, 5, 20)
		_, _, scanned := x.Scan(q, allow, 5)
		errs = append(errs, walked, scanned)
	}
	_, scored := x.Score(q, []uint32{0, 5})
	return errors.Join(append(errs, scored, hnsw.Check(vectors, graph))...)
}

// linked is a graph that names the checksum of those vectors, as the one that was built of them does.
func linked(graph, vectors []byte) []byte {
	graph = bytes.Clone(graph)
	if len(vectors) >= 4 {
		copy(graph[36:40], vectors[len(vectors)-4:])
	}
	return sealFramed(graph)
}

// graphOf is a graph of so many other vectors.
func graphOf(n int, vectors []byte) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 3))
	in := make([][]float32, n)
	for i := range in {
		for range 256 {
			in[i] = append(in[i], rng.Float32()-0.5)
		}
	}
	_, graph, err := hnsw.Build(in, hnsw.Params{M: 16, EfConstruction: 64})
	if err != nil {
		panic(err)
	}
	return linked(graph, vectors)
}

// longName is a chunks.seg whose chunks all belong to one document with a long name.
func longName() []byte {
	chunks, name := make([]segment.Chunk, 5000), strings.Repeat("n", 100_000)
	for i := range chunks {
		chunks[i].Document = name
	}
	file, err := segment.Encode(chunks)
	if err != nil {
		panic(err)
	}
	return file
}

// manyReaders is an access.seg in which every document names the same long list; access/codec.go states the layout.
func manyReaders() []byte {
	empty := must(access.NewTable(nil)).Encode()
	out := binary.AppendUvarint(empty[:len(empty)-2], 1)
	out = binary.AppendUvarint(out, access.MaxAllow)
	for i := range access.MaxAllow {
		out = fmt.Appendf(out, "u\x04u%03d", i)
	}
	const documents = 20_000
	out = binary.AppendUvarint(out, documents)
	for i := range uint64(documents) {
		out = fmt.Appendf(out, "\x05%05d\x00", i)
		out = append(binary.AppendUvarint(out, i), 1)
	}
	return out
}

func (w *written) manifestFormats() []format {
	content, dir := w.env.Config.ContentDigest, w.t.TempDir()
	key := "indexes/" + strings.TrimPrefix(content, "sha256:") + "/manifest.json"
	body, err := json.Marshal(w.manifest)
	if err != nil {
		w.t.Fatal(err)
	}
	return []format{{name: "manifest.json", sample: body, text: true, times: 256, hostile: map[string]func() []byte{
		"empty segments": func() []byte {
			return []byte(`{"formatVersion":"` + artifact.FormatVersion + `","segments":[` + strings.Repeat("{},", 50_000) + `{}]}`)
		},
		"deep": func() []byte { return []byte(strings.Repeat(`{"segments":[`, 100_000)) },
	}, read: func(file []byte) error {
		if err := w.place(key, file); err != nil {
			return err
		}
		m, _, digest, err := artifact.FindManifest(ctx, w.art, content)
		if err != nil {
			return err
		}
		m.Bytes()
		loaded, err := segment.Load(ctx, w.art, content, digest, dir, segment.RoleAll)
		if err != nil {
			return err
		}
		return loaded.Close()
	}}}
}

// place writes an object, whatever is there.
func (w *written) place(key string, file []byte) error {
	_, err := w.art.Put(ctx, key, file, artifact.Condition{})
	return err
}

var evalReport = eval.Report{
	Run: "r", Index: "i", VersionDigest: "sha256:v", EvalSetDigest: "sha256:e", AccessEpoch: 7,
	Questions: []eval.QuestionReport{{ID: "q1", Hits: []eval.HitReport{{Document: "d01.md", End: 5, Score: 0.5}}, Ranks: []int{1},
		Values: map[string]float64{"Recall@10": 1}}},
	Metrics: []eval.MetricReport{{Metric: eval.Metric{Name: eval.Recall, K: 10}, Value: 1, Upper: 1, Questions: 1, Paired: &eval.Paired{Baseline: 1}}},
	Leaks:   eval.LeakReport{Probes: 3},
	Stale:   []eval.StaleQuestion{{ID: "q2", Reason: "gone"}},
}

func (w *written) accessFormats() []format {
	current := w.get(artifact.CurrentKey)
	var now source.Current
	if err := json.Unmarshal(current, &now); err != nil {
		w.t.Fatal(err)
	}
	overlay := []byte(`{"epoch":7,"entries":{"d01.md":{"gone":true,"allow":[]},"d02.md":{"allow":[{"type":"Group","name":"hr"},{"type":"Everyone"}]}}}`)
	return []format{
		{name: "overlay", sample: overlay, text: true, times: 128, read: func(file []byte) error {
			pointer := now
			pointer.Epoch, pointer.Digest = 7, artifact.Digest(file)
			body, err := json.Marshal(pointer)
			if err := errors.Join(err, w.place(artifact.CurrentKey, body), w.place(artifact.OverlayKey(7), file)); err != nil {
				return err
			}
			_, _, err = source.ReadOverlay(ctx, w.art)
			return err
		}},
		{name: "CURRENT", sample: bytes.TrimSpace(current), text: true, times: 128, read: func(file []byte) error {
			if err := w.place(artifact.CurrentKey, file); err != nil {
				return err
			}
			_, _, err := source.ReadCurrent(ctx, w.art)
			return err
		}},
		{name: "OWNER", sample: []byte(`{"clusterUID":"c","namespace":"n","name":"d"}`), text: true, times: 128, read: func(file []byte) error {
			if err := w.place(artifact.OwnerKey, file); err != nil {
				return err
			}
			return artifact.ClaimPrefix(ctx, w.art, artifact.Owner{ClusterUID: "c", Namespace: "n", Name: "d"})
		}},
		{name: "sidecar", sample: []byte(`{"allow":[{"type":"Group","name":"hr"},{"type":"User","name":"ann"}]}`), text: true, times: 128,
			read: func(file []byte) error { _, err := access.ParseSidecar(file); return err }},
		{name: "eval set", sample: []byte(`{"id":"q1","question":"when does it open","as":{"user":"ann"},"evidence":[[{"document":"d01.md"}]]}`), text: true, times: 128,
			read: func(file []byte) error { _, err := eval.ParseSet(file); return err }},
		{name: "eval report", sample: must(json.Marshal(evalReport)), text: true, times: 256, read: func(file []byte) error {
			var report eval.Report
			err := json.Unmarshal(file, &report)
			gate.Judge(v1alpha1.EvalRunSpec{Metrics: []v1alpha1.GateMetric{{Name: eval.Recall, K: 10, Minimum: "0.8"}}, MinQuestions: 1}, report)
			_ = report.Text()
			return err
		}},
	}
}
