// Package chunk cuts a parsed document into the passages that are indexed and returned.
//
// Whatever the strategy: no text is lost, a chunk never begins with a combining mark or inside a character, each
// step moves on by at least one unit, and the time is linear in the text for a given ratio of overlap to size. The
// chunks of Fixed and Sentence are the text itself: without overlap they join to it byte for byte. Those of Structure
// leave out the blank space between them, and repeat the header of a table that is cut.
package chunk

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	v1alpha1 "quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/parse"
)

// maxChunks bounds what one document may become.
const maxChunks = 1 << 20

// TokenCounter counts the tokens that an encoder makes of a text.
type TokenCounter interface {
	CountTokens(text string) int
}

// Chunk is one passage of a document.
type Chunk struct {
	// Start and End are offsets in code points of the document's Text, End exclusive.
	Start int `json:"start"`
	End   int `json:"end"`
	// Text is that part of the document, after the repeated header where a table is cut.
	Text string `json:"text"`
	// Headings is the path of headings above the passage, outermost first.
	Headings []string `json:"headings,omitempty"`
	// Page is the page, from 1, on which the passage begins; 0 for formats without pages.
	Page int32 `json:"page,omitempty"`
	// Tokens is counted word by word, so runs longer than a word (URLs, base64) may differ from the whole by a few.
	Tokens int `json:"tokens"`
	// Warning says what the passage lacks, for instance a table header too large to repeat.
	Warning string `json:"warning,omitempty"`
}

// splitter holds one document and its settings. Offsets within the package are bytes of text.
type splitter struct {
	doc           parse.Document
	text          string
	offsets       parse.Offsets
	body          int
	tokens        bool
	size, overlap int
	count         TokenCounter
}

// Split cuts doc by spec; sizes are in spec.Unit, Tokens as counted by count or Characters (code points). A setting
// that cannot work is an error that names field, value and remedy.
func Split(doc parse.Document, spec v1alpha1.ChunkingSpec, count TokenCounter) ([]Chunk, error) {
	if err := validate(string(spec.Strategy), string(spec.Unit), int(spec.Size), int(spec.Overlap)); err != nil {
		return nil, err
	}
	if !utf8.ValidString(doc.Text) {
		return nil, fmt.Errorf("document text is not valid UTF-8: decode it before it is chunked")
	}
	s := &splitter{
		doc: doc, text: doc.Text, offsets: parse.NewOffsets(doc.Text), count: count,
		tokens: string(spec.Unit) == "Tokens", size: int(spec.Size), overlap: int(spec.Overlap),
	}
	if s.tokens && count == nil {
		return nil, fmt.Errorf("chunking.unit: Tokens needs a token counter: set Characters, or a builtin embedding model")
	}
	s.body = s.offsets.Byte(doc.Body)
	var out []Chunk
	switch string(spec.Strategy) {
	case "Whole":
		out = s.windows([]unit{{start: s.body, end: len(s.text), cost: s.cost(s.text[s.body:])}})
	case "Fixed":
		out = s.windows(s.atoms(nil, s.body, len(s.text)))
	case "Sentence":
		out = s.windows(s.sentences())
	case "Structure":
		out = s.structure()
	}
	if len(out) > maxChunks {
		return nil, fmt.Errorf("chunking.size: %d with overlap %d makes %d chunks of one document, the limit is %d: raise size or lower overlap", s.size, s.overlap, len(out), maxChunks)
	}
	return out, nil
}

func validate(strategy, unit string, size, overlap int) error {
	switch strategy {
	case "Whole":
		return nil
	case "Fixed", "Sentence", "Structure":
	case "Semantic":
		return fmt.Errorf("chunking.strategy: Semantic is not yet available: use Structure")
	default:
		return fmt.Errorf("chunking.strategy: %q is unknown: use Whole, Fixed, Sentence or Structure", strategy)
	}
	if unit != "Tokens" && unit != "Characters" {
		return fmt.Errorf("chunking.unit: %q is unknown: use Tokens or Characters", unit)
	}
	if size < 1 {
		return fmt.Errorf("chunking.size: %d must be at least 1: 256 suits most texts", size)
	}
	if overlap < 0 || overlap >= size {
		return fmt.Errorf("chunking.overlap: %d must be at least 0 and smaller than size %d: an eighth of size suits most texts", overlap, size)
	}
	return nil
}

// cost is the length of text in the unit of the settings, at least 1, so that every unit fills its chunk a little.
func (s *splitter) cost(text string) int {
	if !s.tokens {
		return max(1, utf8.RuneCountInString(text))
	}
	if s.count == nil {
		return 1
	}
	return max(1, s.count.CountTokens(text))
}

// windows packs units greedily up to size, and steps back over whole units by at most overlap. A window that shows
// nothing joins its neighbour.
func (s *splitter) windows(units []unit) []Chunk {
	var out []Chunk
	begin := s.body
	for i, seen := 0, 0; i < len(units) && len(out) <= maxChunks; {
		j, sum := i, 0
		for j < len(units) && (j == i || sum+units[j].cost <= s.size) {
			sum += units[j].cost
			j++
		}
		start, end := units[i].start, units[j-1].end
		if seen == 0 {
			start = begin
		}
		switch {
		case j <= seen:
			// the step back leaves no room for anything new
		case strings.TrimSpace(s.text[start:end]) != "":
			out = append(out, s.chunk(start, end, sum))
			seen = j
		case len(out) > 0:
			out[len(out)-1] = s.extend(out[len(out)-1], end)
			seen = j
		}
		if j == len(units) {
			break
		}
		i = s.stepBack(units, i, j)
	}
	return out
}

// stepBack is where the window after [i, j) begins: back by units that fit into overlap, but beyond i.
func (s *splitter) stepBack(units []unit, i, j int) int {
	next, sum := j, 0
	for next-1 > i && sum+units[next-1].cost <= s.overlap {
		next--
		sum += units[next].cost
	}
	return next
}

// chunk makes the passage text[start:end].
func (s *splitter) chunk(start, end, cost int) Chunk {
	c := Chunk{Start: s.offsets.CodePoint(start), End: s.offsets.CodePoint(end), Text: s.text[start:end], Tokens: s.tokenCount(start, end, cost)}
	if i := s.blockAt(c.Start); i < len(s.doc.Blocks) {
		c.Headings = s.doc.Blocks[i].Headings
	}
	c.Page = s.page(c.Start)
	return c
}

func (s *splitter) extend(c Chunk, end int) Chunk {
	start := s.offsets.Byte(c.Start)
	c.End, c.Text = s.offsets.CodePoint(end), s.text[start:end]
	return c
}

// tokenCount is the cost where that is in tokens, else a count of its own.
func (s *splitter) tokenCount(start, end, cost int) int {
	if s.tokens || s.count == nil {
		return cost
	}
	return s.count.CountTokens(s.text[start:end])
}

// blockAt is the first block that ends after the code point at.
func (s *splitter) blockAt(at int) int {
	return sort.Search(len(s.doc.Blocks), func(i int) bool { return s.doc.Blocks[i].End > at })
}

func (s *splitter) page(at int) int32 {
	i, found := slices.BinarySearch(s.doc.Pages, at)
	if found {
		i++
	}
	return int32(i)
}
