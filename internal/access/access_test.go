package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/testdata"
)

func allow(t testing.TB, ps ...Principal) Allow {
	t.Helper()
	a, err := NewAllow(ps...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func group(n string) Principal { return Principal{Type: Group, Name: n} }
func user(n string) Principal  { return Principal{Type: User, Name: n} }

func TestPermits(t *testing.T) {
	everyone := Principal{Type: Everyone}
	for _, c := range []struct {
		name  string
		allow Allow
		id    Identity
		want  bool
	}{
		{"empty list is nobody", Nobody(), Identity{User: "ann", Groups: []string{"eng"}}, false},
		{"nil list is nobody", nil, Identity{User: "ann"}, false},
		{"everyone", allow(t, everyone), Identity{User: "ann"}, true},
		{"everyone is not anonymous", allow(t, everyone), Identity{}, false},
		{"groups without a user", allow(t, group("eng")), Identity{Groups: []string{"eng"}}, false},
		{"a user is no group", allow(t, group("ann")), Identity{User: "ann"}, false},
		{"a group is no user", allow(t, user("eng")), Identity{User: "ann", Groups: []string{"eng"}}, false},
		{"the name Everyone is a name", allow(t, group("hr")), Identity{User: "Everyone", Groups: []string{"Everyone"}}, false},
		{"no case folding", allow(t, group("HR")), Identity{User: "ann", Groups: []string{"hr"}}, false},
		{"no trimming", allow(t, group("hr")), Identity{User: "ann", Groups: []string{"hr "}}, false},
		{"no normal form", allow(t, user("zo\u00eb")), Identity{User: "zoe\u0308"}, false},
		{"an empty group claim", Allow{{Type: Group}}, Identity{User: "ann", Groups: []string{""}}, false},
		{"an unknown type", Allow{{Type: "Role", Name: "hr"}}, Identity{User: "hr", Groups: []string{"hr"}}, false},
	} {
		if got := c.allow.Permits(c.id); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestHardCases(t *testing.T) {
	data, err := os.ReadFile(testdata.Shared(t, "hardcases/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		ACL []struct {
			Name string
			Doc  struct {
				Users, Groups []string
				DenyUsers     []string `json:"deny_users"`
			}
			Who *struct {
				User   string
				Groups []string
			}
			See any
		}
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.ACL {
		want, ok := c.See.(bool)
		if !ok || len(c.Doc.DenyUsers) > 0 {
			continue // stated in words: decided in TestPermits, or there is no such feature
		}
		var a Allow
		for _, n := range c.Doc.Users {
			a = append(a, user(n))
		}
		for _, n := range c.Doc.Groups {
			a = append(a, group(n))
		}
		var id Identity
		if c.Who != nil {
			id = Identity{User: c.Who.User, Groups: c.Who.Groups}
		}
		if got := a.Permits(id); got != want {
			t.Errorf("%s: got %v, want %v", c.Name, got, want)
		}
	}
}

func TestResolve(t *testing.T) {
	hr, eng, ann := allow(t, group("hr")), allow(t, group("eng")), allow(t, user("ann"))
	p := FromSpec(v1alpha1.AccessSpec{Default: v1alpha1.AccessEveryone, SidecarSuffix: ".acl.json", Rules: []v1alpha1.AccessRule{
		{Prefix: "hr/", Allow: []v1alpha1.Principal{{Type: "Group", Name: "hr"}}},
		{Prefix: "hr/eng/", Allow: []v1alpha1.Principal{{Type: "Group", Name: "eng"}}},
		{Prefix: "hr/closed/"},
		{Prefix: "bad/", Allow: []v1alpha1.Principal{{Type: "Role", Name: "hr"}}},
	}})
	for _, c := range []struct {
		key               string
		sidecar, metadata *Allow
		want              Allow
	}{
		{"a.md", nil, nil, Allow{{Type: Everyone}}},
		{"hr/a.md", nil, nil, hr},
		{"hr/eng/a.md", nil, nil, eng},
		{"hr/closed/a.md", nil, nil, Nobody()},
		{"bad/a.md", nil, nil, Nobody()},
		{"hrx", nil, nil, Allow{{Type: Everyone}}},
		{"hr/a.md", &ann, &eng, ann},
		{"hr/a.md", nil, &eng, eng},
		{"hr/a.md", &Allow{}, &eng, Nobody()},
	} {
		if got := p.Resolve(c.key, c.sidecar, c.metadata); !got.Equal(c.want) || got == nil {
			t.Errorf("%s: got %v, want %v", c.key, got, c.want)
		}
	}
	twice := Policy{Default: Nobody(), Rules: []Rule{{Prefix: "a", Allow: allow(t, group("x"), group("y"))}, {Prefix: "a", Allow: allow(t, group("y"))}}}
	if got := twice.Resolve("ab", nil, nil); !got.Equal(allow(t, group("y"))) {
		t.Errorf("two rules of one prefix: %v", got)
	}
	if (Policy{}).Resolve("x", nil, nil).Permits(Identity{User: "ann"}) {
		t.Error("an empty policy permits somebody")
	}
}

func TestParseSidecar(t *testing.T) {
	got, err := ParseSidecar([]byte("\xef\xbb\xbf{\"allow\":[{\"type\":\"User\",\"name\":\"b\"},{\"type\":\"Group\",\"name\":\"a\"},{\"type\":\"User\",\"name\":\"b\"}]}\n"))
	if err != nil || !got.Equal(Allow{group("a"), user("b")}) {
		t.Fatalf("%v %v", got, err)
	}
	if got, err := ParseSidecar([]byte(`{"allow":[]}`)); err != nil || got == nil || len(got) != 0 {
		t.Fatalf("nobody: %v %v", got, err)
	}
	for _, bad := range []string{"", "null", "[]", "{}", `{"allow":null}`, `{"allow":"x"}`, `{"Allow":[]}`, `{"allow":[]}x`, `{"allow":[],"allow":[{"type":"Everyone"}]}`,
		`{"allow":[],"deny":[]}`, `{"allow":[{"type":"Everyone","name":"x"}]}`, `{"allow":[{"type":"Group"}]}`, `{"allow":[{"type":"group","name":"x"}]}`,
		`{"allow":[{"type":"Group","name":"x","also":1}]}`, `{"allow":[`, strings.Repeat(" ", MaxSidecar+1)} {
		if got, err := ParseSidecar([]byte(bad)); err == nil {
			t.Errorf("%.40q is read as %v", bad, got)
		}
	}
}

// randomTable makes documents of random access, an overlay, and the readers that matter.
func randomTable(t testing.TB, r *rand.Rand) ([]Doc, *Overlay) {
	lists := []Allow{Nobody(), allow(t, group("a")), allow(t, group("b"), user("ann")), {{Type: Everyone}}, allow(t, user("bob"))}
	var docs []Doc
	next := uint32(0)
	for i := range r.Intn(40) {
		d := Doc{Key: fmt.Sprintf("k%02d", i), Allow: lists[r.Intn(len(lists))], FirstChunk: next, Chunks: uint32(r.Intn(4))}
		next += d.Chunks
		docs = append(docs, d)
	}
	if r.Intn(4) == 0 {
		return docs, nil
	}
	o := &Overlay{Epoch: r.Int63n(5) + 1, Entries: map[string]OverlayEntry{}}
	for range r.Intn(20) {
		o.Entries[fmt.Sprintf("k%02d", r.Intn(50))] = OverlayEntry{Gone: r.Intn(3) == 0, Allow: lists[r.Intn(len(lists))]}
	}
	return docs, o
}

// The allow set is exactly the chunks of the documents that a naive reading permits, before and after the codec.
func TestAllowSetProperty(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	who := []Identity{{}, {User: "ann"}, {User: "bob", Groups: []string{"a"}}, {User: "eve", Groups: []string{"b", "", "b"}}, {User: "a", Groups: []string{"ann"}}}
	for range 1500 {
		docs, o := randomTable(t, r)
		shuffled := slices.Clone(docs)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		made, err := NewTable(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodeTable(made.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made.Encode(), decoded.Encode()) {
			t.Fatal("the codec is not stable")
		}
		for _, id := range who {
			for _, table := range []*Table{made, decoded, made} {
				set := table.AllowSet(id, o)
				total := uint64(0)
				for _, d := range docs {
					permitted := d.Allow.Permits(id)
					if o != nil {
						if e, ok := o.Entries[d.Key]; ok {
							permitted = !e.Gone && e.Allow.Permits(id)
						}
					}
					if table.Permits(d.Key, id, o) != permitted {
						t.Fatalf("%s for %+v", d.Key, id)
					}
					for c := range d.Chunks {
						if set.Contains(d.FirstChunk+c) != permitted {
							t.Fatalf("chunk %d of %s for %+v: want %v", c, d.Key, id, permitted)
						}
					}
					if permitted {
						total += uint64(d.Chunks)
					}
				}
				if set.GetCardinality() != total {
					t.Fatalf("%d chunks, want %d", set.GetCardinality(), total)
				}
			}
		}
	}
}

func TestTableRefuses(t *testing.T) {
	a := Allow{group("a")}
	for name, docs := range map[string][]Doc{
		"repeated key":      {{Key: "a", Allow: a, Chunks: 1}, {Key: "a", Allow: a, FirstChunk: 1, Chunks: 1}},
		"overlap":           {{Key: "a", Allow: a, Chunks: 2}, {Key: "b", Allow: a, FirstChunk: 1, Chunks: 1}},
		"empty key":         {{Allow: a}},
		"unknown principal": {{Key: "a", Allow: Allow{{Type: "Role", Name: "x"}}}},
		"too many chunks":   {{Key: "a", Allow: a, FirstChunk: 1<<32 - 1, Chunks: 2}},
	} {
		if _, err := NewTable(docs); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	table, err := NewTable([]Doc{{Key: "a", Allow: Allow{{Type: Everyone}}, Chunks: 10}})
	if err != nil {
		t.Fatal(err)
	}
	table.cache = newAllowCache(8, 1<<20)
	first := table.AllowSet(Identity{User: "u0"}, &Overlay{Epoch: 1})
	if table.AllowSet(Identity{User: "u0", Groups: []string{""}}, &Overlay{Epoch: 1}) != first {
		t.Error("equal principals are not shared")
	}
	for i := range 100 {
		table.AllowSet(Identity{User: fmt.Sprint("u", i)}, &Overlay{Epoch: 1})
	}
	if n := len(table.cache.byKey); n != 8 || table.cache.order.Len() != 8 {
		t.Errorf("%d entries", n)
	}
	gone := &Overlay{Epoch: 2, Entries: map[string]OverlayEntry{"a": {Gone: true}}}
	if !table.AllowSet(Identity{User: "u99"}, gone).IsEmpty() || len(table.cache.byKey) != 1 {
		t.Error("a new epoch must replace the old sets")
	}
	if table.AllowSet(Identity{User: "u99"}, &Overlay{Epoch: 1}).IsEmpty() || len(table.cache.byKey) != 1 {
		t.Error("an old epoch is answered but not kept")
	}
}

func TestPrincipalsKeyIsUnambiguous(t *testing.T) {
	a := Identity{User: "u", Groups: []string{"a", "b"}}
	b := Identity{User: "u", Groups: []string{"aGroup 1:b"}}
	c := Identity{User: "u", Groups: []string{"a\x00b"}}
	keys := map[string]bool{}
	for _, id := range []Identity{a, b, c} {
		keys[principalsKey(id.Principals())] = true
	}
	if len(keys) != 3 {
		t.Fatal("two principal sets share a key")
	}
}

func FuzzDecodeTable(f *testing.F) {
	r := rand.New(rand.NewSource(9))
	for range 5 {
		docs, _ := randomTable(f, r)
		table, err := NewTable(docs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(table.Encode())
	}
	f.Add([]byte(magic + "\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := DecodeTable(data)
		if err != nil {
			return
		}
		again, err := DecodeTable(table.Encode())
		if err != nil || again.Len() != table.Len() || again.Chunks() != table.Chunks() {
			t.Fatalf("a decoded table does not survive: %v", err)
		}
		_ = table.AllowSet(Identity{User: "ann"}, nil)
	})
}

func FuzzParseSidecar(f *testing.F) {
	f.Add([]byte(`{"allow":[{"type":"Group","name":"hr"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := ParseSidecar(data); err == nil && a == nil {
			t.Fatal("nil without an error")
		}
	})
}
