package bm25

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/lang/ar"
	"github.com/blevesearch/bleve/v2/analysis/lang/de"
	"github.com/blevesearch/bleve/v2/analysis/lang/es"
	"github.com/blevesearch/bleve/v2/analysis/lang/fr"
	"github.com/blevesearch/bleve/v2/analysis/lang/hi"
	"github.com/blevesearch/bleve/v2/analysis/lang/in"
	"github.com/blevesearch/bleve/v2/analysis/lang/it"
	"github.com/blevesearch/bleve/v2/analysis/lang/nl"
	"github.com/blevesearch/bleve/v2/analysis/lang/pt"
	"github.com/blevesearch/bleve/v2/analysis/lang/ru"
	"github.com/blevesearch/bleve/v2/registry"
)

// filters of each language, applied to every word in this order. Light stemmers go where there are such: the snowball ones
// join words of different meaning.
var filters = map[string][]string{
	"arabic":     {ar.NormalizeName, ar.StopName, ar.StemmerName},
	"dutch":      {nl.StopName, nl.SnowballStemmerName},
	"french":     {fr.ElisionName, fr.StopName, fr.LightStemmerName},
	"german":     {de.StopName, de.NormalizeName, de.LightStemmerName},
	"hindi":      {in.NormalizeName, hi.NormalizeName, hi.StopName, hi.StemmerName},
	"italian":    {it.ElisionName, it.StopName, it.LightStemmerName},
	"portuguese": {pt.StopName, pt.LightStemmerName},
	"russian":    {ru.StopName, ru.SnowballStemmerName},
	"spanish":    {es.StopName, es.NormalizeName, es.LightStemmerName},
}

// words of each analyzer: the stem of a word, or "" for one that is not indexed.
var words = func() map[string]func(string) string {
	same := func(word string) string { return word }
	out := map[string]func(string) string{
		// Runs of a script without spaces are characters and pairs of characters for every analyzer; these two say so.
		"standard": same, "cjk": same, "thai": same,
		"english": englishWord,
	}
	cache := registry.NewCache()
	for language, names := range filters {
		out[language] = chain(cache, names)
	}
	return out
}()

// Analyzers are the names that NewAnalyzer knows, sorted.
func Analyzers() []string { return slices.Sorted(maps.Keys(words)) }

// chain applies filters to one word at a time. The names are constants of their packages: one that is unknown is a fault
// of this file, found by the first test that runs.
func chain(cache *registry.Cache, names []string) func(string) string {
	var chain []analysis.TokenFilter
	for _, name := range names {
		filter, err := cache.TokenFilterNamed(name)
		if err != nil {
			panic(fmt.Sprintf("bm25: filter %s: %v", name, err))
		}
		chain = append(chain, filter)
	}
	return func(word string) string {
		stream := analysis.TokenStream{{Term: []byte(word), Start: 0, End: len(word), Position: 1, Type: analysis.AlphaNumeric}}
		for _, filter := range chain {
			stream = filter.Filter(stream)
		}
		var out strings.Builder
		for _, token := range stream {
			out.Write(token.Term)
		}
		return out.String()
	}
}
