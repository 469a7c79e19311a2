// Package parse turns the bytes of one object into text with a structure: blocks, headings, a title.
//
// Nothing readable is lost: every character of a text or Markdown file lies in Document.Text, and every
// non-blank one after the front matter in exactly one block. What cannot be read ends in a *Failure, which
// concerns that one document and never stops the others. All work is linear in the size of the input and nesting
// is bounded, so no input makes a worker hang or crash.
package parse

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// MaxBytes is the size of the largest object that is read; a larger one fails as TooLarge.
const MaxBytes = 64 << 20

// Reason says in one word why a document has no text.
type Reason string

// The closed list of reasons.
const (
	Encrypted   Reason = "Encrypted"
	Empty       Reason = "Empty"
	Unsupported Reason = "Unsupported"
	TooLarge    Reason = "TooLarge"
	Unreadable  Reason = "Unreadable"
	Malformed   Reason = "Malformed"
)

// Failure is the error of Parse: the document goes to quarantine under Reason, Message tells its owner what to do.
type Failure struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

func (f *Failure) Error() string { return string(f.Reason) + ": " + f.Message }

func fail(r Reason, format string, args ...any) *Failure {
	return &Failure{Reason: r, Message: fmt.Sprintf(format, args...)}
}

// Kind says what a block is, and so where it may be cut.
type Kind string

// The kinds of blocks.
const (
	Heading   Kind = "Heading"
	Paragraph Kind = "Paragraph"
	List      Kind = "List"
	Table     Kind = "Table"
	Code      Kind = "Code"
)

// Block is a part of Document.Text. Blocks ascend, do not overlap, and leave only white space between them.
type Block struct {
	// Start and End are offsets in code points of Document.Text, End exclusive.
	Start, End int
	Kind       Kind
	// Level is 1 to 6 for a heading, else 0.
	Level int
	// Header is, for a table, the offset where its header rows end; equal to Start when it has none.
	Header int
	// Headings is the path from the outermost heading to the one above the block; for a heading, itself included.
	// Blocks share these slices: do not change them.
	Headings []string
}

// Document is the text of one object and its structure.
type Document struct {
	// Title is the declared title, else the first heading of level 1, else the file's name without extension.
	Title string
	// Text is valid UTF-8 without NUL and without a byte order mark. For Markdown and plain text it is the decoded
	// source, so that offsets point into the source; for HTML it is what a reader sees.
	Text string
	// Body is the offset in code points where the text begins, after the front matter, which is metadata.
	Body   int
	Blocks []Block
	// Pages holds the offset in code points of each page's start; empty for formats without pages.
	Pages []int
}

type format int

const (
	formatUnknown format = iota
	formatText
	formatMarkdown
	formatHTML
)

var formats = map[string]format{
	".md": formatMarkdown, ".markdown": formatMarkdown, ".mdx": formatMarkdown, ".mkd": formatMarkdown,
	".html": formatHTML, ".htm": formatHTML, ".xhtml": formatHTML,
}

func init() {
	for _, e := range strings.Fields(`txt text log rst adoc asciidoc org tex csv tsv json jsonl ndjson yaml yml toml ini cfg conf
		properties env xml srt vtt sql sh bash ps1 py go rs js mjs ts tsx jsx java kt scala c h cc cpp hpp cs rb php pl lua r swift
		proto tf hcl diff patch css`) {
		formats["."+e] = formatText
	}
}

// signatures are the first bytes of formats that are not text, whatever the key's extension claims.
var signatures = []struct{ magic, name string }{
	{"%PDF-", "PDF"},
	{"PK\x03\x04", "ZIP or Office"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old or encrypted Office"},
	{"\x1f\x8b", "gzip"},
	{"\x89PNG\r\n\x1a\n", "PNG image"},
	{"\xff\xd8\xff", "JPEG image"},
	{"GIF8", "GIF image"},
	{"{\\rtf", "RTF"},
	{"\x7fELF", "ELF program"},
}

// Parse reads the object called key. Its error is always a *Failure.
func Parse(key string, data []byte) (Document, error) {
	if len(data) > MaxBytes {
		return Document{}, fail(TooLarge, "the object has %d bytes, the limit is %d: split it, or exclude it", len(data), MaxBytes)
	}
	for _, s := range signatures {
		if strings.HasPrefix(string(data[:min(len(data), 16)]), s.magic) {
			return Document{}, fail(Unsupported, "%s is not read yet: convert it to Markdown, HTML or text, or exclude it", s.name)
		}
	}
	ext := strings.ToLower(path.Ext(key))
	kind, known := formats[ext]
	if ext != "" && !known {
		return Document{}, fail(Unsupported, "extension %q is not read: use .md, .html or .txt, or exclude it", ext)
	}
	text, err := decode(data, kind == formatHTML)
	if err != nil {
		return Document{}, err
	}
	doc := structure(kind, text)
	if blank(doc.Text) || len(doc.Blocks) == 0 {
		return Document{}, fail(Empty, "the object holds no text")
	}
	if doc.Title == "" {
		doc.Title = titleOf(key, doc.Blocks)
	}
	return doc, nil
}

func structure(f format, text string) Document {
	switch f {
	case formatMarkdown:
		return parseMarkdown(text)
	case formatHTML:
		return parseHTML(text)
	default:
		return parseText(text)
	}
}

// titleOf is the first heading of level 1, else the name of the file.
func titleOf(key string, blocks []Block) string {
	for _, b := range blocks {
		if b.Kind == Heading && b.Level == 1 && len(b.Headings) > 0 {
			return b.Headings[len(b.Headings)-1]
		}
	}
	name := path.Base(key)
	return clip(strings.ToValidUTF8(strings.TrimSuffix(name, path.Ext(name)), "\uFFFD"))
}

// blank reports whether s shows nothing: white space, zero-width and control characters only.
func blank(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && !unicode.In(r, unicode.Cf, unicode.Cc) {
			return false
		}
	}
	return true
}
