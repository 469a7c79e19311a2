package rerank

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/embed"
)

func TestParseRecipe(t *testing.T) {
	endpoint := &v1alpha1.RerankEndpoint{URL: "http://a", Model: "m", Timeout: metav1.Duration{Duration: time.Second}}
	for name, c := range map[string]struct {
		spec v1alpha1.RerankSpec
		want Recipe
	}{
		"absent":  {v1alpha1.RerankSpec{}, Recipe{Type: "None", Candidates: 50, DenseWeight: 1}},
		"builtin": {v1alpha1.RerankSpec{Type: "Builtin"}, Recipe{Type: "Builtin", Model: embed.MiniLM, Candidates: 50, DenseWeight: 0.5}},
		"late": {v1alpha1.RerankSpec{Type: "LateInteraction", Model: embed.Static256, Candidates: 7, DenseWeight: "0"},
			Recipe{Type: "LateInteraction", Model: embed.Static256, Candidates: 7}},
		"endpoint": {v1alpha1.RerankSpec{Type: "Endpoint", Endpoint: endpoint, Candidates: 100}, Recipe{Type: "Endpoint", Candidates: 100, DenseWeight: 1}},
	} {
		got, err := ParseRecipe(c.spec)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
		if got.On() != (got.Type != "None") || got.NeedsBM25() != (got.Model != "") {
			t.Errorf("%s: on %v, needs BM25 %v", name, got.On(), got.NeedsBM25())
		}
	}
	for says, spec := range map[string]v1alpha1.RerankSpec{
		`rerank.type is "Best"`:             {Type: "Best"},
		`"bert" is unknown`:                 {Type: "Builtin", Model: "bert"},
		`rerank.denseWeight is "1.5"`:       {Type: "Builtin", DenseWeight: "1.5"},
		`rerank.denseWeight is "NaN"`:       {Type: "LateInteraction", DenseWeight: "NaN"},
		`rerank.candidates is 101`:          {Type: "Builtin", Candidates: 101},
		`rerank.candidates is -1`:           {Type: "Endpoint", Candidates: -1, Endpoint: endpoint},
		`rerank.endpoint is missing`:        {Type: "Endpoint"},
		`rerank.type is None: there is`:     {},
		`rerank.endpoint.api is "Voyage"`:   {Type: "Endpoint", Endpoint: &v1alpha1.RerankEndpoint{URL: "http://a", API: "Voyage"}},
		`rerank.endpoint.url is no`:         {Type: "Endpoint", Endpoint: &v1alpha1.RerankEndpoint{URL: "http://user:secret@a"}},
		`rerank.endpoint.url is no http://`: {Type: "Endpoint", Endpoint: &v1alpha1.RerankEndpoint{URL: "ftp://a"}},
	} {
		if _, err := New(spec, Options{}); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want something on %q", err, says)
		}
	}
}

func TestClip(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("a", MaxText), strings.Repeat("a", MaxText+1), "a" + strings.Repeat("é", MaxText), strings.Repeat("🙂", MaxText), strings.Repeat("\x80", MaxText+9)} {
		got := Clip(text)
		if !strings.HasPrefix(text, got) || len(got) > MaxText || len(text) > MaxText && len(got) <= MaxText-utf8.UTFMax || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%.20q of %d bytes became %d bytes", text, len(text), len(got))
		}
	}
}

func TestCheck(t *testing.T) {
	if err := Check([]float64{0, -MaxScore, MaxScore}, 3); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]float64{nil, {1, 2, 3}, {1, math.NaN()}, {1, math.Inf(-1)}, {2 * MaxScore, 0}} {
		if Check(bad, 2) == nil {
			t.Errorf("%v passed", bad)
		}
	}
}

func reasonOf(err error) Reason {
	var f *Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return ""
}
