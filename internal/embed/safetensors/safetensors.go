// Package safetensors reads model files: the length of a JSON header as 8 bytes little-endian, the header, the data.
package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unsafe"
)

// File is a file in memory. Its tensors are parts of it, not copies.
type File struct {
	header map[string]json.RawMessage
	data   []byte
}

// Open reads the header.
func Open(file []byte) (*File, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes are too few for a header", len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > uint64(len(file)-8) {
		return nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d", n, len(file))
	}
	f := &File{data: file[8+n:]}
	if err := json.Unmarshal(file[8:8+n], &f.header); err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	return f, nil
}

// Has reports whether the file has a tensor of that name.
func (f *File) Has(name string) bool { return f.header[name] != nil }

// Tensor returns the bytes of a tensor of that type and shape; a length of -1 fits any.
func (f *File) Tensor(name, dtype string, shape ...int) ([]byte, error) {
	if !f.Has(name) {
		return nil, fmt.Errorf("safetensors: no tensor %q", name)
	}
	var t struct {
		Type    string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(f.header[name], &t); err != nil {
		return nil, fmt.Errorf("safetensors: tensor %q: %w", name, err)
	}
	size, ok := widths[dtype], t.Type == dtype && len(t.Shape) == len(shape)
	for i := 0; ok && i < len(shape); i++ {
		if ok = t.Shape[i] > 0 && t.Shape[i] <= len(f.data) && (shape[i] == -1 || shape[i] == t.Shape[i]); ok {
			size *= t.Shape[i]
		}
		ok = ok && size <= len(f.data) // so that no product of lengths overflows
	}
	if !ok {
		return nil, fmt.Errorf("safetensors: tensor %q is %s %v, want %s %v", name, t.Type, t.Shape, dtype, shape)
	}
	if t.Offsets[0] < 0 || t.Offsets[1] > len(f.data) || t.Offsets[1]-t.Offsets[0] != size {
		return nil, fmt.Errorf("safetensors: tensor %q is at %v of %d bytes, want %d bytes", name, t.Offsets, len(f.data), size)
	}
	return f.data[t.Offsets[0]:t.Offsets[1]], nil
}

// widths of numbers in bytes
var widths = map[string]int{"I8": 1, "F32": 4}

// Int8 is the tensor's numbers, in place.
func (f *File) Int8(name string, shape ...int) ([]int8, error) {
	b, err := f.Tensor(name, "I8", shape...)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(&b[0])), len(b)), nil
}

// Float32 is the tensor's numbers, in place: on a machine of little-endian order.
func (f *File) Float32(name string, shape ...int) ([]float32, error) {
	b, err := f.Tensor(name, "F32", shape...)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4), nil
}
