package stage

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"quarry.dev/quarry/internal/segment/frame"
)

// sealFramed makes length and checksum of a segment's file right again, so that damage reaches what reads the body.
func sealFramed(file []byte) []byte {
	const header, footer = 24, 4
	if len(file) < header+footer {
		return file
	}
	kind := frame.Kind{Magic: [8]byte(file), Version: binary.LittleEndian.Uint32(file[8:])}
	return kind.Seal(file[header : len(file)-footer])
}

// spots are offsets below n: all of a small range, else its first ones and some at random.
func spots(rng *rand.Rand, n, most int) []int {
	if n <= most {
		out := make([]int, n)
		for i := range out {
			out[i] = i
		}
		return out
	}
	out := make([]int, most)
	for i := range out {
		if out[i] = i; i >= most/2 {
			out[i] = most/2 + rng.IntN(n-most/2)
		}
	}
	return out
}

// hostileNumbers take the place of each field of four or eight bytes.
var hostileNumbers = []uint64{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffff8, 0xffffffffffffffff}

// hostileValues take the place of strings and numbers of JSON.
var hostileValues = []string{"null", "[]", "{}", `""`, "-1", "1e9", "1e999", "4294967296", "9223372036854775807", "18446744073709551616",
	`"../../x"`, `"\u0000"`, `"sha256:"`, "[[[[[[[[]]]]]]]]", `[{}]`, `{"a":{}}`, "true"}

var jsonValue = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*`)

// damages yields a file in many ways that no writer leaves it in. cut says that it only lost its end.
func damages(rng *rand.Rand, f format, yield func(file []byte, cut bool)) {
	for _, n := range spots(rng, len(f.sample), 400) {
		yield(f.sample[:n:n], true)
	}
	flip := func(file []byte) {
		for range 1 + rng.IntN(4) {
			file[rng.IntN(len(file))] ^= 1 << rng.IntN(8)
		}
	}
	for range 400 {
		file := bytes.Clone(f.sample)
		flip(file)
		yield(file, false)
	}
	if f.text {
		places := jsonValue.FindAllIndex(f.sample, -1)
		for _, i := range spots(rng, len(places), 60) {
			for _, value := range hostileValues {
				yield(bytes.Join([][]byte{f.sample[:places[i][0]], []byte(value), f.sample[places[i][1]:]}, nil), false)
			}
		}
		return
	}
	for _, n := range spots(rng, len(f.sample)-8, 120) {
		for i, number := range hostileNumbers {
			file := bytes.Clone(f.sample)
			if i < 5 {
				binary.LittleEndian.PutUint32(file[n:], uint32(number))
			} else {
				binary.LittleEndian.PutUint64(file[n:], number)
			}
			yield(file, false)
		}
	}
}

// slack is what a reader may allocate for a file of any size, in bytes: tables of stop words, buffers, a walk's memory.
const slack = 2 << 20

// consume reads a file and holds that it neither panics nor allocates more than its size times a small number.
func (f format) consume(t testing.TB, what string, file []byte) (err error) {
	t.Helper()
	if f.wrap != nil {
		file = f.wrap(file)
	}
	read := f.read
	if f.place != nil {
		read = f.place(file)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	func() {
		defer func() {
			if r := recover(); r != nil {
				t.Fatalf("%s, %s, %d bytes: panic: %v", f.name, what, len(file), r)
			}
		}()
		err = read(file)
	}()
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(f.times*len(file)+slack+f.window); got > most {
		t.Fatalf("%s, %s: %d bytes allocate %d, more than %d: %v", f.name, what, len(file), got, most, err)
	}
	return err
}

// TestDecodersSurviveDamage: a file of any format that is cut short, has flipped bits, or claims absurd lengths, is refused or
// read, whatever is sealed over the damage. What is cut short is always refused. It does not panic, nor allocate more than
// a small multiple of the file.
func TestDecodersSurviveDamage(t *testing.T) {
	const leastFormats = 23
	formats, files := formats(t), 0
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			if err := f.consume(t, "as written", f.sample); err != nil {
				t.Fatalf("a good file: %v", err)
			}
			rng := rand.New(rand.NewPCG(uint64(len(f.sample)), 5))
			damages(rng, f, func(file []byte, cut bool) {
				files++
				if err := f.consume(t, "damaged", file); cut && err == nil && !f.prefixes && !(len(file) == 0 && f.empty) {
					t.Fatalf("%d of %d bytes are read as if nothing were missing", len(file), len(f.sample))
				}
				if f.seal == nil {
					return
				}
				files++
				if err := f.consume(t, "damaged and sealed", f.seal(file)); cut && err == nil && !f.prefixes && !(len(file) == 0 && f.empty) {
					t.Fatalf("%d of %d bytes, sealed, are read as if nothing were missing", len(file), len(f.sample))
				}
			})
			for what, file := range f.hostile {
				files++
				_ = f.consume(t, what, file())
			}
		})
	}
	if t.Failed() {
		return
	}
	verdict := "ok"
	if len(formats) < leastFormats {
		verdict = "short"
		t.Errorf("%d formats, there are %d", len(formats), leastFormats)
	}
	t.Logf("bar decoders-formats %d >=%d %s", len(formats), leastFormats, verdict)
	t.Logf("%d damaged files", files)
}

// fuzzFormat fuzzes some of the formats, sealed and as they are.
func fuzzFormat(f *testing.F, names ...string) {
	var chosen []format
	for _, kind := range formats(f) {
		if slices.Contains(names, kind.name) {
			chosen = append(chosen, kind)
		}
	}
	if len(chosen) != len(names) {
		f.Fatalf("%d formats are called %q", len(chosen), names)
	}
	for i, kind := range chosen {
		f.Add(uint8(i), kind.sample)
	}
	f.Fuzz(func(t *testing.T, i uint8, file []byte) {
		kind := chosen[int(i)%len(chosen)]
		_ = kind.consume(t, "fuzzed", file)
		if kind.seal != nil {
			_ = kind.consume(t, "fuzzed and sealed", kind.seal(file))
		}
	})
}
