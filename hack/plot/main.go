// Command plot draws SVG charts from the benchmarks' own output: a JSON file with a list of charts goes in, a file per
// chart comes out. The same input gives the same bytes.
//
//	go run . -in charts.json -out ../../docs/img
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is one picture.
type Chart struct {
	// File is its name, without a folder.
	File  string `json:"file"`
	Title string `json:"title"`
	X     Axis   `json:"x"`
	Y     Axis   `json:"y"`
	// Series share both axes, at least one.
	Series []Series `json:"series"`
}

// Axis of a chart; Scale is "linear" (or empty) or "log", which needs positive values.
type Axis struct {
	Label string `json:"label"`
	Scale string `json:"scale,omitempty"`
}

// Series is a line through its points, or the points alone, each with a label where Labels has as many.
type Series struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
	Labels []string     `json:"labels,omitempty"`
	Line   bool         `json:"line"`
}

const (
	width  = 7 * vg.Inch
	height = 4.5 * vg.Inch
)

var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*\.svg$`)

func main() {
	in := flag.String("in", "", "JSON file with the charts")
	out := flag.String("out", ".", "folder for the pictures")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return fmt.Errorf("-in: %w", err)
	}
	var charts []Chart
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&charts); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	for _, c := range charts {
		picture, err := render(c)
		if err != nil {
			return fmt.Errorf("%s: chart %q: %w", in, c.File, err)
		}
		if err := os.WriteFile(filepath.Join(out, c.File), picture, 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(out, c.File))
	}
	return nil
}

// render draws a chart as SVG.
func render(c Chart) ([]byte, error) {
	if !fileName.MatchString(c.File) {
		return nil, errors.New("file must be a lower-case name that ends in .svg")
	}
	if len(c.Series) == 0 {
		return nil, errors.New("has no series")
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X.Label, c.Y.Label
	p.BackgroundColor = color.White
	p.Legend.Top, p.Legend.Left = false, false
	p.Add(plotter.NewGrid())
	for i, s := range c.Series {
		if err := add(p, c, s, i); err != nil {
			return nil, fmt.Errorf("series %q: %w", s.Name, err)
		}
	}
	scale(&p.X, c.X)
	scale(&p.Y, c.Y)
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func scale(axis *plot.Axis, a Axis) {
	if a.Scale == "log" {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
}

func add(p *plot.Plot, c Chart, s Series, i int) error {
	if len(s.Points) == 0 {
		return errors.New("has no points")
	}
	points := make(plotter.XYs, len(s.Points))
	for j, xy := range s.Points {
		if c.X.Scale == "log" && xy[0] <= 0 || c.Y.Scale == "log" && xy[1] <= 0 {
			return fmt.Errorf("point %v is not positive on a logarithmic axis", xy)
		}
		points[j] = plotter.XY{X: xy[0], Y: xy[1]}
	}
	scatter, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	scatter.Color, scatter.Shape, scatter.Radius = plotutil.Color(i), plotutil.Shape(i), vg.Points(2.5)
	p.Add(scatter)
	if !s.Line {
		p.Legend.Add(s.Name, scatter)
	} else {
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color = plotutil.Color(i)
		p.Add(line)
		p.Legend.Add(s.Name, line, scatter)
	}
	switch len(s.Labels) {
	case 0:
		return nil
	case len(points):
	default:
		return fmt.Errorf("has %d labels for %d points", len(s.Labels), len(points))
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: points, Labels: s.Labels})
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(3)}
	p.Add(labels)
	return nil
}
