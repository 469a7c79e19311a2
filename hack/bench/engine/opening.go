package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sys/unix"

	"quarry.dev/quarry/internal/bm25"
)

const (
	gigabyte = 1 << 30
	// where the two sizes lie that tell how long a file is: that of the body in the envelope, and that of the postings.
	bodySizeAt, postingsSizeAt = 16, 24 + 16 + 8
	// fewPages hold the header.
	fewPages = 8
)

// opening times the opening of a segment of 1 GiB that is not in memory, and counts the pages that are
// afterwards, with the read-ahead of the kernel turned off. The file
// is a real segment whose postings are filled up with bytes that no term points to, written to disk in full.
func (b *bench) opening() error {
	if !b.wants("bm25-open-") {
		return nil
	}
	path, err := b.gigabyteSegment()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }()
	file, err := mapCold(path)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Munmap(file) }()
	start := time.Now()
	s, err := bm25.Open(file)
	took := time.Since(start)
	if err != nil {
		return err
	}
	pages, err := resident(file)
	if err != nil {
		return err
	}
	b.most("bm25-open-1g-time", float64(took.Microseconds())/1000, 50, "ms")
	b.most("bm25-open-1g-pages", float64(pages), fewPages, "pages")

	qs, err := b.questions(4)
	if err != nil {
		return err
	}
	all := roaring.New()
	all.AddRange(0, uint64(s.Chunks()))
	start = time.Now()
	if _, err := s.Search(bm25.Query{Text: qs[0].String(), Allow: all, K: top, K1: k1, B: lengthB}); err != nil {
		return err
	}
	took = time.Since(start)
	if pages, err = resident(file); err != nil {
		return err
	}
	b.note("bm25-open-1g the first question after it: %.1f ms, %d of %d pages in memory", float64(took.Microseconds())/1000, pages, len(file)/os.Getpagesize())
	return nil
}

// gigabyteSegment writes it and returns its path.
func (b *bench) gigabyteSegment() (path string, err error) {
	file, err := segment(usual)
	if err != nil {
		return "", err
	}
	b.progress("writing a segment of 1 GiB")
	le := binary.LittleEndian
	more := gigabyte - len(file)
	le.PutUint64(file[bodySizeAt:], le.Uint64(file[bodySizeAt:])+uint64(more))
	le.PutUint64(file[postingsSizeAt:], le.Uint64(file[postingsSizeAt:])+uint64(more))
	out, err := os.CreateTemp("", "bench-engine-*.seg")
	if err != nil {
		return "", err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	const tail = 8 + 4 // padding and checksum, which Open does not read
	if _, err = out.Write(file[:len(file)-tail]); err != nil {
		return "", err
	}
	filler := make([]byte, 1<<20)
	for i := range filler {
		filler[i] = byte(i*7 + i>>8)
	}
	for more > 0 {
		n := min(more, len(filler))
		if _, err = out.Write(filler[:n]); err != nil {
			return "", err
		}
		more -= n
	}
	if _, err = out.Write(file[len(file)-tail:]); err != nil {
		return "", err
	}
	return out.Name(), out.Sync()
}

// mapCold maps a file after its pages were thrown out of memory, and fails when they were not.
func mapCold(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := syscall.Mmap(int(f.Fd()), 0, int(stat.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// or the kernel reads ahead, as many pages as it likes
	if err := unix.Madvise(file, unix.MADV_RANDOM); err != nil {
		return nil, err
	}
	if n, err := resident(file); err != nil || n > 0 {
		return nil, fmt.Errorf("%d pages of the file stayed in memory, %v: use a folder on a disk for TMPDIR", n, err)
	}
	return file, nil
}

// resident counts the pages of a mapped file that are in memory.
func resident(file []byte) (pages int, err error) {
	seen := make([]byte, (len(file)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, no := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&file[0])), uintptr(len(file)), uintptr(unsafe.Pointer(&seen[0]))); no != 0 {
		return 0, fmt.Errorf("mincore: %w", no)
	}
	for _, page := range seen {
		pages += int(page & 1)
	}
	return pages, nil
}
