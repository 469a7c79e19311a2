package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"
	index "github.com/blevesearch/bleve_index_api"
)

// other is bleve at its best: BM25 scores, one merged segment written by its offline builder, neither stored text nor
// positions nor a composite field, and the filter as the clause that it does not score.
type other struct {
	index bleve.Index
	dir   string
}

func blevesMapping() (*mapping.IndexMappingImpl, error) {
	m := bleve.NewIndexMapping()
	m.ScoringModel = index.BM25Scoring
	if err := m.AddCustomAnalyzer("words", map[string]any{"type": custom.Name, "tokenizer": whitespace.Name}); err != nil {
		return nil, err
	}
	field := func(analyzer string) *mapping.FieldMapping {
		f := bleve.NewTextFieldMapping()
		f.Analyzer, f.Store, f.IncludeInAll, f.IncludeTermVectors, f.DocValues = analyzer, false, false, false, false
		return f
	}
	document := bleve.NewDocumentStaticMapping()
	document.AddFieldMappingsAt("text", field("words"))
	document.AddFieldMappingsAt("filter", field(keyword.Name))
	m.DefaultMapping = document
	return m, nil
}

// newBleve indexes the first documents; a document carries the name of each filter that allows it.
func newBleve(documents int, filters map[string][]bool, progress func(done int)) (*other, error) {
	dir, err := os.MkdirTemp("", "bench-engine-")
	if err != nil {
		return nil, err
	}
	o := &other{dir: dir}
	if err := o.build(filepath.Join(dir, "index"), documents, filters, progress); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *other) build(path string, documents int, filters map[string][]bool, progress func(done int)) error {
	m, err := blevesMapping()
	if err != nil {
		return err
	}
	builder, err := bleve.NewBuilder(path, m, map[string]any{"batchSize": 10_000, "mergeMax": 100, "buildPathPrefix": o.dir})
	if err != nil {
		return err
	}
	done := 0
	generate(documents, func(words []uint32) {
		var names []string
		for name, visible := range filters {
			if visible[done] {
				names = append(names, name)
			}
		}
		if e := builder.Index(strconv.Itoa(done), map[string]any{"text": question(words).String(), "filter": names}); e != nil && err == nil {
			err = fmt.Errorf("bleve: document %d: %w", done, e)
		}
		if done++; done%10_000 == 0 {
			progress(done)
		}
	})
	if e := builder.Close(); err == nil {
		err = e
	}
	if err == nil {
		o.index, err = bleve.OpenUsing(path, map[string]any{"read_only": true})
	}
	return err
}

// request is made beforehand, so that its making is not measured. An empty filter allows all.
func (o *other) request(q question, filter string) *bleve.SearchRequest {
	match := bleve.NewMatchQuery(q.String())
	match.SetField("text")
	var asked query.Query = match
	if filter != "" {
		allow := bleve.NewTermQuery(filter)
		allow.SetField("filter")
		both := bleve.NewBooleanQuery()
		both.AddMust(match)
		both.AddFilter(allow)
		asked = both
	}
	return bleve.NewSearchRequestOptions(asked, top, 0, false)
}

func (o *other) close() {
	if o.index != nil {
		_ = o.index.Close()
	}
	_ = os.RemoveAll(o.dir)
}
