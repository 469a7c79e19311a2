package access

import "time"

// OverlayEntry is the present state of one document that some live index knows otherwise.
type OverlayEntry struct {
	// Gone means that the document left the source: nobody reads it, whatever Allow says.
	Gone bool `json:"gone,omitempty"`
	// Allow is its present access. Never nil in a written overlay.
	Allow Allow `json:"allow"`
}

// Overlay is the present access of every document whose access or content differs from what a live index was built of.
// It is state, not a log: a newer overlay replaces an older one whole.
type Overlay struct {
	// Epoch grows by every change and never goes back.
	Epoch int64 `json:"epoch"`
	// VerifiedAt is when the source was last listed whole. It is kept in the CURRENT pointer, outside of the digest.
	VerifiedAt time.Time `json:"-"`
	// Entries by document key.
	Entries map[string]OverlayEntry `json:"entries"`
}

// Permits tells whether id may read the document key, that its index gives to base. A nil overlay changes nothing.
func (o *Overlay) Permits(key string, base Allow, id Identity) bool {
	if o != nil {
		if e, ok := o.Entries[key]; ok {
			return !e.Gone && e.Allow.Permits(id)
		}
	}
	return base.Permits(id)
}

// epoch of a missing overlay is one that no written overlay has.
func (o *Overlay) epoch() int64 {
	if o == nil {
		return -1
	}
	return o.Epoch
}
