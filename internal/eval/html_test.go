package eval

import (
	"strings"
	"testing"
)

func TestHTML(t *testing.T) {
	report := run(t, input(t))
	report.Questions[4].ForbiddenHits = []string{"hr/<pay>.md"}
	report.Questions[7].Values = map[string]float64{"Recall@5": 0}
	var out strings.Builder
	if err := report.HTML(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<td>Recall@5<td", "hr/&lt;pay&gt;.md", "compared with old"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for _, not := range []string{"http", "<script", "ZgotmplZ"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q is in the page", not)
		}
	}
	if worst := report.Worst(); worst[0].ID != "q4" || worst[1].ID != "q7" || worst[2].ID != "q0" {
		t.Errorf("got %s, %s, %s first", worst[0].ID, worst[1].ID, worst[2].ID)
	}
}
