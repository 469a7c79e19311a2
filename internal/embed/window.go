package embed

// Passage is a text in two parts: what it is about, such as a title or the path of headings, and what it says.
type Passage struct{ Head, Body string }

// Windows says how a passage is cut: its body into equal parts of at most Size tokens, at most Most of them (what is behind
// is left out), each behind at most Head tokens of the head.
type Windows struct{ Size, Most, Head int }

// cut returns the tokens of each window; none where the passage has no token at all.
func (w Windows) cut(t *tokenizer, p Passage) (out [][]int32) {
	head := append([]int32(nil), t.first(p.Head, w.Head)...)
	body := t.first(p.Body, w.Size*w.Most)
	if len(head)+len(body) == 0 {
		return nil
	}
	n := max(1, (len(body)+w.Size-1)/w.Size)
	for i := range n {
		part := body[i*len(body)/n : (i+1)*len(body)/n]
		out = append(out, append(append(make([]int32, 0, len(head)+len(part)), head...), part...))
	}
	return out
}
