package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names below the artifacts prefix.
const (
	OwnerKey   = "OWNER"
	CurrentKey = "overlay/CURRENT"
)

// folders are all that lies below a prefix, OWNER aside.
var folders = []string{"cache/", "evals/", "indexes/", "ledger/", "overlay/", "reports/", "segments/", "snapshots/"}

// InLayout tells whether a key, relative to the prefix, is one that Quarry may have written: what else lies below the prefix
// is somebody else's, such as the artifacts of a Corpus whose prefix goes on after this one.
func InLayout(key string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(key, folder) })
}

// SnapshotKey names a listing by the digest of its keys, etags and sizes.
func SnapshotKey(digest string) (string, error) { return named("snapshots/", digest, ".jsonl.zst") }

// LedgerKey names a listing by the digest of all that is known of its documents, access included.
func LedgerKey(digest string) (string, error) { return named("ledger/", digest, ".jsonl.zst") }

// OverlayKey names the overlay of an epoch.
func OverlayKey(epoch int64) string { return fmt.Sprintf("overlay/%d.json", epoch) }

// SegmentKey names one file of a segment, such as bm25.seg.
func SegmentKey(digest, file string) (string, error) {
	if file == "" || strings.ContainsAny(file, "/\\") {
		return "", fmt.Errorf("segment file %q: is no plain file name", file)
	}
	return named("segments/", digest, "/"+file)
}

// TombstonesKey names a list of dead documents of a segment by its own digest: the segment stays as it is, and every index
// that holds it has its own list.
func TombstonesKey(segment, digest string) (string, error) {
	h, err := DigestHex(digest)
	if err != nil {
		return "", err
	}
	return SegmentKey(segment, "tombstones-"+h+".seg")
}

// ReportKey names the report of one completion of a stage's Job.
func ReportKey(index, stage string, shard int) string {
	return fmt.Sprintf("reports/%s/%s/%d.json", index, stage, shard)
}

func named(before, digest, after string) (string, error) {
	h, err := DigestHex(digest)
	if err != nil {
		return "", err
	}
	return before + h + after, nil
}

// Owner is the Corpus that owns an artifacts prefix.
type Owner struct {
	ClusterUID string `json:"clusterUID"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

func (o Owner) String() string {
	return fmt.Sprintf("Corpus %s/%s of cluster %s", o.Namespace, o.Name, o.ClusterUID)
}

// OwnedError says that a prefix belongs to another Corpus.
type OwnedError struct{ By Owner }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("the artifacts prefix is owned by %s: choose another prefix, or delete the object %s once that Corpus is gone", e.By, OwnerKey)
}

// ErrOwned matches every *OwnedError with errors.Is.
var ErrOwned = errors.New("the artifacts prefix has another owner")

// Is makes errors.Is(err, ErrOwned) true.
func (e *OwnedError) Is(target error) bool { return target == ErrOwned }

// ClaimPrefix writes OWNER where it is absent, accepts it where it is ours, and returns an *OwnedError otherwise.
// An owner file that cannot be read as one counts as another's.
func ClaimPrefix(ctx context.Context, b Bucket, owner Owner) error {
	if owner.ClusterUID == "" || owner.Namespace == "" || owner.Name == "" {
		return fmt.Errorf("owner %+v: clusterUID, namespace and name are all needed", owner)
	}
	body, err := json.Marshal(owner)
	if err != nil {
		return err
	}
	// Most often it is there already: reading it first spares a write per sync.
	data, _, err := ReadAll(ctx, b, OwnerKey, Read{MaxBytes: 4096})
	if errors.Is(err, ErrNotFound) {
		if _, err = b.Put(ctx, OwnerKey, append(body, '\n'), Condition{IfNoneMatch: true}); err == nil {
			return probeConditions(ctx, b, append(body, '\n'))
		}
		if !errors.Is(err, ErrPrecondition) {
			return err
		}
		data, _, err = ReadAll(ctx, b, OwnerKey, Read{MaxBytes: 4096})
	}
	if err != nil {
		return err
	}
	var found Owner
	if err := json.Unmarshal(data, &found); err != nil {
		found = Owner{ClusterUID: "unknown", Namespace: "unknown", Name: "unknown"}
	}
	if found != owner {
		return &OwnedError{By: found}
	}
	return nil
}

// ErrConditionalWrites: the server ignores If-Match or If-None-Match, so two writers could undo each other.
var ErrConditionalWrites = errors.New("the object store ignores conditional writes (If-Match, If-None-Match): use one that supports them")

// probeConditions writes OWNER once more, under conditions that do not hold. Should a server take the writes, the bytes
// are the same.
func probeConditions(ctx context.Context, b Bucket, body []byte) error {
	for _, c := range []Condition{{IfNoneMatch: true}, {IfMatch: "00000000000000000000000000000000"}} {
		_, err := b.Put(ctx, OwnerKey, body, c)
		if err == nil {
			return errors.Join(ErrConditionalWrites, b.Delete(ctx, OwnerKey))
		}
		if !errors.Is(err, ErrPrecondition) {
			return err
		}
	}
	return nil
}
