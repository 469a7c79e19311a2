package stage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/source"
)

// compressed are lines of JSON as a listing holds them.
func compressed(lines []byte) []byte {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		panic(err)
	}
	if _, err := z.Write(lines); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// zstdBlocks is a frame with that window descriptor of as many blocks of 128 KiB of one byte, which take four bytes each.
func zstdBlocks(window byte, value byte, blocks int) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window}
	for i := range blocks {
		head := uint32(128<<10)<<3 | 1<<1
		if i == blocks-1 {
			head |= 1
		}
		out = append(out, byte(head), byte(head>>8), byte(head>>16), value)
	}
	return out
}

func (w *written) listingFormats() []format {
	key, err := artifact.SnapshotKey(w.env.Config.Snapshot)
	if err != nil {
		w.t.Fatal(err)
	}
	snapshot := w.get(key)
	lines := must(zstd.NewReader(bytes.NewReader(snapshot)))
	defer lines.Close()
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(lines); err != nil {
		w.t.Fatal(err)
	}
	place := func(file []byte) func([]byte) error {
		err := w.place(key, file)
		return func([]byte) error {
			_, readErr := source.ReadSnapshot(ctx, w.art, w.env.Config.Snapshot)
			return errors.Join(err, readErr)
		}
	}
	bombs := map[string]func() []byte{
		"a window of 512 MiB":   func() []byte { return zstdBlocks(19<<3, '{', 1) },
		"64 MiB of blanks":      func() []byte { return zstdBlocks(10<<3, ' ', 512) },
		"64 MiB of one bracket": func() []byte { return zstdBlocks(10<<3, '[', 512) },
		"64 MiB of one word":    func() []byte { return compressed(append([]byte(`{"key":"`), bytes.Repeat([]byte("a"), 64<<20)...)) },
		"many small entries":    func() []byte { return compressed(smallEntries(100_000)) },
	}
	return []format{
		{name: "snapshot", sample: snapshot, times: 2048, window: 10 << 20, hostile: bombs, place: place},
		{name: "lines of a snapshot", sample: plain.Bytes(), text: true, times: 2048, window: 10 << 20, wrap: compressed, place: place},
		{name: "ledger", sample: w.object("ledger/", ".zst"), times: 2048, window: 10 << 20, empty: true, hostile: bombs, place: w.placeLedger},
	}
}

// smallEntries ascend, and say no more than that.
func smallEntries(n int) []byte {
	var out []byte
	for i := range n {
		out = fmt.Appendf(out, "{\"key\":\"%06d\"}\n", i)
	}
	return out
}

// placeLedger points CURRENT to the file by the digest of its lines, as far as they can be read.
func (w *written) placeLedger(file []byte) func([]byte) error {
	digest := "sha256:" + strings.Repeat("0", 64)
	if z, err := zstd.NewReader(bytes.NewReader(file), zstd.WithDecoderMaxWindow(8<<20)); err == nil {
		h := sha256.New()
		if n, _ := io.Copy(h, io.LimitReader(z, 16<<20)); n < 16<<20 {
			digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
		}
		z.Close()
	}
	body, err := json.Marshal(source.Current{Epoch: 1, Digest: digest, Ledger: digest})
	key, keyErr := artifact.LedgerKey(digest)
	placed := errors.Join(err, keyErr, w.place(artifact.CurrentKey, body), w.place(key, file))
	return func([]byte) error {
		_, err := source.ReadLedger(ctx, w.art)
		return errors.Join(placed, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *written) stageFormats() []format {
	idx, pack := w.object("cache/chunk/", ".idx"), w.object("cache/chunk/", ".pack")
	etc := w.t.TempDir()
	if err := os.Mkdir(filepath.Join(etc, "config"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	config, err := json.Marshal(w.env.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	report := w.object("reports/", "/build/0.json")
	chunks, contexts, vectors := w.cached("chunk"), w.cached("contextualize"), w.cached("embed")
	return []format{
		{name: "cache .idx", sample: idx, text: true, times: 128, hostile: map[string]func() []byte{
			"an offset that overflows": func() []byte { return []byte(`{"entries":[{"key":"k","offset":9223372036854775807,"length":2}]}`) },
			"a length that overflows":  func() []byte { return []byte(`{"entries":[{"key":"k","offset":2,"length":9223372036854775807}]}`) },
		}, read: func(file []byte) error { return w.readCache(file, pack) }},
		{name: "cache .pack", sample: pack, times: 16, read: func(file []byte) error { return w.readCache(idx, file) }},
		{name: "cached chunks", sample: chunks, text: true, times: 128, read: func(file []byte) error { _, err := decodeChunks(file); return err }},
		{name: "cached contexts", sample: contexts, text: true, times: 128, read: func(file []byte) error { _, err := decodeContexts(file); return err }},
		{name: "cached vectors", sample: vectors, prefixes: true, times: 16, read: func(file []byte) error { _, err := decodeVectors(256)(file); return err }},
		{name: "report", sample: report, text: true, times: 128, read: func(file []byte) error {
			if err := w.place(artifact.ReportKey("damaged", NameBuild, 0), file); err != nil {
				return err
			}
			e := w.env
			e.Config.Index = "damaged"
			_, err := e.readReport(ctx, NameBuild, 0)
			return err
		}},
		{name: "config.json", sample: config, text: true, times: 128, read: func(file []byte) error {
			if err := os.WriteFile(filepath.Join(etc, "config", "config.json"), file, 0o600); err != nil {
				return err
			}
			_, err := ReadConfig(etc)
			return err
		}},
	}
}

// cached is one value of a stage's cache.
func (w *written) cached(stage string) []byte {
	w.t.Helper()
	var index struct {
		Entries []struct {
			Key            string
			Offset, Length int64
		}
	}
	if err := json.Unmarshal(w.object("cache/"+stage+"/", ".idx"), &index); err != nil || len(index.Entries) == 0 {
		w.t.Fatal(err)
	}
	e := index.Entries[0]
	return w.object("cache/"+stage+"/", ".pack")[e.Offset:][:e.Length]
}

// readCache reads every value of a pack, under the name that its bytes have.
func (w *written) readCache(idx, pack []byte) error {
	b, settings := artifact.NewMemory(), artifact.Digest(nil)
	name := "cache/chunk/" + strings.TrimPrefix(settings, "sha256:") + "/" + strings.TrimPrefix(artifact.Digest(pack), "sha256:")
	for suffix, file := range map[string][]byte{".idx": idx, ".pack": pack} {
		if _, err := b.Put(ctx, name+suffix, file, artifact.Condition{}); err != nil {
			return err
		}
	}
	cache, err := artifact.OpenCache(ctx, b, "chunk", settings)
	if err != nil {
		return err
	}
	var entries struct{ Entries []struct{ Key string } }
	if err := json.Unmarshal(idx, &entries); err != nil {
		return err
	}
	keys := []string{}
	for _, e := range entries.Entries {
		keys = append(keys, e.Key)
	}
	return cache.Each(ctx, keys, func(int, []byte) error { return nil })
}

// TestEveryObjectHasAFormat: whatever a sync and a build leave in the bucket is among the formats.
func TestEveryObjectHasAFormat(t *testing.T) {
	known := map[string]bool{}
	for _, f := range formats(t) {
		known[f.name] = true
	}
	names := map[string]string{"indexes/": "manifest.json", "snapshots/": "snapshot", "ledger/": "ledger", "reports/": "report"}
	for _, key := range write(t).art.Keys() {
		name := ""
		switch folder, file := key[:strings.Index(key, "/")+1], path.Base(key); {
		case strings.HasPrefix(file, "tombstones-"):
			name = "tombstones.seg"
		case folder == "segments/" || key == "OWNER" || file == "CURRENT":
			name = file
		case folder == "cache/":
			name = "cache " + path.Ext(file)
		case folder == "overlay/":
			name = "overlay"
		default:
			name = names[folder]
		}
		if !known[name] {
			t.Errorf("%s has no format: add one to formats", key)
		}
	}
}

// FuzzSegmentFiles watches the memory too; the packages of these files have fuzz targets of their own for the rest.
func FuzzSegmentFiles(f *testing.F) {
	fuzzFormat(f, "bm25.seg", "vectors.seg", "hnsw.seg", "chunks.seg", "tombstones.seg", "access.seg")
}

func FuzzManifest(f *testing.F)   { fuzzFormat(f, "manifest.json") }
func FuzzOverlay(f *testing.F)    { fuzzFormat(f, "overlay") }
func FuzzSnapshot(f *testing.F)   { fuzzFormat(f, "snapshot") }
func FuzzListing(f *testing.F)    { fuzzFormat(f, "lines of a snapshot") }
func FuzzCacheIndex(f *testing.F) { fuzzFormat(f, "cache .idx") }

// FuzzOtherFiles are those that one decoder of the standard library reads, or that are a plain matrix.
func FuzzOtherFiles(f *testing.F) {
	fuzzFormat(f, "CURRENT", "OWNER", "cache .pack", "cached chunks", "cached contexts", "cached vectors", "report", "config.json", "eval set", "eval report")
}
