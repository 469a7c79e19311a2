package parse

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// page renders an HTML tree as the text that a reader sees: blocks with a blank line between them, list items as
// "- item" lines, tables as Markdown rows, preformatted text as it is. The parser bounds the depth of its tree, so
// recursion is bounded; a page that is deeper is read tag by tag instead.
type page struct {
	out     strings.Builder
	outline outline
	blocks  []Block
	title   string
	// line gathers inline text until the next block begins
	line  strings.Builder
	space bool
}

// dropped elements hold nothing that a reader of the page reads.
var dropped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Nav: true, atom.Template: true, atom.Noscript: true, atom.Iframe: true,
	atom.Svg: true, atom.Object: true, atom.Canvas: true, atom.Title: true,
}

// boundaries begin and end a paragraph.
var boundaries = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Section: true, atom.Article: true, atom.Main: true, atom.Header: true, atom.Footer: true,
	atom.Aside: true, atom.Blockquote: true, atom.Figure: true, atom.Figcaption: true, atom.Address: true, atom.Details: true,
	atom.Summary: true, atom.Form: true, atom.Fieldset: true, atom.Hr: true, atom.Dl: true, atom.Dt: true, atom.Dd: true,
	atom.Tr: true, atom.Td: true, atom.Th: true, atom.Caption: true, atom.Body: true, atom.Li: true, atom.Ul: true, atom.Ol: true,
	atom.Table: true, atom.Pre: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
}

func parseHTML(text string) Document {
	p := &page{}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		p.flat(text)
	} else {
		p.title = textOf(first(root, atom.Title), maxHeading*16)
		p.walk(root)
	}
	p.flush(Paragraph)
	return finish(Document{Title: clip(p.title), Text: p.out.String(), Blocks: p.blocks})
}

func (p *page) walk(n *html.Node) {
	if n.Type == html.TextNode {
		p.inline(n.Data)
		return
	}
	if n.Type == html.ElementNode && (dropped[n.DataAtom] || hidden(n)) {
		return
	}
	switch level := headingLevel(n.DataAtom); {
	case level > 0:
		p.flush(Paragraph)
		p.cell(n)
		p.heading(level)
	case n.DataAtom == atom.Br:
		p.lineBreak()
	case n.DataAtom == atom.Img:
		p.inline(" " + attribute(n, "alt") + " ")
	case n.DataAtom == atom.Pre:
		p.flush(Paragraph)
		p.block(Code, strings.Trim(textOf(n, MaxBytes), "\r\n"), 0)
	case n.DataAtom == atom.Ul || n.DataAtom == atom.Ol:
		p.list(n)
	case n.DataAtom == atom.Table && !layout(n):
		p.table(n)
	case boundaries[n.DataAtom]:
		p.flush(Paragraph)
		p.children(n)
		p.flush(Paragraph)
	default:
		p.children(n)
	}
}

func (p *page) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c)
	}
}

// inline adds text to the open paragraph, white space collapsed.
func (p *page) inline(s string) {
	for _, r := range s {
		if r != '\u00a0' && unicode.IsSpace(r) || r == 0 {
			p.space = p.line.Len() > 0
			continue
		}
		if p.space {
			p.line.WriteByte(' ')
			p.space = false
		}
		p.line.WriteRune(r)
	}
}

func (p *page) lineBreak() {
	if p.line.Len() > 0 {
		p.line.WriteByte('\n')
	}
	p.space = false
}

// flush ends the open paragraph.
func (p *page) flush(k Kind) {
	s := strings.TrimSpace(p.line.String())
	p.line.Reset()
	p.space = false
	p.block(k, s, 0)
}

func (p *page) heading(level int) {
	s := strings.TrimSpace(p.line.String())
	if s == "" {
		p.flush(Paragraph)
		return
	}
	p.outline.enter(level, s)
	p.flush(Heading)
	p.blocks[len(p.blocks)-1].Level = level
}

// block appends a block, header being the length of a table's header within s.
func (p *page) block(k Kind, s string, header int) {
	if strings.TrimSpace(s) == "" {
		return
	}
	if p.out.Len() > 0 {
		p.out.WriteString("\n\n")
	}
	start := p.out.Len()
	p.out.WriteString(s)
	p.blocks = append(p.blocks, Block{Start: start, End: p.out.Len(), Kind: k, Header: start + header, Headings: p.outline.path})
}

// list renders a list whose items are inline; one that holds blocks (headings, tables, code) is walked as blocks.
func (p *page) list(n *html.Node) {
	p.flush(Paragraph)
	if contains(n, atom.Table, atom.Pre, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6) {
		p.children(n)
		p.flush(Paragraph)
		return
	}
	var b strings.Builder
	p.items(n, &b, 0)
	p.block(List, strings.Trim(b.String(), "\n"), 0)
}

// items writes each item on a line, an inner list indented below its item.
func (p *page) items(n *html.Node, b *strings.Builder, depth int) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && (dropped[c.DataAtom] || hidden(c)) {
			continue
		}
		if c.Type == html.ElementNode && (c.DataAtom == atom.Ul || c.DataAtom == atom.Ol) {
			p.item(b, depth)
			p.items(c, b, depth+1)
			continue
		}
		switch {
		case c.Type == html.TextNode:
			p.inline(c.Data)
		case c.DataAtom == atom.Br:
			p.inline(" ")
		case c.DataAtom == atom.Img:
			p.inline(" " + attribute(c, "alt") + " ")
		default:
			p.inline(" ")
			p.items(c, b, depth)
		}
		if c.DataAtom == atom.Li {
			p.item(b, depth)
		}
	}
	if n.DataAtom == atom.Ul || n.DataAtom == atom.Ol {
		p.item(b, depth)
	}
}

// item ends a list item. The indentation is bounded: depth times items would be quadratic.
func (p *page) item(b *strings.Builder, depth int) {
	if s := strings.TrimSpace(p.line.String()); s != "" {
		b.WriteString(strings.Repeat("  ", min(depth, 8)) + "- " + s + "\n")
	}
	p.line.Reset()
	p.space = false
}

// flat reads a page that is nested too deep for a tree: text between tags, a paragraph per boundary.
func (p *page) flat(text string) {
	z := html.NewTokenizer(strings.NewReader(text))
	skip := atom.Atom(0)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.TextToken:
			if skip == 0 {
				p.inline(string(z.Text()))
			} else if skip == atom.Title && p.title == "" {
				p.title = string(z.Text())
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			switch a := atom.Lookup(name); {
			// of the dropped elements, those that the tokenizer ends by itself
			case a == atom.Script || a == atom.Style || a == atom.Title:
				skip = a
			case boundaries[a]:
				p.flush(Paragraph)
			}
		case html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			a := atom.Lookup(name)
			if a == skip {
				skip = 0
			}
			if boundaries[a] {
				p.flush(Paragraph)
			}
		}
	}
}
