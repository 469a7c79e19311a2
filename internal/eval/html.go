package eval

import (
	"html/template"
	"io"
	"slices"
	"strings"
)

// page is complete in itself: no script, no font, no address of anything else.
var page = template.Must(template.New("report").Funcs(template.FuncMap{"percent": func(v float64) float64 { return 100 * v }}).Parse(strings.TrimSpace(`
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Index}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:#b00020;font-weight:600}
.bar{position:relative;height:.8rem;background:#eee;min-width:10rem}.bar i{position:absolute;top:0;bottom:0;background:#8bb3e8}.bar b{position:absolute;top:0;bottom:0;width:2px;background:#17457d}
</style>
<h1>{{.Index}}</h1>
<p>{{len .Questions}} questions{{with .Baseline}}, compared with {{.}}{{end}}. Eval set {{.EvalSetDigest}}.</p>
{{with .Invalid}}<p class="bad">No valid measurement: {{.}}</p>{{end}}
<p{{if .Leaks.Hits}} class="bad"{{end}}>{{.Leaks.Hits}} forbidden hits in {{.Leaks.Probes}} answers. Latency p50 {{printf "%.0f" .Latency.P50}} ms, p95 {{printf "%.0f" .Latency.P95}} ms, p99 {{printf "%.0f" .Latency.P99}} ms.</p>
<table><tr><th>Metric<th>Value<th>95 % interval<th><th>Questions<th>Baseline<th>Delta<th>Gained<th>Lost</tr>
{{range .Metrics}}<tr><td>{{.Metric}}<td class="n">{{printf "%.4f" .Value}}<td>{{printf "%.4f to %.4f" .Lower .Upper}}
<td><div class="bar"><i style="left:{{percent .Lower}}%;right:calc(100% - {{percent .Upper}}%)"></i><b style="left:{{percent .Value}}%"></b></div>
<td class="n">{{.Questions}}{{with .Paired}}<td class="n">{{printf "%.4f" .Baseline}}<td class="n">{{printf "%+.4f" .Delta}}<td class="n">{{.Gained}}<td class="n">{{.Lost}}{{end}}</tr>
{{end}}</table>
{{with .Errors}}<h2>Without an answer</h2><table>{{range .}}<tr><td>{{.ID}}<td>{{.Message}}</tr>{{end}}</table>{{end}}
{{with .Stale}}<h2>Stale</h2><table>{{range .}}<tr><td>{{.ID}}<td>{{.Reason}}</tr>{{end}}</table>{{end}}
<h2>Questions, the worst first</h2>
<table><tr><th>Question<th>Kind<th>Ranks of the evidence<th>Values<th>Baseline<th>First documents</tr>
{{range .Worst}}<tr><td>{{.ID}}<td>{{.Kind}}<td>{{range .Ranks}}{{if .}}{{.}} {{else}}&ndash; {{end}}{{end}}
<td>{{range $name, $v := .Values}}{{$name}}&nbsp;{{printf "%.2f" $v}} {{end}}<td>{{range $name, $v := .Baseline}}{{$name}}&nbsp;{{printf "%.2f" $v}} {{end}}
<td>{{range .ForbiddenHits}}<span class="bad">{{.}}</span> {{end}}{{range .First}}{{.Document}} {{end}}</tr>
{{end}}</table>
</html>
`)))

// HTML writes the report as one page that needs nothing else.
func (r Report) HTML(w io.Writer) error { return page.Execute(w, r) }

// Worst orders the questions by what they cost: forbidden hits first, then the lowest values, then the file's order.
func (r Report) Worst() []QuestionReport {
	cost := func(q QuestionReport) float64 {
		if len(q.ForbiddenHits) > 0 {
			return -1
		}
		if q.Kind != Answerable || len(q.Values) == 0 {
			return 2
		}
		sum := 0.0
		for _, m := range r.Metrics {
			sum += q.Values[m.String()] // in the order of the metrics, so that equal reports give equal pages
		}
		return sum / float64(len(q.Values))
	}
	worst := slices.Clone(r.Questions)
	slices.SortStableFunc(worst, func(a, b QuestionReport) int {
		switch x, y := cost(a), cost(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return worst
}

// First are the hits that a reader looks at.
func (q QuestionReport) First() []HitReport { return q.Hits[:min(3, len(q.Hits))] }
