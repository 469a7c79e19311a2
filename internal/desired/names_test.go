package desired

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"quarry.dev/quarry/api/v1alpha1"
)

func TestNamesThatJoinAlikeStayApart(t *testing.T) {
	one, two := IndexName("rag", "support", "acme-eu", "v"), IndexName("rag", "support-acme", "eu", "v")
	if one == two {
		t.Fatalf("support + acme-eu and support-acme + eu share %s", one)
	}
	for _, other := range []string{IndexName("rag2", "support", "acme-eu", "v"), IndexName("rag", "support", "acme-eu", "w")} {
		if one == other {
			t.Fatalf("%s stands for two versions", one)
		}
	}
	if got := TenantServiceName("support", "acme"); got != "support-acme" {
		t.Fatalf("tenant service %q", got)
	}
}

func TestEveryNameIsAValidLabel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := "abcdefghijklmnopqrstuvwxyz0123456789-."
	name := func(limit int) string {
		n := 1 + random.IntN(limit)
		var b strings.Builder
		b.WriteByte(letters[random.IntN(36)])
		for range n {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
		b.WriteByte(letters[random.IntN(36)])
		return b.String()
	}
	parts := []Part{ConfigPart, ServePart, KeysPart, EvalPart, PublicPart, JobsPart, ChunkPart, ContextualizePart, EmbedPart, BuildPart, BM25Part, HNSWPart, RerankerPart, GatewayPart}
	for range 2000 {
		pipeline, tenant := strings.ReplaceAll(name(250), ".", "-"), strings.ReplaceAll(name(60), ".", "-")
		index := IndexName(name(60), pipeline, tenant, name(70))
		if len(index) >= 46 {
			t.Fatalf("%q has %d characters", index, len(index))
		}
		names := []string{index, TenantServiceName(pipeline, tenant), EvalRunName(index, name(70), 2147483647)}
		for _, part := range parts {
			names = append(names, PartName(index, part))
		}
		for _, got := range names {
			if problems := validation.IsDNS1035Label(got); len(problems) > 0 {
				t.Fatalf("%q (of %q, %q): %v", got, pipeline, tenant, problems)
			}
		}
		// The host name of the pod of the last of 256 shards.
		if host := fmt.Sprintf("%s-%d", PartName(index, ContextualizePart), 255); len(host) > 63 {
			t.Fatalf("host name %q has %d characters", host, len(host))
		}
		labels := Labels(&v1alpha1.Index{ObjectMeta: metav1.ObjectMeta{Name: index}, Spec: v1alpha1.IndexSpec{
			PipelineRef: v1alpha1.LocalRef{Name: pipeline}, Tenant: tenant, VersionDigest: "sha256:00",
		}})
		for key, value := range labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Fatalf("label %s=%q: %v", key, value, problems)
			}
		}
	}
}

func TestLongTenantServicesStayApart(t *testing.T) {
	long := strings.Repeat("a", 62)
	if TenantServiceName(long, "b-c") == TenantServiceName(long+"-b", "c") {
		t.Fatal("two tenants share a Service")
	}
}

func TestConflict(t *testing.T) {
	yes := true
	owned := func(refs ...metav1.OwnerReference) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "support-acme-eu", OwnerReferences: refs}}
	}
	mine := metav1.OwnerReference{Kind: "RetrievalPipeline", Name: "support", UID: "1", Controller: &yes}
	theirs := metav1.OwnerReference{Kind: "RetrievalPipeline", Name: "support-acme", UID: "2", Controller: &yes}
	guest := metav1.OwnerReference{Kind: "RetrievalPipeline", Name: "support", UID: "1"}
	for name, test := range map[string]struct {
		obj   *corev1.Service
		owner string
	}{
		"ours":               {owned(mine), ""},
		"another pipeline's": {owned(theirs), "RetrievalPipeline/support-acme"},
		"nobody's":           {owned(), "nobody"},
		"owned, uncontroled": {owned(guest), "nobody"},
	} {
		err := Conflict(test.obj, "1")
		conflict, ok := errors.AsType[*NameConflict](err)
		switch {
		case test.owner == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.owner != "" && (!ok || conflict.Owner != test.owner || conflict.Kind != "Service"):
			t.Errorf("%s: %v", name, err)
		}
	}
}
