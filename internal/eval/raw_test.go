package eval

import (
	"reflect"
	"testing"

	"quarry.dev/quarry/api/v1alpha1"
)

func TestRawFromSpec(t *testing.T) {
	raw := RawFromSpec(v1alpha1.AccessSpec{Default: "Everyone", Rules: []v1alpha1.AccessRule{{Prefix: "hr/", Allow: []v1alpha1.Principal{{Type: "Group", Name: "hr"}}}}})
	if raw.Permits("hr/pay.md", Principal{User: "ann"}) || !raw.Permits("hr/pay.md", Principal{User: "bob", Groups: []string{"hr"}}) || !raw.Permits("map.md", Principal{User: "ann"}) {
		t.Errorf("got %+v", raw)
	}
}

func TestRawSidecarFailsClosed(t *testing.T) {
	for data, want := range map[string]int{
		`{"allow":[{"type":"Group","name":"hr"},{"type":"Everyone"}]}`: 2,
		`{"allow":[]}`:                      0,
		`{}`:                                0,
		`not JSON`:                          0,
		``:                                  0,
		`{"allow":[{"type":"Everyone"}]} x`: 0,
		`{"allow":[{"type":"Everyone"}],"deny":[]}`:                   0,
		`{"allow":[{"type":"User","name":"ann"},{"type":"Anybody"}]}`: 0,
		`{"allow":[{"type":"User","name":"ann"},{"type":"User"}]}`:    0,
		`{"allow":[{"type":"Everyone","name":"all"}]}`:                0,
	} {
		if got := RawSidecar([]byte(data)); got == nil || len(got) != want {
			t.Errorf("%s: got %v, want %d principals", data, got, want)
		}
	}
}

func TestMetricsOf(t *testing.T) {
	got := MetricsOf([]v1alpha1.GateMetric{{Name: "Recall", K: 10}, {Name: "Recall", K: 10}, {Name: "HitRate", K: 3}})
	if !reflect.DeepEqual(got, []Metric{{Recall, 10}, {HitRate, 3}}) {
		t.Errorf("got %v", got)
	}
	for _, name := range []v1alpha1.MetricName{v1alpha1.MetricRecall, v1alpha1.MetricHitRate, v1alpha1.MetricMRR, v1alpha1.MetricNDCG} {
		if err := (Metric{Name: string(name), K: 10}).check(); err != nil {
			t.Error(err)
		}
	}
}
