package rerank

import (
	"encoding/json"
	"fmt"

	"quarry.dev/quarry/api/v1alpha1"
)

// dialect is how one kind of server is asked. None is asked for the best n only, because every passage needs its score.
type dialect struct {
	// path of the request, below the URL of the server.
	path string
	// request is the JSON body. What is too long for the model shall be cut by the server, not refused.
	request func(model, query string, passages []string) any
	// bare answers are the list of results itself; others hold it in "results".
	bare bool
	// info tells that GET /info says how many passages may be sent at once.
	info bool
}

// genericRequest is what Cohere, Jina, vLLM and Infinity have in common.
type genericRequest struct {
	Model     string   `json:"model"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
	// ReturnDocuments is false for those that know it, so that an answer holds no text.
	ReturnDocuments *bool `json:"return_documents,omitempty"`
	// TruncatePromptTokens is -1, the model's own limit, for vLLM: without it a text that is too long is an error.
	TruncatePromptTokens int `json:"truncate_prompt_tokens,omitempty"`
}

type teiRequest struct {
	Query      string   `json:"query"`
	Texts      []string `json:"texts"`
	RawScores  bool     `json:"raw_scores"`
	ReturnText bool     `json:"return_text"`
	Truncate   bool     `json:"truncate"`
}

var dialects = map[v1alpha1.RerankAPI]dialect{
	// Cohere cuts long documents by itself, and returns no text in v2.
	v1alpha1.RerankAPICohere: {path: "/v2/rerank", request: func(model, query string, passages []string) any {
		return genericRequest{Model: model, Query: query, Documents: passages}
	}},
	v1alpha1.RerankAPITEI: {path: "/rerank", bare: true, info: true, request: func(_, query string, passages []string) any {
		return teiRequest{Query: query, Texts: passages, Truncate: true}
	}},
	v1alpha1.RerankAPIJina:     {path: "/v1/rerank", request: withoutDocuments},
	v1alpha1.RerankAPIInfinity: {path: "/rerank", request: withoutDocuments},
	v1alpha1.RerankAPIVLLM: {path: "/v1/rerank", request: func(model, query string, passages []string) any {
		return genericRequest{Model: model, Query: query, Documents: passages, TruncatePromptTokens: -1}
	}},
}

func withoutDocuments(model, query string, passages []string) any {
	return genericRequest{Model: model, Query: query, Documents: passages, ReturnDocuments: new(bool)}
}

// result is one item of an answer; pointers, because an absent number must not pass for 0.
type result struct {
	Index          *int     `json:"index"`
	Score          *float64 `json:"score"`
	RelevanceScore *float64 `json:"relevance_score"`
}

// decode reads the scores of n passages, in whatever order they come: each exactly once, each finite. The error holds
// nothing of the answer.
func (d dialect) decode(data []byte, n int) ([]float64, error) {
	var results []result
	var err error
	if d.bare {
		err = json.Unmarshal(data, &results)
	} else {
		var wrapped struct {
			Results []result `json:"results"`
		}
		err = json.Unmarshal(data, &wrapped)
		results = wrapped.Results
	}
	if err != nil {
		return nil, fmt.Errorf("it is no JSON of this API")
	}
	if len(results) != n {
		return nil, fmt.Errorf("it holds %d results for %d passages", len(results), n)
	}
	scores, seen := make([]float64, n), make([]bool, n)
	for i, r := range results {
		score := r.RelevanceScore
		if d.bare {
			score = r.Score
		}
		switch {
		case r.Index == nil || score == nil:
			return nil, fmt.Errorf("result %d lacks its index or its score", i)
		case *r.Index < 0 || *r.Index >= n:
			return nil, fmt.Errorf("result %d has an index outside of 0 to %d", i, n-1)
		case seen[*r.Index]:
			return nil, fmt.Errorf("index %d comes twice", *r.Index)
		}
		scores[*r.Index], seen[*r.Index] = *score, true
	}
	return scores, Check(scores, n)
}
