package segment

import (
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/internal/segment/frame"
)

var tombstonesKind = frame.Kind{Name: "tombstones.seg", Magic: [8]byte{'Q', 'R', 'Y', 'T', 'O', 'M', 'B', 0}, Version: 1}

// EncodeTombstones returns a list of dead documents, which are ranks in the access table of their segment. Equal sets give
// equal bytes.
//
// Body: number of documents, then each as the distance from one above the one before; all unsigned varints.
func EncodeTombstones(dead *roaring.Bitmap) []byte {
	body := binary.AppendUvarint(nil, dead.GetCardinality())
	next := uint64(0)
	for it := dead.Iterator(); it.HasNext(); {
		rank := uint64(it.Next())
		body = binary.AppendUvarint(body, rank-next)
		next = rank + 1
	}
	return tombstonesKind.Seal(body)
}

// DecodeTombstones checks that each rank is below documents. The error wraps frame.ErrCorrupt.
func DecodeTombstones(file []byte, documents int) (*roaring.Bitmap, error) {
	body, err := tombstonesKind.Open(file)
	if err != nil {
		return nil, err
	}
	in := frame.NewCursor(body)
	count, next := in.Uvarint(), uint64(0)
	dead := roaring.New()
	for range count {
		distance := in.Uvarint()
		if in.Bad() || distance >= uint64(documents) || next+distance >= uint64(documents) {
			return nil, tombstonesKind.Corrupt("it is cut short, or names a document beyond the %d of its segment", documents)
		}
		dead.Add(uint32(next + distance))
		next += distance + 1
	}
	if in.Bad() || in.Len() != 0 {
		return nil, tombstonesKind.Corrupt("its ranks do not fill the file")
	}
	return dead, nil
}
