package local

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/bm25"
	"quarry.dev/quarry/internal/embed"
	"quarry.dev/quarry/internal/hnsw"
	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/rerank"
	"quarry.dev/quarry/internal/search"
)

// snippetRunes bounds what is shown of a passage.
const snippetRunes = 320

// Show prints an answer for a person: where each passage stands, and the part of it that shares most words with the
// question, those words in bold where bold is asked for.
func (s *Stack) Show(w io.Writer, query string, r *search.Response, bold bool) {
	mark := marker{analyzer: s.loaded.BM25[0].Analyzer(), wanted: map[string]bool{}, bold: bold}
	for _, term := range mark.analyzer.Terms(query) {
		mark.wanted[term] = true
	}
	if len(r.Hits) == 0 {
		fmt.Fprintln(w, "Nothing found that this reader may see.")
	}
	for i, h := range r.Hits {
		place := []string{mark.strong(Printable(h.Document))}
		for _, heading := range h.Headings {
			place = append(place, Printable(heading))
		}
		fmt.Fprintf(w, "%d. %s", i+1, strings.Join(place, " > "))
		if h.Page > 0 {
			fmt.Fprintf(w, ", page %d", h.Page)
		}
		fmt.Fprintf(w, "  %.3f\n", h.Score)
		fmt.Fprintf(w, "   %s\n", mark.words(mark.snippet(h.Text)))
		if h.Ranks != nil {
			fmt.Fprintf(w, "   %s\n", explainHit(h, r.Reranked))
		}
	}
}

func explainHit(h search.Hit, reranked bool) string {
	rank := func(n int) string {
		if n == 0 {
			return "not among the candidates"
		}
		return fmt.Sprintf("rank %d", n)
	}
	text := fmt.Sprintf("bm25 %s, score %.3f; hnsw %s, cosine %.3f; fused rank %d", rank(h.Ranks.BM25), h.Scores.BM25, rank(h.Ranks.HNSW), h.Scores.HNSW, h.Ranks.Fused)
	if reranked {
		text += fmt.Sprintf("; reranker %s, score %.3f", rank(h.Ranks.Rerank), h.Scores.Rerank)
	}
	return text
}

// Explain says how the last answer came about: the weights of the stages, and how the vectors were searched. It tells of
// documents that a reader may not see, so it is for whoever built the index.
func (s *Stack) Explain() (string, error) {
	retrieval, embedding := s.built.Config.Retrieval, s.built.Config.Indexing.Embedding
	facts, err := embed.Describe(embedding.Model)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	plans, _ := s.retrievers[identity.RoleHNSW].LastPlan().([]hnsw.Plan)
	fmt.Fprintf(&out, "vectors: %s, %s\n", facts.Name, explainPlans(plans))
	if retrieval.Fusion.Type == v1alpha1.FusionReciprocalRank {
		fmt.Fprintf(&out, "fusion: reciprocal ranks\n")
	} else {
		weight := retrieval.Fusion.DenseWeight
		if weight == "" {
			weight = fmt.Sprintf("%g", facts.DenseWeight)
		}
		fmt.Fprintf(&out, "fusion: %s of the cosine, and the rest of BM25 divided by the most that the question could reach\n", weight)
	}
	r, err := rerank.ParseRecipe(retrieval.Rerank)
	if err != nil {
		return "", err
	}
	switch {
	case !r.On():
		fmt.Fprintln(&out, "rerank: none")
	case r.NeedsBM25():
		fmt.Fprintf(&out, "rerank: %s by %s over the best %d, %g of its score and the rest of BM25\n", r.Type, r.Model, r.Candidates, r.DenseWeight)
	default:
		fmt.Fprintf(&out, "rerank: %s over the best %d\n", r.Type, r.Candidates)
	}
	return out.String(), nil
}

// explainPlans tells segment from segment where there is more than one.
func explainPlans(plans []hnsw.Plan) string {
	if len(plans) == 0 {
		return explainPlan(hnsw.Plan{})
	}
	if len(plans) == 1 {
		return explainPlan(plans[0])
	}
	var out []string
	for i, p := range plans {
		out = append(out, fmt.Sprintf("segment %d: %s", i+1, explainPlan(p)))
	}
	return strings.Join(out, "; ")
}

func explainPlan(p hnsw.Plan) string {
	switch p.Branch {
	case hnsw.Exact:
		return fmt.Sprintf("all %d vectors that this reader may see were compared, because so few are as quick to scan", p.Allowed)
	case hnsw.Graph:
		return fmt.Sprintf("the graph was walked: %d vectors on its way were compared, while this reader may see %d", p.Visited, p.Allowed)
	case hnsw.ExactNearby:
		return fmt.Sprintf("all %d vectors that this reader may see were compared, because hardly any of those nearest to the question is among them", p.Allowed)
	case hnsw.GraphThenExact:
		return fmt.Sprintf("the graph was walked and gave too little, so all %d vectors that this reader may see were compared", p.Allowed)
	}
	return "not searched: the question has no word that the model knows, or this reader may see nothing"
}

// marker finds the words of a question in a text, as the lexical index does.
type marker struct {
	analyzer bm25.Analyzer
	wanted   map[string]bool
	bold     bool
}

func (m marker) strong(text string) string {
	if !m.bold {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// matches lists the wanted terms of a text.
func (m marker) matches(text string) map[string]bool {
	found := map[string]bool{}
	for _, term := range m.analyzer.Terms(text) {
		if m.wanted[term] {
			found[term] = true
		}
	}
	return found
}

// words marks every word that matches, and puts the text on one line.
func (m marker) words(text string) string {
	var out strings.Builder
	state := -1
	for text != "" {
		var word string
		word, text, state = uniseg.FirstWordInString(text, state)
		if len(m.matches(word)) > 0 {
			word = m.strong(word)
		}
		out.WriteString(word)
	}
	return out.String()
}

// snippet is the sentence that shares the most words with the question, and what fits around it.
func (m marker) snippet(text string) string {
	var sentences []string
	best, most, state := 0, -1, -1
	for rest := Printable(text); rest != ""; {
		var sentence string
		sentence, rest, state = uniseg.FirstSentenceInString(rest, state)
		if n := len(m.matches(sentence)); n > most {
			best, most = len(sentences), n
		}
		sentences = append(sentences, sentence)
	}
	if len(sentences) == 0 {
		return ""
	}
	from, to, left := best, best+1, snippetRunes-utf8.RuneCountInString(sentences[best])
	if left < 0 {
		return m.window(sentences[best])
	}
	for grown := true; grown; {
		grown = false
		if to < len(sentences) && utf8.RuneCountInString(sentences[to]) <= left {
			left -= utf8.RuneCountInString(sentences[to])
			to, grown = to+1, true
		}
		if from > 0 && utf8.RuneCountInString(sentences[from-1]) <= left {
			from--
			left -= utf8.RuneCountInString(sentences[from])
			grown = true
		}
	}
	return dots(from > 0) + strings.TrimSpace(strings.Join(sentences[from:to], "")) + dots(to < len(sentences))
}

// window cuts a long sentence around its first match.
func (m marker) window(sentence string) string {
	words := strings.Fields(sentence)
	first := 0
	for i, w := range words {
		if len(m.matches(w)) > 0 {
			first = i
			break
		}
	}
	from := max(0, first-8)
	out, n := "", 0
	to := from
	for ; to < len(words); to++ {
		if n += utf8.RuneCountInString(words[to]) + 1; n > snippetRunes && to > from {
			break
		}
		out += words[to] + " "
	}
	if runes := []rune(out); len(runes) > snippetRunes+1 { // one word without an end
		return dots(from > 0) + string(runes[:snippetRunes]) + dots(true)
	}
	return dots(from > 0) + strings.TrimSpace(out) + dots(to < len(words))
}

func dots(cut bool) string {
	if cut {
		return "…"
	}
	return ""
}

// Printable is a text, or a name, on one line, without what would move a terminal's cursor or turn the order of what
// follows: documents are written by others.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return ' '
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069: // embeddings, overrides and isolates (UAX #9)
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
