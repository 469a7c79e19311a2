package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/search"
)

// Vary searches the same index by another recipe, with other parameters of BM25 as well, which an index does not depend on.
// It shares what With shares. All Stacks that come of one by Vary remember together what their retrievers answered, so that
// another fusion of the same candidates costs next to nothing.
func (s *Stack) Vary(ctx context.Context, bm25 v1alpha1.BM25Spec, retrieval v1alpha1.RetrievalSpec) (*Stack, error) {
	if analyzer := s.built.Config.Indexing.BM25.Analyzer; bm25.Analyzer != analyzer {
		return nil, fmt.Errorf("indexing.bm25.analyzer is %q: this index was built with %q", bm25.Analyzer, analyzer)
	}
	if s.memory == nil {
		s.memory = &memory{rankers: map[string]*remembering{}}
	}
	other := *s
	other.built.Config.Indexing.BM25, other.built.Recipe.Indexing.BM25 = bm25, bm25
	other.built.Config.Retrieval, other.built.Recipe.Retrieval = retrieval, retrieval
	return &other, other.start(ctx)
}

// memory holds what rankers answered, per role and parameters.
type memory struct {
	mu      sync.Mutex
	rankers map[string]*remembering
}

// wrap lets a ranker remember, where there is a memory.
func (m *memory) wrap(role identity.Role, spec v1alpha1.BM25Spec, ranker search.Ranker) search.Ranker {
	if m == nil {
		return ranker
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := string(role)
	if role == identity.RoleBM25 {
		key += fmt.Sprintf(" %+v", spec)
	}
	if m.rankers[key] == nil {
		m.rankers[key] = &remembering{Ranker: ranker, rankings: map[asked]search.Ranking{}, scores: map[asked]map[uint32]float64{}}
	}
	return m.rankers[key]
}

// asked is a question to a ranker; allow is the checksum of the allow set. k is 0 where chunks are scored.
type asked struct {
	query string
	allow uint64
	k     int
}

// remembering is a search.Ranker that answers each question once. Its callers do not change what they get.
type remembering struct {
	search.Ranker
	mu       sync.Mutex
	rankings map[asked]search.Ranking
	scores   map[asked]map[uint32]float64
}

func (r *remembering) Search(query string, allow *roaring.Bitmap, k int) (search.Ranking, error) {
	key := asked{query, allow.Checksum(), k}
	r.mu.Lock()
	known, ok := r.rankings[key]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	found, err := r.Ranker.Search(query, allow, k)
	if err == nil {
		r.mu.Lock()
		r.rankings[key] = found
		r.mu.Unlock()
	}
	return found, err
}

// Score asks for the chunks alone that were not scored before.
func (r *remembering) Score(query string, allow *roaring.Bitmap, chunks []uint32) ([]float64, error) {
	key := asked{query: query, allow: allow.Checksum()}
	out := make([]float64, len(chunks))
	var unknown []uint32
	var at []int
	r.mu.Lock()
	known := r.scores[key]
	for i, c := range chunks {
		var ok bool
		if out[i], ok = known[c]; !ok {
			unknown, at = append(unknown, c), append(at, i)
		}
	}
	r.mu.Unlock()
	if len(unknown) == 0 {
		return out, nil
	}
	scores, err := r.Ranker.Score(query, allow, unknown)
	if err != nil || len(scores) != len(unknown) {
		return scores, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scores[key] == nil {
		r.scores[key] = map[uint32]float64{}
	}
	for i, c := range unknown {
		r.scores[key][c], out[at[i]] = scores[i], scores[i]
	}
	return out, nil
}
