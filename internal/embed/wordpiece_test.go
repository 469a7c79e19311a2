package embed

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/unicode/norm"

	"quarry.dev/quarry/internal/embed/hostile"
)

// TestTokensEqualLibrary compares the ids of 100,000 hostile texts with those of the tokenizers library, a thousand at a time
// by their digests. Where one differs, `go run ./hack/models/texts | hack/models/make python hack/models/tokens.py ids`
// prints the library's ids, a line a text.
func TestTokensEqualLibrary(t *testing.T) {
	file, err := os.Open("testdata/wordpiece.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var want []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		want = append(want, lines.Text())
	}
	if len(want) != hostile.Count/hostile.Block {
		t.Fatalf("testdata/wordpiece.txt: %d blocks, want %d", len(want), hostile.Count/hostile.Block)
	}
	vocab := model(t).vocab
	got := make([]string, len(want))
	var work sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for first := range cores {
		work.Go(func() {
			for b := first; b < len(got); b += cores {
				got[b] = blockDigests(&tokenizer{vocab: vocab}, b)
			}
		})
	}
	work.Wait()
	for b := range want {
		wantTexts, wantIDs, _ := strings.Cut(want[b], " ")
		texts, ids, _ := strings.Cut(got[b], " ")
		from, to := b*hostile.Block, (b+1)*hostile.Block-1
		if texts != wantTexts {
			t.Errorf("texts %d to %d are not those that the library read: run hack/models/make tokens", from, to)
		} else if ids != wantIDs {
			t.Errorf("texts %d to %d: ids differ from the library's", from, to)
		}
	}
}

// blockDigests is the line of testdata/wordpiece.txt for block b; hack/models/tokens.py says what the digests cover.
func blockDigests(k *tokenizer, b int) string {
	texts, ids := sha256.New(), sha256.New()
	var buf []byte
	for n := b * hostile.Block; n < (b+1)*hostile.Block; n++ {
		text := hostile.Text(n)
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(len(text)))
		texts.Write(append(buf, text...))
		tokens := k.tokens(text)
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(len(tokens)))
		for _, id := range tokens {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(id))
		}
		ids.Write(buf)
	}
	return fmt.Sprintf("%s %s", hex.EncodeToString(texts.Sum(nil)), hex.EncodeToString(ids.Sum(nil)))
}

// FuzzTokenizer holds any bytes, valid UTF-8 or not, to what must be true of every text.
func FuzzTokenizer(f *testing.F) {
	for n := range 200 {
		f.Add(hostile.Text(hostile.Count-1-n), "next")
	}
	f.Add("\xff\xc3 bad\x80", "utf\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, a, b string) {
		s := model(t)
		k := &tokenizer{vocab: s.vocab}
		ids := slices.Clone(k.tokens(a))
		if want := plain().tokens(a); !slices.Equal(ids, want) {
			t.Fatalf("%q: %v, by the plain definition %v", a, ids, want)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= s.vocab.size || id != s.vocab.unknown && id < 999 {
				t.Fatalf("%q: id %d is none that a text may have", a, id)
			}
		}
		if n := s.CountTokens(a); n != len(ids) {
			t.Fatalf("%q: %d tokens counted, %d made", a, n, len(ids))
		}
		same := func(what, text string, want []int32) {
			t.Helper()
			if got := k.tokens(text); !slices.Equal(got, want) {
				t.Fatalf("%q, %s: %v, want %v", text, what, got, want)
			}
		}
		same("a second time", a, ids)
		same("without what is not UTF-8", strings.ToValidUTF8(a, ""), ids)
		same("decomposed", norm.NFD.String(strings.ToValidUTF8(a, "")), ids)
		next := slices.Clone(k.tokens(b))
		same("two texts with a space between", a+" "+b, append(ids, next...))
	})
}

func TestFirst(t *testing.T) {
	k := &tokenizer{vocab: model(t).vocab}
	for i := range 2000 {
		text := hostile.Text(hostile.Count/2 + i)
		all := slices.Clone(k.tokens(text))
		for _, n := range []int{0, 1, 2, 7, len(all), len(all) + 1} {
			if got := k.first(text, n); !slices.Equal(got, all[:min(n, len(all))]) {
				t.Fatalf("%q: the first %d are %v, of %v", text, n, got, all)
			}
		}
	}
}
