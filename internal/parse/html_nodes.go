package parse

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func headingLevel(a atom.Atom) int {
	switch a {
	case atom.H1:
		return 1
	case atom.H2:
		return 2
	case atom.H3:
		return 3
	case atom.H4:
		return 4
	case atom.H5:
		return 5
	case atom.H6:
		return 6
	}
	return 0
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// hidden reports the attribute by which a page itself takes an element out of what is shown.
func hidden(n *html.Node) bool {
	for _, a := range n.Attr {
		if a.Key == "hidden" && a.Val != "until-found" {
			return true
		}
	}
	return false
}

// first is the first element of that name below n, or nil.
func first(n *html.Node, a atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.DataAtom == a && d.Namespace == "" {
			return d
		}
	}
	return nil
}

func contains(n *html.Node, names ...atom.Atom) bool {
	for d := range n.Descendants() {
		for _, a := range names {
			if d.Type == html.ElementNode && d.DataAtom == a {
				return true
			}
		}
	}
	return false
}

// textOf joins the text below n up to limit bytes; <br> is a line feed.
func textOf(n *html.Node, limit int) string {
	var b strings.Builder
	if n == nil {
		return ""
	}
	for d := range n.Descendants() {
		switch {
		case b.Len() > limit:
			return b.String()
		case d.Type == html.TextNode:
			b.WriteString(strings.ReplaceAll(d.Data, "\x00", ""))
		case d.DataAtom == atom.Br:
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// layout reports a table that arranges blocks on a page instead of holding data.
func layout(n *html.Node) bool {
	return contains(n, atom.Table, atom.Pre, atom.Ul, atom.Ol, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6)
}

// table renders the rows of a data table, the caption as a paragraph before it. Rows of <thead>, or else a first row
// of <th> cells, become the header, so that a part of the table can repeat it.
func (p *page) table(n *html.Node) {
	p.flush(Paragraph)
	if c := first(n, atom.Caption); c != nil {
		p.children(c)
		p.flush(Paragraph)
	}
	var b strings.Builder
	header, rows, open := 0, 0, true
	for d := range n.Descendants() {
		if d.Type != html.ElementNode || d.DataAtom != atom.Tr {
			continue
		}
		cells, isHeader := p.row(d)
		if cells == nil {
			continue
		}
		if open && rows > 0 && !isHeader {
			header = p.endHeader(&b, len(cells))
		}
		open = open && isHeader
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		rows++
	}
	p.block(Table, strings.TrimRight(b.String(), "\n"), header)
}

// endHeader writes the rule below the header rows and returns the header's length in bytes.
func (p *page) endHeader(b *strings.Builder, columns int) int {
	b.WriteString("|" + strings.Repeat(" --- |", columns) + "\n")
	return b.Len()
}

// row renders the cells of one row, and whether it is a header. Text of a row that is in no cell is kept.
func (p *page) row(tr *html.Node) ([]string, bool) {
	var cells []string
	shown, heads := false, true
	for c := tr.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.ElementNode || dropped[c.DataAtom] || hidden(c) {
			continue
		}
		p.cell(c)
		s := strings.ReplaceAll(strings.TrimSpace(p.line.String()), "|", `\|`)
		p.line.Reset()
		p.space = false
		shown = shown || s != ""
		heads = heads && c.DataAtom == atom.Th
		cells = append(cells, s)
	}
	if !shown {
		return nil, false
	}
	head := tr.Parent != nil && tr.Parent.DataAtom == atom.Thead
	return cells, head || heads
}

// cell gathers the text of a cell on one line.
func (p *page) cell(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			p.inline(c.Data)
		case c.Type == html.ElementNode && (dropped[c.DataAtom] || hidden(c)):
		case c.DataAtom == atom.Img:
			p.inline(" " + attribute(c, "alt") + " ")
		default:
			if boundaries[c.DataAtom] || c.DataAtom == atom.Br {
				p.inline(" ")
			}
			p.cell(c)
			if boundaries[c.DataAtom] {
				p.inline(" ")
			}
		}
	}
}
