package source

import "time"

// Changes between two sorted listings, as keys. A document is modified when its ETag or its size differs; times are
// never compared, since clocks lie.
type Changes struct {
	Added, Modified, Deleted []string
	Unchanged                int
}

// Diff merges two listings that are sorted by key.
func Diff(old, now []Entry) Changes {
	var c Changes
	walk(old, now, func(o, n *Entry) {
		switch {
		case o == nil:
			c.Added = append(c.Added, n.Key)
		case n == nil:
			c.Deleted = append(c.Deleted, o.Key)
		case o.ETag != n.ETag || o.Size != n.Size:
			c.Modified = append(c.Modified, n.Key)
		default:
			c.Unchanged++
		}
	})
	return c
}

// walk visits the union of two sorted listings in key order; the side that lacks a key is nil.
func walk(old, now []Entry, visit func(o, n *Entry)) {
	for i, j := 0, 0; i < len(old) || j < len(now); {
		switch {
		case j == len(now) || (i < len(old) && old[i].Key < now[j].Key):
			visit(&old[i], nil)
			i++
		case i == len(old) || now[j].Key < old[i].Key:
			visit(nil, &now[j])
			j++
		default:
			visit(&old[i], &now[j])
			i, j = i+1, j+1
		}
	}
}

// minimumGuard deletions are always let through, except when nothing would remain.
const minimumGuard = 10

// GuardSpec bounds the deletions of one sync: at most max(10, min(MaxPercent of N, MaxDocuments)) of N documents, and
// never all of them.
type GuardSpec struct {
	MaxPercent, MaxDocuments int32
	// Approval is consent to more, for one listing.
	Approval *Approval
}

// Approval is a person's bounded consent: at most Max deletions, of exactly the listing with that digest, until Expires.
type Approval struct {
	Max           int32
	ListingDigest string
	Expires       time.Time
}

// limit is the largest number of deletions of n documents that pass without consent.
func (g GuardSpec) limit(n int) int {
	return max(minimumGuard, min(n*int(g.MaxPercent)/100, int(g.MaxDocuments)))
}

// Guarded is what a guard lets pass. A vanished sidecar counts as a deletion, since it may open a document to others.
type Guarded struct {
	// Entries to publish: the listing, and what is withheld from deletion.
	Entries []Entry
	// Deleted keys that pass.
	Deleted []string
	// WithheldDocuments and WithheldSidecars are keys of documents whose deletion, or loss of a sidecar, is not applied.
	WithheldDocuments, WithheldSidecars []string
	// Tripped tells that consent is needed, Limit how many would have passed.
	Tripped bool
	Limit   int
	// ListingDigest is what an Approval must name.
	ListingDigest string
}

// Withheld counts documents and sidecars together; this is the number that Approval.Max is compared with.
func (g Guarded) Withheld() int { return len(g.WithheldDocuments) + len(g.WithheldSidecars) }

// Guard compares a whole listing with what was published last. When it trips, every deletion is withheld: the old
// entries and the old sidecars stay; additions and modifications are applied all the same.
func Guard(old, listed []Entry, spec GuardSpec, now time.Time) Guarded {
	g := Guarded{ListingDigest: listingDigest(listed), Limit: spec.limit(len(old))}
	var sidecars []string
	walk(old, listed, func(o, n *Entry) {
		switch {
		case n == nil:
			g.Deleted = append(g.Deleted, o.Key)
		case o != nil && o.Sidecar != nil && n.Sidecar == nil:
			sidecars = append(sidecars, n.Key)
		}
	})
	deletions := len(g.Deleted) + len(sidecars)
	g.Tripped = deletions > g.Limit || (len(old) > 0 && len(listed) == 0)
	if a := spec.Approval; g.Tripped && a != nil && a.ListingDigest == g.ListingDigest && deletions <= int(a.Max) && now.Before(a.Expires) {
		g.Tripped = false
	}
	if !g.Tripped {
		g.Entries = listed
		return g
	}
	g.WithheldDocuments, g.WithheldSidecars, g.Deleted = g.Deleted, sidecars, nil
	walk(old, listed, func(o, n *Entry) {
		switch {
		case n == nil:
			g.Entries = append(g.Entries, *o)
		case o != nil && o.Sidecar != nil && n.Sidecar == nil:
			kept := *n
			kept.Sidecar, kept.SidecarETag, kept.AccessError = o.Sidecar, o.SidecarETag, o.AccessError
			g.Entries = append(g.Entries, kept)
		default:
			g.Entries = append(g.Entries, *n)
		}
	})
	return g
}
