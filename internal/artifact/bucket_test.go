package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/testdata"
)

var ctx = context.Background()

// conform is what every Bucket promises.
func conform(t *testing.T, b Bucket) {
	etag, err := b.Put(ctx, "a/b.txt", []byte("hello"), Condition{IfNoneMatch: true})
	if err != nil || etag == "" || strings.Contains(etag, `"`) {
		t.Fatalf("put: %q %v", etag, err)
	}
	if _, err := b.Put(ctx, "a/b.txt", []byte("other"), Condition{IfNoneMatch: true}); !errors.Is(err, ErrPrecondition) {
		t.Fatalf("a second if-none-match: %v", err)
	}
	if _, err := b.Put(ctx, "a/b.txt", []byte("other"), Condition{IfMatch: "00000000000000000000000000000000"}); !errors.Is(err, ErrPrecondition) {
		t.Fatalf("a wrong if-match: %v", err)
	}
	if _, err := b.Put(ctx, "a/none.txt", []byte("other"), Condition{IfMatch: etag}); !errors.Is(err, ErrPrecondition) {
		t.Fatalf("if-match of an absent object: %v", err)
	}
	second, err := b.Put(ctx, "a/b.txt", []byte("hello world"), Condition{IfMatch: etag})
	if err != nil || second == etag {
		t.Fatalf("if-match: %q %v", second, err)
	}
	data, info, err := b.Get(ctx, "a/b.txt")
	if err != nil || string(data) != "hello world" || info.Key != "a/b.txt" || info.ETag != second || info.Size != 11 || info.Modified.IsZero() {
		t.Fatalf("get: %q %+v %v", data, info, err)
	}
	if head, err := b.Head(ctx, "a/b.txt"); err != nil || head.ETag != second || head.Size != 11 {
		t.Fatalf("head: %+v %v", head, err)
	}
	for _, r := range []struct {
		Read
		want string
	}{{Read{Offset: 6}, "world"}, {Read{Length: 1}, "h"}, {Read{Offset: 4, Length: 3}, "o w"}, {Read{IfMatch: second}, "hello world"}, {Read{MaxBytes: 11}, "hello world"}} {
		if got, _, err := ReadAll(ctx, b, "a/b.txt", r.Read); err != nil || string(got) != r.want {
			t.Errorf("%+v: %q %v", r.Read, got, err)
		}
	}
	if _, _, err := ReadAll(ctx, b, "a/b.txt", Read{IfMatch: etag}); !errors.Is(err, ErrPrecondition) {
		t.Errorf("read with an old etag: %v", err)
	}
	if _, _, err := ReadAll(ctx, b, "a/b.txt", Read{MaxBytes: 10}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("read of too much: %v", err)
	}
	for name, err := range map[string]error{"get": third(b.Get(ctx, "nope")), "head": last(b.Head(ctx, "nope"))} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of an absent object: %v", name, err)
		}
	}
	if err := errors.Join(b.Delete(ctx, "a/b.txt"), b.Delete(ctx, "a/b.txt")); err != nil {
		t.Errorf("delete: %v", err)
	}
	conformListing(t, b)
}

func third(_ []byte, _ Info, err error) error { return err }
func last(_ Info, err error) error            { return err }

func conformListing(t *testing.T, b Bucket) {
	want := []string{"l/a-b", "l/a/b", "l/a0", "l/z"}
	for _, k := range []string{"l/z", "l/a/b", "l/a0", "l/a-b", "m"} {
		if _, err := b.Put(ctx, k, []byte("x"), Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := b.List(ctx, "l/", func(i Info) error { got = append(got, i.Key); return nil }); err != nil || !slices.Equal(got, want) {
		t.Errorf("list: %q %v", got, err)
	}
	stop := errors.New("enough")
	if err := b.List(ctx, "l/", func(Info) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a listing that is stopped: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.List(cancelled, "", func(Info) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled listing: %v", err)
	}
}

// roundTrip stores each key, finds it in the listing under exactly its bytes, and reads it back.
func roundTrip(t *testing.T, b Bucket, keys []string) {
	stored := map[string]bool{}
	for _, k := range keys {
		if _, err := b.Put(ctx, k, []byte("of "+k), Condition{}); err != nil {
			t.Logf("the server cannot hold %q: %v", k, err)
			continue
		}
		stored[k] = true
	}
	listed := map[string]bool{}
	if err := b.List(ctx, "", func(i Info) error { listed[i.Key] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for k := range stored {
		data, _, err := b.Get(ctx, k)
		if err == nil && string(data) == "of "+k && !listed[k] && path.Clean("/"+k) != "/"+k {
			t.Logf("the server lists %q under another name, as a file system does", k)
			continue
		}
		if err != nil || (string(data) != "of "+k && !strings.HasSuffix(k, "/")) || !listed[k] {
			t.Errorf("%q: listed %v, read %q, %v", k, listed[k], data, err)
		}
	}
	for _, must := range []string{"docs/with space.md", "docs/1+2.md", "docs/1 2.md", "docs/percent%20literal.md", "docs/hash#frag.md", "docs/quest?q.md", "docs/nbsp\u00a0name.md"} {
		if !stored[must] {
			t.Errorf("%q could not be stored", must)
		}
	}
}

func hardKeys(t *testing.T) []string {
	keys := []string{"docs/1+2.md", "docs/1 2.md", "docs/with space.md", "docs/percent%20literal.md", "docs/hash#frag.md", "docs/quest?q.md", "docs/nbsp\u00a0name.md"}
	t.Run("vectors", func(t *testing.T) {
		data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Keys []string `json:"s3_keys"`
		}
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, v.Keys...)
	})
	return keys
}

func TestMemory(t *testing.T) {
	conform(t, NewMemory())
	roundTrip(t, NewMemory(), hardKeys(t))
}

func TestDir(t *testing.T) {
	conform(t, NewDir(t.TempDir()))
	roundTrip(t, NewDir(t.TempDir()), hardKeys(t))
	d := NewDir(t.TempDir())
	for _, bad := range []string{"../x", "/x", "", ".", "a/../../x", "a//b", `a\b`} {
		if _, err := d.Put(ctx, bad, nil, Condition{}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if err := NewDir(t.TempDir()+"/absent").List(ctx, "", func(Info) error { return nil }); err == nil {
		t.Error("an absent folder lists as empty")
	}
}

func TestClaimPrefix(t *testing.T) {
	b, a := NewMemory(), Owner{ClusterUID: "1", Namespace: "rag", Name: "docs"}
	for range 2 {
		if err := ClaimPrefix(ctx, b, a); err != nil {
			t.Fatal(err)
		}
	}
	err := ClaimPrefix(ctx, b, Owner{ClusterUID: "2", Namespace: "rag", Name: "docs"})
	if !errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), "Corpus rag/docs of cluster 1") {
		t.Fatalf("got %v", err)
	}
	if _, err := b.Put(ctx, OwnerKey, []byte("{"), Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := ClaimPrefix(ctx, b, a); !errors.Is(err, ErrOwned) {
		t.Fatalf("a damaged owner file: %v", err)
	}
	if err := ClaimPrefix(ctx, NewMemory(), Owner{}); err == nil {
		t.Fatal("an empty owner may claim")
	}
}

// careless is a store that ignores conditions, as some do.
type careless struct{ *Memory }

func (c careless) Put(ctx context.Context, key string, body []byte, _ Condition) (string, error) {
	return c.Memory.Put(ctx, key, body, Condition{})
}

func TestConditionalWritesAreProbed(t *testing.T) {
	if err := ClaimPrefix(ctx, careless{NewMemory()}, Owner{ClusterUID: "1", Namespace: "n", Name: "d"}); !errors.Is(err, ErrConditionalWrites) {
		t.Fatalf("got %v", err)
	}
}

func TestCache(t *testing.T) {
	b, settings := NewMemory(), Digest([]byte("settings"))
	c, err := OpenCache(ctx, b, "chunk", settings)
	if err != nil {
		t.Fatal(err)
	}
	w := c.NewWriter()
	w.limit = 70
	for i := range 50 {
		if err := w.Add(ctx, fmt.Sprint("k", i), fmt.Appendf(nil, "value %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if c.Len() == 0 || c.Len() == 50 {
		t.Fatalf("%d keys before the last flush", c.Len())
	}
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	c, err = OpenCache(ctx, b, "chunk", settings)
	if err != nil || c.Len() != 50 {
		t.Fatalf("%d keys, %v", c.Len(), err)
	}
	var keys []string
	for i := range 60 {
		keys = append(keys, fmt.Sprint("k", 59-i))
	}
	gets, seen := b.Ops("get"), 0
	err = c.Each(ctx, keys, func(i int, value []byte) error {
		seen++
		if want := fmt.Sprint("value ", 59-i); string(value) != want {
			t.Errorf("%s holds %q", keys[i], value)
		}
		return nil
	})
	packs := len(slices.DeleteFunc(b.Keys(), func(k string) bool { return !strings.HasSuffix(k, ".pack") }))
	if err != nil || seen != 50 || b.Ops("get")-gets != packs {
		t.Fatalf("%d seen, %d reads of %d packs, %v", seen, b.Ops("get")-gets, packs, err)
	}
	if other, err := OpenCache(ctx, b, "chunk", Digest(nil)); err != nil || other.Len() != 0 {
		t.Fatal("other settings see this cache")
	}
	for _, k := range b.Keys() {
		if strings.HasSuffix(k, ".pack") {
			_, _ = b.Put(ctx, k, []byte("damaged"), Condition{})
		}
	}
	if c, err = OpenCache(ctx, b, "chunk", settings); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(ctx, "k1"); !errors.Is(err, ErrDigest) {
		t.Fatalf("a damaged pack: %v", err)
	}
}

// Two documents of equal results share a pack; both keys must be found.
func TestCacheEqualValues(t *testing.T) {
	b, settings := NewMemory(), Digest(nil)
	for _, key := range []string{"one", "two"} {
		c, err := OpenCache(ctx, b, "embed", settings)
		if err != nil {
			t.Fatal(err)
		}
		w := c.NewWriter()
		if err := errors.Join(w.Add(ctx, key, []byte("same")), w.Flush(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := OpenCache(ctx, b, "embed", settings)
	if err != nil || !c.Has("one") || !c.Has("two") {
		t.Fatalf("%d keys, %v", c.Len(), err)
	}
}

func TestDownload(t *testing.T) {
	b, file := NewMemory(), filepath.Join(t.TempDir(), "f", "x.seg")
	_, _ = b.Put(ctx, "x", []byte("content"), Condition{})
	if err := Download(ctx, b, "x", file, Digest([]byte("other"))); !errors.Is(err, ErrDigest) {
		t.Fatalf("got %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) > 0 {
		t.Fatal("a refused download left a file")
	}
	for range 2 {
		if err := Download(ctx, b, "x", file, Digest([]byte("content"))); err != nil {
			t.Fatal(err)
		}
	}
	if b.Ops("get") != 2 {
		t.Fatal("a file that is there is fetched again")
	}
}

func TestDigestHexRefuses(t *testing.T) {
	for _, bad := range []string{"", "sha256:", "sha256:../../x", "sha256:" + strings.Repeat("A", 64), "md5:" + strings.Repeat("a", 64)} {
		if _, err := DigestHex(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
