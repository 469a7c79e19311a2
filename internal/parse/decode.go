package parse

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/charmap"
)

// decode returns data as valid UTF-8 without a byte order mark. A byte order mark decides (UTF-32 before UTF-16, whose
// mark begins alike); then zero bytes at every other place tell unmarked UTF-16; an HTML page may declare a charset;
// then UTF-8, and Windows-1252 for a text that has not one valid multi-byte sequence. Text with NUL is refused.
func decode(data []byte, page bool) (string, error) {
	text := strings.TrimPrefix(decodeBytes(data, page), "\ufeff")
	if i := strings.IndexByte(text, 0); i >= 0 {
		return "", fail(Unreadable, "NUL at byte %d: the object is binary or has an unknown encoding; store it as UTF-8, or exclude it", i)
	}
	if n := controls(text); n > len(text)/10 {
		return "", fail(Unreadable, "%d of %d bytes are control characters: the object is binary; exclude it", n, len(text))
	}
	return text, nil
}

func decodeBytes(data []byte, page bool) string {
	le, be := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe, 0, 0}) && len(data)%4 == 0:
		return decode32(data[4:], le)
	case bytes.HasPrefix(data, []byte{0, 0, 0xfe, 0xff}) && len(data)%4 == 0:
		return decode32(data[4:], be)
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return decode16(data[2:], le)
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return decode16(data[2:], be)
	case utf8.Valid(data) && bytes.IndexByte(data, 0) < 0:
		return string(data)
	}
	if order := unmarked16(data); order != nil {
		return decode16(data, order)
	}
	if page {
		// utf-8 and windows-1252 are also its answers to a page that declares nothing
		if e, name, _ := charset.DetermineEncoding(data[:min(len(data), 1024)], ""); name != "utf-8" && name != "windows-1252" {
			if out, err := e.NewDecoder().Bytes(data); err == nil {
				return strings.ToValidUTF8(string(out), "\uFFFD")
			}
		}
	}
	return decode8(data)
}

// decode8 keeps UTF-8 and marks its invalid bytes, unless nothing in it looks like UTF-8.
func decode8(data []byte) string {
	valid, invalid := 0, 0
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			invalid++
		case n > 1:
			valid++
		}
		rest = rest[n:]
	}
	if invalid > 0 && valid == 0 {
		if out, err := charmap.Windows1252.NewDecoder().Bytes(data); err == nil {
			return strings.ToValidUTF8(string(out), "\uFFFD")
		}
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}

// unmarked16 recognises UTF-16 of mostly Latin text by where its zero bytes are.
func unmarked16(data []byte) binary.ByteOrder {
	if len(data) < 8 || len(data)%2 != 0 {
		return nil
	}
	var zeros [2]int
	sample := data[:min(len(data), 4096)]
	for i, c := range sample {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half := len(sample) / 2
	switch {
	case zeros[0] == 0 && zeros[1] > half*3/4:
		return binary.LittleEndian
	case zeros[1] == 0 && zeros[0] > half*3/4:
		return binary.BigEndian
	}
	return nil
}

func decode16(data []byte, order binary.ByteOrder) string {
	units := make([]uint16, 0, len(data)/2)
	for ; len(data) >= 2; data = data[2:] {
		units = append(units, order.Uint16(data))
	}
	out := string(utf16.Decode(units))
	if len(data) > 0 {
		out += "\uFFFD"
	}
	return out
}

func decode32(data []byte, order binary.ByteOrder) string {
	var b strings.Builder
	for ; len(data) >= 4; data = data[4:] {
		// a value beyond Unicode becomes U+FFFD
		b.WriteRune(rune(min(order.Uint32(data), utf8.MaxRune+1)))
	}
	return b.String()
}

// controls counts control characters that no text has.
func controls(text string) int {
	n := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 0x20 && c != 0x7f, c == '\t', c == '\n', c == '\r', c == '\f', c == '\v', c == '\b', c == 0x1b:
		default:
			n++
		}
	}
	return n
}
