package main

import (
	"bytes"
	"strings"
	"testing"
)

func chart(change func(*Chart)) Chart {
	c := Chart{File: "a.svg", Title: "Title", X: Axis{Label: "weight"}, Y: Axis{Label: "nDCG@10"},
		Series: []Series{{Name: "scifact", Points: [][2]float64{{0, .6}, {1, .7}}, Labels: []string{"low", "high"}, Line: true}}}
	change(&c)
	return c
}

func TestRenderIsTheSameEachTime(t *testing.T) {
	first, err := render(chart(func(*Chart) {}))
	if err != nil {
		t.Fatal(err)
	}
	again, err := render(chart(func(*Chart) {}))
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("two drawings differ, %v", err)
	}
	for _, want := range []string{"<svg", "scifact", "nDCG@10", "high"} {
		if !strings.Contains(string(first), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for says, c := range map[string]Chart{
		"lower-case name": chart(func(c *Chart) { c.File = "../a.svg" }),
		"no series":       chart(func(c *Chart) { c.Series = nil }),
		"not positive":    chart(func(c *Chart) { c.X.Scale = "log" }),
		"no points":       chart(func(c *Chart) { c.Series[0].Points = nil; c.Series[0].Labels = nil }),
		"1 labels for 2":  chart(func(c *Chart) { c.Series[0].Labels = []string{"one"} }),
	} {
		if _, err := render(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want something on %q", err, says)
		}
	}
}
