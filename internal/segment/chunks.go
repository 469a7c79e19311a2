// Package segment holds the files of one segment of an index. This file is chunks.seg: what a hit shows to its reader.
package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"quarry.dev/quarry/internal/segment/frame"
)

var chunksKind = frame.Kind{Name: "chunks.seg", Magic: [8]byte{'Q', 'R', 'Y', 'C', 'H', 'N', 'K', 0}, Version: 2}

// Chunk is one passage. Start and End count Unicode code points of the parsed document; Text is what a reader is shown;
// Context was indexed before it, and a reranker is shown both; Page counts from 1, 0 where the format has no pages.
type Chunk struct {
	Document   string
	Ordinal    uint32
	Start, End uint32
	Text       string
	Context    string
	Headings   []string
	Page       int32
	Modified   time.Time
}

// Encode returns chunks.seg; the number of a chunk is its position. Equal chunks give equal bytes. It is an error when
// there are more than 2^32-1 chunks.
//
// Body: documents u32, chunks u32, document ends u64 each, record ends u64 each, document names, records.
func Encode(chunks []Chunk) ([]byte, error) {
	if uint64(len(chunks)) > math.MaxUint32 {
		return nil, fmt.Errorf("chunks.seg: %d chunks do not fit into one segment: use more segments", len(chunks))
	}
	var names, records []byte
	var nameEnds, recordEnds []uint64
	ids := map[string]uint64{}
	for i := range chunks {
		id, ok := ids[chunks[i].Document]
		if !ok {
			id = uint64(len(nameEnds))
			ids[chunks[i].Document] = id
			names = append(names, chunks[i].Document...)
			nameEnds = append(nameEnds, uint64(len(names)))
		}
		records = appendRecord(records, id, &chunks[i])
		recordEnds = append(recordEnds, uint64(len(records)))
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(nameEnds)))
	body = binary.LittleEndian.AppendUint32(body, uint32(len(chunks)))
	for _, ends := range [][]uint64{nameEnds, recordEnds} {
		for _, end := range ends {
			body = binary.LittleEndian.AppendUint64(body, end)
		}
	}
	return chunksKind.Seal(append(append(body, names...), records...)), nil
}

func appendRecord(b []byte, document uint64, c *Chunk) []byte {
	for _, v := range []uint64{document, uint64(c.Ordinal), uint64(c.Start), uint64(c.End)} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendVarint(b, int64(c.Page))
	b = binary.AppendVarint(b, c.Modified.Unix())
	b = binary.AppendUvarint(b, uint64(c.Modified.Nanosecond()))
	b = binary.AppendUvarint(b, uint64(len(c.Headings)))
	for _, h := range c.Headings {
		b = appendString(b, h)
	}
	return appendString(appendString(b, c.Context), c.Text)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Chunks is an open chunks.seg. It shares the bytes that it was opened on, which must not change; it is safe for
// concurrent use.
type Chunks struct {
	documents, count     uint32
	nameEnds, recordEnds []byte // u64 each
	names, records       []byte
}

// Open checks the whole file, so that At cannot fail later. The error wraps frame.ErrCorrupt.
func Open(file []byte) (*Chunks, error) {
	body, err := chunksKind.Open(file)
	if err != nil {
		return nil, err
	}
	in := frame.NewCursor(body)
	c := &Chunks{documents: in.Uint32(), count: in.Uint32()}
	c.nameEnds = in.Bytes(8 * uint64(c.documents))
	c.recordEnds = in.Bytes(8 * uint64(c.count))
	if in.Bad() {
		return nil, chunksKind.Corrupt("%d documents and %d chunks need more than %d bytes", c.documents, c.count, len(body))
	}
	nameBytes, ok := lastEnd(c.nameEnds)
	recordBytes, ok2 := lastEnd(c.recordEnds)
	c.names, c.records = in.Bytes(nameBytes), in.Bytes(recordBytes)
	if !ok || !ok2 || in.Bad() || in.Len() != 0 {
		return nil, chunksKind.Corrupt("names and records do not fill the file")
	}
	for i := range c.count {
		if r, ok := c.record(i); !ok || !r.fields(func([]byte) {}) {
			return nil, chunksKind.Corrupt("chunk %d cannot be decoded", i)
		}
	}
	return c, nil
}

// lastEnd returns the last of some ascending u64 ends, and whether they do ascend.
func lastEnd(ends []byte) (last uint64, ok bool) {
	for ; len(ends) > 0; ends = ends[8:] {
		end := binary.LittleEndian.Uint64(ends)
		if end < last {
			return 0, false
		}
		last = end
	}
	return last, true
}

// Len is the number of chunks.
func (c *Chunks) Len() uint32 { return c.count }

// At returns chunk i; a number that the file does not hold gives the zero Chunk, which names no document.
func (c *Chunks) At(i uint32) Chunk {
	if i >= c.count {
		return Chunk{}
	}
	r, _ := c.record(i)
	chunk := r.Chunk
	chunk.Document = string(between(c.names, c.nameEnds, r.document))
	var texts []string
	r.fields(func(text []byte) { texts = append(texts, string(text)) })
	if n := len(texts) - 2; n > 0 {
		chunk.Headings = texts[:n:n]
	}
	chunk.Context, chunk.Text = texts[len(texts)-2], texts[len(texts)-1]
	return chunk
}

// record is a chunk whose numbers are read; its texts are left in the file.
type record struct {
	Chunk
	document uint32
	headings uint64
	rest     *frame.Cursor
}

func (c *Chunks) record(i uint32) (record, bool) {
	in := frame.NewCursor(between(c.records, c.recordEnds, i))
	document := in.Uvarint()
	ordinal, start, end := in.Uvarint(), in.Uvarint(), in.Uvarint()
	page, seconds, nanos := in.Varint(), in.Varint(), in.Uvarint()
	headings := in.Uvarint()
	if in.Bad() || document >= uint64(c.documents) || max(ordinal, start, end) > math.MaxUint32 ||
		page != int64(int32(page)) || nanos >= 1e9 || headings > uint64(in.Len()) {
		return record{}, false
	}
	return record{document: uint32(document), headings: headings, rest: in, Chunk: Chunk{
		Ordinal: uint32(ordinal), Start: uint32(start), End: uint32(end),
		Page: int32(page), Modified: time.Unix(seconds, int64(nanos)).UTC(),
	}}, true
}

// fields yields the headings, the context and the text, and tells whether they fill the record.
func (r record) fields(yield func(text []byte)) bool {
	for range r.headings + 2 {
		yield(r.rest.Bytes(r.rest.Uvarint()))
	}
	return !r.rest.Bad() && r.rest.Len() == 0
}

func between(b, ends []byte, i uint32) []byte {
	from := uint64(0)
	if i > 0 {
		from = binary.LittleEndian.Uint64(ends[8*(uint64(i)-1):])
	}
	return b[from:binary.LittleEndian.Uint64(ends[8*uint64(i):])]
}
