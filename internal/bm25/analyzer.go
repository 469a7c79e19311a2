package bm25

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

// maxTermBytes bounds a term: what is longer (a blob of base64, a line of minified code) is cut, on both sides alike.
const maxTermBytes = 255

// Analyzer turns text into terms, the same way for documents and for queries. It never reads text as query syntax. It is
// safe for concurrent use.
type Analyzer interface {
	// Name is the word that NewAnalyzer knows it by; a segment records it.
	Name() string
	// Terms returns the terms in the order of the text, repeated as often as the text repeats them.
	Terms(text string) []string
}

// Folded is appended to an analyzer's name to make letters with accents equal to those without, in Latin, Greek and
// Cyrillic script: for languages whose writers leave the accents out as often as not.
const Folded = "+folded"

// NewAnalyzer returns the analyzer of that name, one of Analyzers, with Folded after it or not: `standard` for any
// language, the others with the stop words and stems of theirs.
func NewAnalyzer(name string) (Analyzer, error) {
	language, folded := strings.CutSuffix(name, Folded)
	word, ok := words[language]
	if !ok {
		return nil, fmt.Errorf("bm25.analyzer is %q: use one of %s", name, strings.Join(Analyzers(), ", "))
	}
	return analyzer{name: name, word: word, folded: folded}, nil
}

// analyzer splits text at UAX #29 word boundaries and joins what stands without a space into runs:
//   - a run of words is its words, and when it looks like an identifier (ERR-4042, foo.bar_baz, C++) also the whole;
//   - a run of a script that is written without spaces is its characters and its pairs of characters.
type analyzer struct {
	name string
	word func(string) string // stem of a word, or "" for a stop word
	// folded drops accents before anything else looks at the text.
	folded bool
}

func (a analyzer) Name() string { return a.name }

func (a analyzer) Terms(text string) []string {
	var terms []string
	text = normalise(text)
	if a.folded {
		text = fold(text)
	}
	start, end := 0, 0 // the run so far
	state := -1
	for pos := 0; pos < len(text); {
		segment, _, next := uniseg.FirstWordInString(text[pos:], state)
		state = next
		if isWord(segment) || isJoiner(segment) {
			if end == start {
				start = pos
			}
			end = pos + len(segment)
		} else {
			terms = a.run(terms, text[start:end])
			start, end = 0, 0
		}
		pos += len(segment)
	}
	return a.run(terms, text[start:end])
}

// normalise maps compatibility forms onto one form and letters onto lower case, and drops invisible format characters.
func normalise(text string) string {
	text = strings.ToLower(norm.NFKC.String(strings.ToValidUTF8(text, " ")))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u2019' || r == '\u02bc':
			return '\''
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, norm.NFKC.String(text))
}

// fold drops the combining marks that Latin, Greek and Cyrillic letters carry. Marks of other scripts are vowels and tones
// without which a word is another word.
func fold(text string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36f {
			return -1
		}
		return r
	}, norm.NFD.String(text)))
}

func isTermRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

func isWord(segment string) bool {
	return strings.IndexFunc(segment, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) >= 0
}

// isJoiner says that a mark between two words does not part them. Connectors are segments of their own to UAX #29, but for
// the few that it keeps inside words already.
func isJoiner(segment string) bool {
	return len(segment) > 0 && strings.Trim(segment, "-_./:@#+'") == ""
}

// run appends the terms of one run: stretches with and without spaces between words are told apart by script.
func (a analyzer) run(terms []string, run string) []string {
	for {
		n := strings.IndexFunc(run, isTermRune)
		if n < 0 {
			return terms
		}
		run = run[n:]
		first, _ := utf8.DecodeRuneInString(run)
		spaceless := isSpaceless(first)
		end := strings.IndexFunc(run, func(r rune) bool { return !unicode.IsMark(r) && isSpaceless(r) != spaceless })
		if end < 0 {
			end = len(run)
		}
		if spaceless {
			terms = grams(terms, run[:end])
		} else {
			terms = a.words(terms, run[:end])
		}
		run = run[end:]
	}
}

// isSpaceless says that the script of r is written without spaces between words (or, Hangul, with long compounds).
func isSpaceless(r rune) bool {
	return r >= 0x0e00 && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

// grams appends every character, with the marks that belong to it, and every pair of neighbours.
func grams(terms []string, run string) []string {
	previous := ""
	for run != "" {
		_, size := utf8.DecodeRuneInString(run)
		for size < len(run) {
			r, n := utf8.DecodeRuneInString(run[size:])
			if !unicode.IsMark(r) {
				break
			}
			size += n
		}
		if previous != "" {
			terms = appendTerm(terms, previous+run[:size])
		}
		previous, run = run[:size], run[size:]
		terms = appendTerm(terms, previous)
	}
	return terms
}

// words appends the terms of a run such as well-known, can't, err-4042, foo.bar_baz or c++.
func (a analyzer) words(terms []string, run string) []string {
	run = strings.TrimRight(run, "-_./:@'")
	whole := strings.TrimRight(run, "-_./:@#+'")
	parts := strings.FieldsFunc(whole, func(r rune) bool { return r != '\'' && !isTermRune(r) })
	switch sign := run[len(whole):]; {
	case (sign == "++" || sign == "#") && len(parts) == 1 && len(whole) <= 8:
		terms = appendTerm(terms, whole+sign) // c++, c#, notepad++
	case len(parts) > 1 && isNumeric(whole):
		return appendTerm(terms, strings.ReplaceAll(whole, ",", "")) // 10.0.0.1, 1,000, 3.14
	case len(parts) > 1 && isIdentifier(whole):
		terms = appendTerm(terms, canonical(whole))
	}
	for _, part := range parts {
		if part = strings.Trim(part, "'"); part == "" {
			continue
		}
		if strings.IndexFunc(part, unicode.IsNumber) < 0 {
			part = a.word(part)
		}
		terms = appendTerm(terms, part)
	}
	return terms
}

func isNumeric(run string) bool {
	return strings.IndexFunc(run, func(r rune) bool { return !unicode.IsNumber(r) && r != '.' && r != ',' }) < 0
}

// isIdentifier tells names of things from words that only stand together, like well-known or and/or.
func isIdentifier(run string) bool {
	return strings.IndexFunc(run, unicode.IsNumber) >= 0 || strings.ContainsAny(run, "_.@") || strings.Contains(run, "::")
}

// canonical is the whole of an identifier: with a digit in it people leave the hyphen out as often as not (XR-2207, XR2207).
func canonical(run string) string {
	if strings.IndexFunc(run, unicode.IsNumber) >= 0 && strings.IndexFunc(run, unicode.IsLetter) >= 0 {
		return strings.ReplaceAll(run, "-", "")
	}
	return run
}

func appendTerm(terms []string, term string) []string {
	if len(term) > maxTermBytes {
		term = term[:maxTermBytes]
		for !utf8.ValidString(term) {
			term = term[:len(term)-1]
		}
	}
	if term == "" {
		return terms
	}
	return append(terms, term)
}

// englishStops is the stop list that snowball publishes. It holds the words that questions are made of (what, how, does):
// in manuals and code these are rare, so that BM25 would take them for the subject.
var englishStops = func() map[string]bool {
	stops := map[string]bool{}
	for _, w := range strings.Fields(
		"i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers " +
			"herself it its itself they them their theirs themselves what which who whom this that these those am is " +
			"are was were be been being have has had having do does did doing would should could ought i'm you're he's " +
			"she's it's we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll he'll " +
			"she'll we'll they'll isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't " +
			"shan't shouldn't can't cannot couldn't mustn't let's that's who's what's here's there's when's where's " +
			"why's how's a an the and but if or because as until while of at by for with about against between into " +
			"through during before after above below to from up down in out on off over under again further then once " +
			"here there when where why how all any both each few more most other some such no nor not only own same so " +
			"than too very can will") {
		stops[w] = true
	}
	return stops
}()

func englishWord(word string) string {
	if englishStops[word] {
		return ""
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}
