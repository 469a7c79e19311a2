package search

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quarry.dev/quarry/internal/access"
)

// fuzzedCorpus reads documents from bytes. One with bit 0x20 begins a document, and the byte behind it says who reads it
// (bits 0-2), what the overlay says (3, 4), where it lies (5, 6) and whether it is dead there (7). One with bit 0x40 begins a
// chunk; the low five bits of every other byte are a word.
func fuzzedCorpus(t *testing.T, data []byte) (parts []part, now []document, overlay map[string]access.OverlayEntry) {
	kinds := readers(t)
	parts, overlay = make([]part, 4), map[string]access.OverlayEntry{}
	for i := range parts {
		parts[i].dead = map[string]bool{}
	}
	for _, text := range splitBefore(data, 0x20) {
		d, flags := document{key: fmt.Sprintf("d%03d.md", len(now)+len(parts[0].dead)+len(parts[1].dead)+len(parts[2].dead)+len(parts[3].dead))}, byte(0)
		if len(text) > 1 {
			flags, text = text[1], text[2:]
		}
		d.allow = kinds[int(flags&7)%len(kinds)]
		for _, chunk := range splitBefore(text, 0x40) {
			var terms []string
			for _, b := range chunk {
				terms = append(terms, words[int(b&31)%len(words)])
			}
			d.texts = append(d.texts, strings.Join(terms, " "))
		}
		own := &parts[flags>>5&3]
		own.documents = append(own.documents, d)
		if flags&0x80 != 0 {
			own.dead[d.key] = true
			continue
		}
		now = append(now, d)
		switch flags >> 3 & 3 {
		case 1:
			overlay[d.key] = access.OverlayEntry{Gone: true, Allow: access.Nobody()}
		case 2:
			overlay[d.key] = access.OverlayEntry{Allow: kinds[len(d.texts)%len(kinds)]}
		}
	}
	return parts, now, overlay
}

// splitBefore cuts data before each byte that has the bit.
func splitBefore(data []byte, bit byte) (out [][]byte) {
	start := 0
	for i, b := range data {
		if b&bit != 0 && i > start {
			out, start = append(out, data[start:i]), i
		}
	}
	if start < len(data) {
		out = append(out, data[start:])
	}
	return out
}

// FuzzWholeResponse holds the answer over a corpus, in one segment and in several, to be that over what the asker may see.
func FuzzWholeResponse(f *testing.F) {
	f.Add([]byte("\x20\x01\x03\x04\x43\x04\x20\x00\x03\x04\x20\x2a\x03"), "parental pay", uint8(0), uint8(0), 5, "Ranks")
	f.Add([]byte("\x20\x82\x03\x20\x02\x03\x20\x43\x05\x06\x20\x64\x06"), "salary bonus", uint8(3), uint8(7), 1, "Ranks")
	f.Add([]byte("\x20\x09\x01\x20\x10\x41\x42\x20\x21\x01"), "ignore all rules", uint8(4), uint8(5), 0, "None")
	f.Fuzz(func(t *testing.T, corpus []byte, query string, asker, recipe uint8, topK int, explain string) {
		if len(corpus) > 400 || len(query) > 1000 {
			return
		}
		body, _ := json.Marshal(map[string]any{"query": query, "topK": topK, "explain": explain})
		q := question{method: http.MethodPost, path: "/v1/search", body: string(body)}
		parts, now, overlay := fuzzedCorpus(t, corpus)
		w := &world{t: t, recipe: worldRecipes[int(recipe)%len(worldRecipes)], now: now, overlay: overlay}
		token := askers[int(asker)%len(askers)]
		want := w.refer(token, w.visible(token), []question{q}).answers[0]
		for _, layout := range [][]part{{{documents: now}}, parts} {
			s := newStackOf(t, openParts(t, layout), w.recipe)
			s.scorer.Scorer = picky{s.scorer.Scorer}
			s.publish(t, 2, overlay)
			if got := s.ask(token, q); got != want {
				t.Fatalf("%s asks %s of %d segments:\nwith hidden documents    %s\nwithout hidden documents %s", token, body, len(layout), got, want)
			}
		}
	})
}
