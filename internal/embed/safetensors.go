package embed

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// tensor reads the bytes and the shape of one tensor of a safetensors file: the length of a JSON header as 8 bytes
// little-endian, the header, the data.
func tensor(file []byte, name, dtype string) ([]byte, []int, error) {
	if len(file) < 8 {
		return nil, nil, fmt.Errorf("safetensors: %d bytes are too few for a header", len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > uint64(len(file)-8) {
		return nil, nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d", n, len(file))
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(file[8:8+n], &header); err != nil {
		return nil, nil, fmt.Errorf("safetensors: header: %w", err)
	}
	var t struct {
		Type    string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(header[name], &t); err != nil {
		return nil, nil, fmt.Errorf("safetensors: tensor %q: %w", name, err)
	}
	data := file[8+n:]
	if t.Type != dtype || t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > len(data) {
		return nil, nil, fmt.Errorf("safetensors: tensor %q is %s at %v of %d bytes, want %s", name, t.Type, t.Offsets, len(data), dtype)
	}
	return data[t.Offsets[0]:t.Offsets[1]], t.Shape, nil
}
