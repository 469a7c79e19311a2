// Package frame is the envelope that every file of a segment shares: a magic word, a format version, the length of the
// body and a checksum. A body that Open returned is the body that Seal was given; what it means is the caller's to check.
//
//	0   magic      8 bytes, names the kind of file
//	8   version    u32, little endian as everything below
//	12  reserved   u32, zero
//	16  length     u64, bytes of the body
//	24  body
//	end CRC-32C    u32 over all bytes before it
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	headerSize = 24
	footerSize = 4
)

// ErrCorrupt is wrapped by every error about bytes that no builder wrote: the remedy is to fetch or build the file again.
var ErrCorrupt = errors.New("corrupt segment file")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind names a file format: a magic word of exactly eight bytes and the one version that this build reads and writes.
type Kind struct {
	Name    string
	Magic   [8]byte
	Version uint32
}

// Seal returns the file with that body.
func (k Kind) Seal(body []byte) []byte {
	out := make([]byte, headerSize, headerSize+len(body)+footerSize)
	copy(out, k.Magic[:])
	binary.LittleEndian.PutUint32(out[8:], k.Version)
	binary.LittleEndian.PutUint64(out[16:], uint64(len(body)))
	out = append(out, body...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// Open returns the body inside file, sharing its memory, after it has checked kind, version, length and checksum.
func (k Kind) Open(file []byte) ([]byte, error) {
	body, err := k.Body(file)
	if err != nil {
		return nil, err
	}
	end := len(file) - footerSize
	if crc32.Checksum(file[:end], castagnoli) != binary.LittleEndian.Uint32(file[end:]) {
		return nil, k.Corrupt("the checksum does not match")
	}
	return body, nil
}

// Body is Open without the checksum, so that it reads nothing but the header: for a file whose digest was verified, and a
// reader that checks what it reads.
func (k Kind) Body(file []byte) ([]byte, error) {
	if len(file) < headerSize+footerSize {
		return nil, k.Corrupt("%d bytes are fewer than an empty file has", len(file))
	}
	if [8]byte(file) != k.Magic {
		return nil, k.Corrupt("it starts with %q instead of %q", file[:8], k.Magic[:])
	}
	if v := binary.LittleEndian.Uint32(file[8:]); v != k.Version {
		return nil, fmt.Errorf("%s: format version %d is not the version %d that this build reads: rebuild the index or use a matching image", k.Name, v, k.Version)
	}
	if binary.LittleEndian.Uint32(file[12:]) != 0 {
		return nil, k.Corrupt("the reserved word is not zero")
	}
	if n := binary.LittleEndian.Uint64(file[16:]); n != uint64(len(file)-headerSize-footerSize) {
		return nil, k.Corrupt("the header announces %d bytes, %d are there", n, len(file)-headerSize-footerSize)
	}
	end := len(file) - footerSize
	return file[headerSize:end:end], nil
}

// Corrupt makes an error that wraps ErrCorrupt and names the kind of file.
func (k Kind) Corrupt(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", k.Name, ErrCorrupt, fmt.Sprintf(format, args...))
}
