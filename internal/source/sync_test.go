package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry/internal/access"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/testdata"
)

var (
	ctx   = context.Background()
	hr    = access.Allow{{Type: access.Group, Name: "hr"}}
	eng   = access.Allow{{Type: access.Group, Name: "eng"}}
	start = time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
)

type bench struct {
	t        *testing.T
	src, art *artifact.Memory
	in       SyncInput
}

func newBench(t *testing.T, documents int) *bench {
	b := &bench{t: t, src: artifact.NewMemory(), art: artifact.NewMemory()}
	b.in = SyncInput{Source: b.src, Artifacts: b.art, Owner: artifact.Owner{ClusterUID: "c", Namespace: "rag", Name: "docs"},
		Policy: access.Policy{Default: hr, SidecarSuffix: ".acl.json"},
		Guard:  GuardSpec{MaxPercent: 20, MaxDocuments: 1000}, Now: func() time.Time { return start }}
	for i := range documents {
		b.put(fmt.Sprintf("d%03d.md", i), "text")
	}
	return b
}

func (b *bench) put(key, text string) {
	b.t.Helper()
	if _, err := b.src.Put(ctx, key, []byte(text), artifact.Condition{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(n, from int) {
	for i := range n {
		if err := b.src.Delete(ctx, fmt.Sprintf("d%03d.md", from+i)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) sync() SyncOutput {
	b.t.Helper()
	out, err := Sync(ctx, b.in)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) overlay() access.Overlay {
	b.t.Helper()
	o, _, err := ReadOverlay(ctx, b.art)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

func TestSyncAddModifyDelete(t *testing.T) {
	b := newBench(t, 30)
	b.put("dir/", "")
	b.put("zero.txt", "")
	first := b.sync()
	if first.Documents != 31 || len(first.Changes.Added) != 31 || first.Current.Epoch != 1 {
		t.Fatalf("first sync: %+v", first)
	}
	b.in.Live = []string{first.Snapshot}
	b.put("d000.md", "texu") // same size, other bytes
	b.remove(3, 10)
	second := b.sync()
	if !slices.Equal(second.Changes.Modified, []string{"d000.md"}) || len(second.Changes.Deleted) != 3 || second.Snapshot == first.Snapshot {
		t.Fatalf("second sync: %+v", second.Changes)
	}
	o := b.overlay()
	if !o.Entries["d010.md"].Gone || o.Entries["d000.md"].Gone || len(o.Entries) != 4 || o.Epoch != 2 {
		t.Fatalf("overlay %+v", o)
	}
	b.put("d010.md", "text")
	third := b.sync()
	if o := b.overlay(); o.Entries["d010.md"].Gone || o.Epoch != 3 {
		t.Fatalf("a restored document is still gone: %+v", o)
	}
	if len(third.Changes.Added) != 1 {
		t.Fatalf("third: %+v", third.Changes)
	}
}

func TestIdleSyncOnlyBeatsTheHeart(t *testing.T) {
	b := newBench(t, 5)
	first := b.sync()
	keys, puts := b.art.Keys(), b.art.Ops("put")
	gets := b.src.Ops("get") + b.src.Ops("head")
	b.in.Now = func() time.Time { return start.Add(time.Minute) }
	second := b.sync()
	if second.OverlayChanged || second.Snapshot != first.Snapshot || second.Current.Epoch != first.Current.Epoch {
		t.Fatalf("an idle sync changed something: %+v", second)
	}
	if !slices.Equal(keys, b.art.Keys()) || b.art.Ops("put") != puts+1 {
		t.Fatalf("an idle sync wrote %d objects, want CURRENT alone", b.art.Ops("put")-puts)
	}
	if got := b.src.Ops("get") + b.src.Ops("head"); got != gets {
		t.Fatalf("an idle sync read %d objects of the source", got-gets)
	}
	if !b.overlay().VerifiedAt.Equal(start.Add(time.Minute)) {
		t.Fatal("the heartbeat did not move")
	}
}

func TestListingErrorDeletesNothing(t *testing.T) {
	b := newBench(t, 40)
	first := b.sync()
	before, _, _ := ReadCurrent(ctx, b.art)
	b.remove(5, 0)
	boom := errors.New("page 2 failed")
	b.src.Fail = func(op, key string) error {
		if op == "list-next" && key > "d020" {
			return boom
		}
		return nil
	}
	if _, err := Sync(ctx, b.in); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if after, _, _ := ReadCurrent(ctx, b.art); after != before || after.Snapshot != first.Snapshot {
		t.Fatal("a failed listing moved CURRENT")
	}
}

func TestGuardWithholdsUntilApproved(t *testing.T) {
	b := newBench(t, 100)
	b.in.Live = []string{b.sync().Snapshot}
	b.remove(21, 0)
	b.put("new.md", "new")
	out := b.sync()
	if !out.Guarded.Tripped || len(out.Guarded.WithheldDocuments) != 21 || out.Documents != 101 || len(out.Changes.Added) != 1 {
		t.Fatalf("guard: %+v, %d documents", out.Guarded.Tripped, out.Documents)
	}
	if len(b.overlay().Entries) != 0 {
		t.Fatal("withheld deletions reached the overlay")
	}
	approve := func(max int32, digest string, expires time.Time) SyncOutput {
		b.in.Guard.Approval = &Approval{Max: max, ListingDigest: digest, Expires: expires}
		return b.sync()
	}
	digest, later := out.Guarded.ListingDigest, start.Add(time.Hour)
	for _, refused := range []SyncOutput{approve(20, digest, later), approve(21, artifact.Digest(nil), later), approve(21, digest, start)} {
		if !refused.Guarded.Tripped || refused.Documents != 101 {
			t.Fatalf("unfit consent was taken: %+v", refused.Documents)
		}
	}
	if out := approve(21, digest, later); out.Guarded.Tripped || out.Documents != 80 || len(out.Changes.Deleted) != 21 {
		t.Fatalf("consent was not taken: %d documents", out.Documents)
	}
	if n := len(b.overlay().Entries); n != 21 {
		t.Fatalf("%d overlay entries", n)
	}
}

func TestGuardEmptySource(t *testing.T) {
	b := newBench(t, 3)
	b.sync()
	b.remove(3, 0)
	if out := b.sync(); !out.Guarded.Tripped || out.Documents != 3 {
		t.Fatalf("a source that fell to 0 was published: %+v", out)
	}
}

func TestSidecars(t *testing.T) {
	b := newBench(t, 12)
	for i := range 12 {
		b.put(fmt.Sprintf("d%03d.md.acl.json", i), `{"allow":[{"type":"Group","name":"eng"}]}`)
	}
	b.put("d000.md.acl.json", `{"allow":`)
	out := b.sync()
	if len(out.Failures) != 1 || out.Failures[0].Document != "d000.md" || out.Failures[0].Reason != ReasonSidecarUnreadable {
		t.Fatalf("failures %+v", out.Failures)
	}
	s, err := ReadSnapshot(ctx, b.art, out.Snapshot)
	if err != nil || len(s.Entries) != 12 || len(s.Entries[0].Allow) != 0 || !s.Entries[1].Allow.Equal(eng) {
		t.Fatalf("%v %+v", err, s.Entries)
	}
	if again := b.sync(); len(again.Failures) != 1 {
		t.Fatal("an unreadable sidecar is forgotten by the next sync")
	}
	// Eleven vanish: more than the guard lets pass, so the narrow access holds.
	for i := range 11 {
		_ = b.src.Delete(ctx, fmt.Sprintf("d%03d.md.acl.json", i+1))
	}
	if out := b.sync(); !out.Guarded.Tripped || len(out.Guarded.WithheldSidecars) != 11 || len(b.overlay().Entries) != 0 {
		t.Fatalf("vanished sidecars: %+v", out.Guarded)
	}
	b.put("d001.md.acl.json", `{"allow":[{"type":"Group","name":"eng"}]}`)
	out = b.sync()
	if out.Guarded.Tripped || out.OverlayChanged == false {
		t.Fatalf("ten vanished sidecars pass: %+v", out.Guarded)
	}
	if e := b.overlay().Entries["d005.md"]; !e.Allow.Equal(hr) || e.Gone {
		t.Fatalf("entry %+v", e)
	}
}

func TestMetadataBeatsRulesAndIsWatched(t *testing.T) {
	b := newBench(t, 2)
	b.src.SetMetadata("d000.md", map[string]string{MetadataKey: `{"allow":[{"type":"Group","name":"eng"}]}`})
	b.sync()
	now := start.Add(time.Hour)
	b.src.Now = func() time.Time { return now }
	b.src.SetMetadata("d001.md", map[string]string{MetadataKey: `{"allow":[]}`})
	b.sync()
	o := b.overlay()
	if e, ok := o.Entries["d001.md"]; !ok || len(e.Allow) != 0 {
		t.Fatalf("overlay %+v", o)
	}
}

func TestRevocationNeedsNoNewSnapshot(t *testing.T) {
	b := newBench(t, 3)
	first := b.sync()
	b.in.Policy.Rules = []access.Rule{{Prefix: "d001", Allow: access.Nobody()}}
	out := b.sync()
	if out.Snapshot != first.Snapshot || !out.OverlayChanged || len(b.overlay().Entries) != 1 {
		t.Fatalf("%+v", out)
	}
	b.in.Policy.Rules = nil
	if out := b.sync(); out.Current.Epoch != 3 || len(b.overlay().Entries) != 0 {
		t.Fatalf("%+v", out)
	}
}

func TestOwnedPrefixIsRefused(t *testing.T) {
	b := newBench(t, 1)
	b.sync()
	b.in.Owner.Name = "other"
	_, err := Sync(ctx, b.in)
	var owned *artifact.OwnedError
	if !errors.Is(err, artifact.ErrOwned) || !errors.As(err, &owned) || owned.By.Name != "docs" {
		t.Fatalf("got %v", err)
	}
}

func TestCrashAnywhereLosesNothing(t *testing.T) {
	b := newBench(t, 20)
	b.in.Live = []string{b.sync().Snapshot}
	b.remove(4, 0)
	boom := errors.New("power cut")
	for failAt := 1; failAt < 6; failAt++ {
		n := 0
		b.art.Fail = func(op, _ string) error {
			if op == "put" {
				if n++; n == failAt {
					return boom
				}
			}
			return nil
		}
		if _, err := Sync(ctx, b.in); err != nil && !errors.Is(err, boom) {
			t.Fatal(err)
		}
		b.art.Fail = nil
		before := b.overlay().Epoch
		b.put("d010.md", fmt.Sprint("changed ", failAt))
		b.sync()
		if after := b.overlay(); after.Epoch < before || !after.Entries["d003.md"].Gone {
			t.Fatalf("fail at %d: %+v", failAt, after)
		}
	}
}

func TestLostCurrentNeverGoesBack(t *testing.T) {
	b := newBench(t, 30)
	b.in.Live = []string{b.sync().Snapshot}
	b.in.MinEpoch = 7
	_ = b.art.Delete(ctx, artifact.CurrentKey)
	b.remove(30, 0)
	if out := b.sync(); out.Current.Epoch != 8 || !out.Guarded.Tripped || out.Documents != 30 {
		t.Fatalf("%+v", out.Current)
	}
}

func TestHardKeysStayApart(t *testing.T) {
	data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Keys []string `json:"s3_keys"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	b, want := newBench(t, 0), []string{}
	for _, key := range v.Keys {
		b.put(key, "text of "+key)
		if !strings.HasSuffix(key, "/") {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	for _, include := range [][]string{nil, {"**"}, {"**/*"}} {
		b.in.Include = include
		out := b.sync()
		s, err := ReadSnapshot(ctx, b.art, out.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range s.Entries {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("include %v:\n got %q\nwant %q", include, got, want)
		}
	}
}

func TestGlobs(t *testing.T) {
	b := newBench(t, 0)
	for _, k := range []string{"a.md", "x/b.md", "x/drafts/c.md", "x/d.pdf", "x/d.pdf.acl.json"} {
		b.put(k, "t")
	}
	b.in.Include, b.in.Exclude = []string{"**/*.md", "**/*.pdf"}, []string{"**/drafts/**"}
	if out := b.sync(); out.Documents != 3 || len(out.Failures) != 1 {
		t.Fatalf("%d documents, failures %+v", out.Documents, out.Failures)
	}
	b.in.Include = []string{"[a"}
	if _, err := Sync(ctx, b.in); err == nil || !strings.HasPrefix(err.Error(), "include: ") {
		t.Fatalf("got %v", err)
	}
}

func TestTwoWriters(t *testing.T) {
	b := newBench(t, 3)
	b.sync()
	b.put("d000.md", "changed")
	b.art.Fail = func(op, key string) error {
		if op != "put" || key != artifact.CurrentKey {
			return nil
		}
		b.art.Fail = nil // the other operator is quicker
		other := b.in
		other.Now = func() time.Time { return start.Add(time.Hour) }
		_, err := Sync(ctx, other)
		return err
	}
	if _, err := Sync(ctx, b.in); !errors.Is(err, ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if !b.overlay().VerifiedAt.Equal(start.Add(time.Hour)) {
		t.Fatal("the slower writer won")
	}
	b.sync()
}

func TestUnreadableSidecarStorageAborts(t *testing.T) {
	b := newBench(t, 2)
	b.put("d000.md.acl.json", `{"allow":[]}`)
	boom := errors.New("timeout")
	b.src.Fail = func(op, key string) error {
		if op == "get" && strings.HasSuffix(key, ".acl.json") {
			return boom
		}
		return nil
	}
	if _, err := Sync(ctx, b.in); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
}
