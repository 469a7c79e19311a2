package access

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The file access.seg: magic, then unsigned varints: number of allow lists; per list its principals (type byte, name
// length, name); number of documents; per document in key order key length, key, list, first chunk, chunks.
const magic = "QRYACC\x00\x01"

var typeBytes = map[Type]byte{User: 'u', Group: 'g', Everyone: 'e'}

// ErrCorrupt is what DecodeTable returns, wrapped, for bytes that Encode did not write.
var ErrCorrupt = errors.New("access table is corrupt")

// Encode writes the table; equal tables give equal bytes.
func (t *Table) Encode() []byte {
	out := []byte(magic)
	out = binary.AppendUvarint(out, uint64(len(t.lists)))
	for _, l := range t.lists {
		out = binary.AppendUvarint(out, uint64(len(l)))
		for _, p := range l {
			out = append(out, typeBytes[p.Type])
			out = appendString(out, p.Name)
		}
	}
	out = binary.AppendUvarint(out, uint64(len(t.docs)))
	for _, d := range t.docs {
		out = appendString(out, d.key)
		out = binary.AppendUvarint(out, uint64(d.list))
		out = binary.AppendUvarint(out, uint64(d.first))
		out = binary.AppendUvarint(out, uint64(d.chunks))
	}
	return out
}

func appendString(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

// DecodeTable reads what Encode wrote and checks all of it: order, ranges, principals, no rest.
func DecodeTable(data []byte) (*Table, error) {
	r := reader{data: data}
	if r.take(uint64(len(magic))) != magic {
		return nil, fmt.Errorf("%w: it does not start as an access table of version 1", ErrCorrupt)
	}
	lists := make([]Allow, 0, min(r.peekCount(), 1<<16))
	for range r.count() {
		list := r.allow()
		if r.err != nil {
			return nil, r.err
		}
		// Once for each list, however many documents name it.
		allow, err := NewAllow(list...)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		lists = append(lists, allow)
	}
	docs := make([]tableDoc, 0, min(r.peekCount(), 1<<20))
	for range r.count() {
		d := tableDoc{key: r.string()}
		list := r.uvarint()
		d.first, d.chunks = r.uint32(), r.uint32()
		switch {
		case r.err != nil:
		case list >= uint64(len(lists)):
			r.fail("document %q names allow list %d of %d", d.key, list, len(lists))
		case d.key == "" || len(docs) > 0 && docs[len(docs)-1].key >= d.key:
			r.fail("documents are not in key order at %q", d.key)
		}
		if r.err != nil {
			return nil, r.err
		}
		d.list = uint32(list)
		docs = append(docs, d)
	}
	if r.err == nil && len(r.data) > 0 {
		r.fail("%d bytes follow the last document", len(r.data))
	}
	if r.err != nil {
		return nil, r.err
	}
	t := &Table{docs: docs, lists: lists, cache: newAllowCache(defaultCacheEntries, defaultCacheBytes)}
	if err := t.checkRanges(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return t, nil
}

type reader struct {
	data []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail("it ends inside a number")
		r.data = nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.fail("chunk number %d passes 32 bits", v)
	}
	return uint32(v)
}

// count reads a number of items, each of which takes at least one byte, so that a lie costs nothing.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.fail("it announces %d items in %d bytes", n, len(r.data))
		return 0
	}
	return n
}

func (r *reader) peekCount() uint64 {
	copied := reader{data: r.data}
	return copied.count()
}

func (r *reader) take(n uint64) string {
	if n > uint64(len(r.data)) {
		r.fail("it ends inside a text")
		r.data = nil
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *reader) string() string { return r.take(r.uvarint()) }

func (r *reader) allow() Allow {
	list := Allow{}
	for range r.count() {
		kind := r.take(1)
		p := Principal{Name: r.string()}
		switch kind {
		case "u":
			p.Type = User
		case "g":
			p.Type = Group
		case "e":
			p.Type = Everyone
		default:
			r.fail("principal type %q is unknown", kind)
		}
		if r.err == nil && len(list) > 0 && list[len(list)-1].Compare(p) >= 0 {
			r.fail("an allow list is not sorted")
		}
		if r.err != nil {
			return nil
		}
		list = append(list, p)
	}
	return list
}
