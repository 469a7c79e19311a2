// Package search answers questions: two retrievers, each of which filters by the caller's allow set before it scores, and
// a gateway that verifies the caller, fuses what the retrievers found, and checks every hit once more.
//
// Everything fails closed: without a verified principal, without fresh access data, or with a retriever that does not
// answer, there is an RFC 9457 problem and no hit. An answer depends on nothing that its reader may not see.
package search

import (
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// Bounds of a request.
const (
	// MaxQuery bounds a query, in characters (Unicode code points).
	MaxQuery = 10_000
	// MaxTopK bounds the returned passages.
	MaxTopK = 100
	// maxCandidates bounds what a retriever returns; as many again may be scored on request.
	maxCandidates = 1000
	// maxBody fits a query of MaxQuery characters, each escaped as a surrogate pair, in bytes.
	maxBody = 256 << 10
	// maxAnswer bounds what is read of a retriever's answer, in bytes.
	maxAnswer = 4 << 20
	// requestTimeout bounds the work for one request.
	requestTimeout = 10 * time.Second
)

// epochHeader carries the epoch of the gateway's access data to the retrievers.
const epochHeader = "Quarry-Epoch"

// Request is the body of POST /v1/search.
type Request struct {
	// Query is plain text of 1 to MaxQuery characters; nothing in it is syntax.
	Query string `json:"query"`
	// TopK passages are returned, 1 to MaxTopK; absent: what the recipe says.
	TopK *int `json:"topK,omitempty"`
	// Explain is "Ranks" for the ranks and scores of each stage; absent or "None" for none.
	Explain string `json:"explain,omitempty"`
}

// Response is the answer to POST /v1/search. It holds nothing that depends on documents which the caller may not read.
type Response struct {
	Tenant string `json:"tenant"`
	Index  string `json:"index"`
	// Reranked tells whether the order is that of the recipe's reranker; where the recipe has one, false means that it
	// failed and that the order is the fused one.
	Reranked bool  `json:"reranked"`
	Hits     []Hit `json:"hits"`
}

// Hit is one passage.
type Hit struct {
	Document string `json:"document"`
	// Chunk counts the passages of its document from 0.
	Chunk uint32 `json:"chunk"`
	// Start and End count Unicode code points of the document's text.
	Start    uint32    `json:"start"`
	End      uint32    `json:"end"`
	Headings []string  `json:"headings"`
	Page     int32     `json:"page"`
	Modified time.Time `json:"modified"`
	Text     string    `json:"text"`
	// Score decides the order, and may be compared within one answer alone: the fused score; or, where the answer is
	// reranked, the reranker's; or, for a passage behind its candidates, less than the least of those by 1 and by as much
	// as its fused score is below that of the last candidate.
	Score float64 `json:"score"`
	// Ranks and Scores are given for explain "Ranks" alone.
	Ranks  *Ranks  `json:"ranks,omitempty"`
	Scores *Scores `json:"scores,omitempty"`
}

// Ranks count from 1; 0 is a passage that was not among a retriever's candidates, or not reranked.
type Ranks struct {
	BM25   int `json:"bm25"`
	HNSW   int `json:"hnsw"`
	Fused  int `json:"fused"`
	Rerank int `json:"rerank"`
}

// Scores of the retrievers, BM25 and the cosine, and of the reranker alone.
type Scores struct {
	BM25   float64 `json:"bm25"`
	HNSW   float64 `json:"hnsw"`
	Rerank float64 `json:"rerank"`
}

// retrieveRequest is the body of POST /v1/retrieve.
type retrieveRequest struct {
	Query string `json:"query"`
	// K best chunks are returned, 0 to maxCandidates.
	K int `json:"k"`
	// Also lists chunks to score as well.
	Also []uint32 `json:"also,omitempty"`
}

// retrieveResponse is its answer: hits by (score descending, chunk ascending), and the scores of Also in its order.
type retrieveResponse struct {
	Index string     `json:"index"`
	Epoch int64      `json:"epoch"`
	Hits  []ChunkHit `json:"hits"`
	Also  []float64  `json:"also"`
	Bound float64    `json:"bound"`
}

// ChunkHit is a chunk by its number in the index, which no user ever sees.
type ChunkHit struct {
	Chunk uint32  `json:"chunk"`
	Score float64 `json:"score"`
}

// Ranking is what a Ranker found. Bound is the score that no visible chunk can pass (0: not bounded). Plan says how it was
// found; it tells of hidden documents, so it is for the admin port alone.
type Ranking struct {
	Hits  []ChunkHit
	Bound float64
	Plan  any
}

// Ranker is one way to rank the chunks of an index. No number that it returns may depend on chunks outside of allow. It is
// safe for concurrent use, and does not change allow.
type Ranker interface {
	// Search returns the k best chunks of allow.
	Search(query string, allow *roaring.Bitmap, k int) (Ranking, error)
	// Score scores these chunks of allow; others score 0.
	Score(query string, allow *roaring.Bitmap, chunks []uint32) ([]float64, error)
}
