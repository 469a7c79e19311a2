package frame

import "encoding/binary"

// Cursor reads a body from front to back. The first read beyond the end makes it bad; every read after that gives zero,
// so a decoder checks Bad once per record instead of an error per field.
type Cursor struct {
	rest []byte
	bad  bool
}

// NewCursor reads b.
func NewCursor(b []byte) *Cursor { return &Cursor{rest: b} }

// Bad says that something was read that was not there.
func (c *Cursor) Bad() bool { return c.bad }

// Len is the number of bytes left.
func (c *Cursor) Len() int { return len(c.rest) }

// Bytes takes the next n bytes, sharing memory.
func (c *Cursor) Bytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

// Uint32 takes a fixed-width little endian number.
func (c *Cursor) Uint32() uint32 {
	if b := c.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 takes a fixed-width little endian number.
func (c *Cursor) Uint64() uint64 {
	if b := c.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uvarint takes a number of variable width.
func (c *Cursor) Uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if c.bad || n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// Varint takes a signed number of variable width.
func (c *Cursor) Varint() int64 {
	v, n := binary.Varint(c.rest)
	if c.bad || n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}
