package hostile

import "strings"

// kinds are the ways to be hostile; each writes a few dozen code points.
var kinds = []func(*writer){
	words, block, anything, accents, eastAsian, jamo, emoji, invisible, longWord, rightToLeft,
	digits, signs, marksOfModels, cases, southAsian, lookalikes, identifiers, white,
}

var syllables = strings.Fields(`a e i o u un re in dis over under able ing ed er est ness ment tion ly ful less ous al ic ize ist th
 st ch sh str ph qu the and of to for with on at by from house water light time year day man world work hand part place case point
 number group problem fact play run move live believe hold bring happen write provide sit stand lose pay meet include continue set
 learn change lead watch follow stop create speak read allow add spend grow open walk win offer remember love consider appear buy
 wait serve die send expect build stay fall cut reach kill remain`)

func words(w *writer) {
	for range 3 + w.IntN(25) {
		start := w.Len()
		w.word(1, 4)
		if s := w.String()[start:]; w.IntN(8) == 0 {
			w.WriteString(strings.ToUpper(s))
		}
		w.WriteString(w.oneOf(" ", " ", " ", ", ", ". ", "'s ", "-", "  ", "; "))
	}
}

// block stays within 128 neighbouring code points of the planes that hold letters, as real scripts do.
func block(w *writer) {
	first := w.Int32N(0x3400/128) * 128
	switch w.IntN(4) {
	case 0:
		first = 0xa000 + w.Int32N((0x10000-0xa000)/128)*128
	case 1:
		first = 0x10000 + w.Int32N(0x10000/128)*128
	}
	w.some(5+w.IntN(50), 15, []span{{first, first + 127}, {first, first + 127}, {'a', 'z'}})
}

func anything(w *writer) { w.some(5+w.IntN(40), 20, []span{{0, 0x10ffff}, {0, 0xffff}, {0, 0x2fff}}) }

var combining = []span{{0x300, 0x36f}, {0x300, 0x345}, {0x483, 0x489}, {0x591, 0x5c7}, {0x64b, 0x65f}, {0x6d6, 0x6ed}, {0x898, 0x8ff}, {0x93a, 0x94d},
	{0xe31, 0xe4e}, {0x1ab0, 0x1ace}, {0x1dc0, 0x1dff}, {0x20d0, 0x20f0}, {0x302a, 0x302f}, {0x3099, 0x309a}, {0xa66f, 0xa67d}, {0xfe00, 0xfe2f}, {0x1d165, 0x1d1ad}, {0xe0100, 0xe01ef}}

// accents puts up to nine marks, in any order, on precomposed and plain letters.
func accents(w *writer) {
	letters := []span{{'a', 'z'}, {'A', 'Z'}, {0xc0, 0x24f}, {0x1e00, 0x1eff}, {0x1f00, 0x1fff}, {0x386, 0x3ce}, {0x400, 0x45f}}
	for range 4 + w.IntN(30) {
		w.from(letters)
		if w.IntN(3) == 0 {
			w.some(1+w.IntN(9), 2, combining)
		}
		if w.IntN(6) == 0 {
			w.WriteByte(' ')
		}
	}
}

func eastAsian(w *writer) {
	w.some(4+w.IntN(40), 5, []span{{0x4e00, 0x9fff}, {0x4e00, 0x5fff}, {0x3040, 0x30ff}, {0x3000, 0x303f}, {0xac00, 0xd7a3}, {0x3400, 0x4dc0}, {0xf900, 0xfaff},
		{0xff00, 0xffef}, {0x20000, 0x323af}, {0x2a6d0, 0x2a710}, {0x2b730, 0x2b930}, {0x2cea0, 0x2ceb0}, {0x2f800, 0x2fa1f}, {0x3100, 0x33ff}, {0x2e80, 0x2fdf}, {'a', 'z'}})
}

// jamo writes Hangul by its parts, which compose, and out of order, where they do not.
func jamo(w *writer) {
	for range 3 + w.IntN(20) {
		if w.IntN(4) == 0 {
			w.some(3, 0, []span{{0x1100, 0x11ff}, {0xa960, 0xa97c}, {0xd7b0, 0xd7fb}})
			continue
		}
		w.from([]span{{0x1100, 0x1112}})
		w.from([]span{{0x1161, 0x1175}})
		if w.IntN(2) == 0 {
			w.from([]span{{0x11a8, 0x11c2}})
		}
		w.WriteString(w.oneOf("", "", "", " ", "\u0301", "\u200b"))
	}
}

func emoji(w *writer) {
	pictures := []span{{0x1f300, 0x1faff}, {0x1f600, 0x1f64f}, {0x2600, 0x27bf}, {0x1f1e6, 0x1f1ff}}
	for range 2 + w.IntN(15) {
		w.from(pictures)
		switch w.IntN(6) {
		case 0:
			w.WriteRune(0xfe0f)
		case 1:
			w.from([]span{{0x1f3fb, 0x1f3ff}})
		case 2:
			w.WriteRune(0x200d)
			w.from(pictures)
		case 3:
			w.WriteString(w.oneOf("1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u2640\ufe0f"))
		}
		if w.IntN(4) == 0 {
			w.word(1, 2)
		}
	}
}

// invisible hides control characters, zero-width ones, private and non-characters within and between words.
func invisible(w *writer) {
	hidden := []span{{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xffff}, {0xe000, 0xf8ff},
		{0x600, 0x605}, {0x180b, 0x180e}, {0x1d173, 0x1d17a}, {0xe0001, 0xe007f}, {0xf0000, 0x10ffff}, {0xfdd0, 0xfdef}, {0x13430, 0x1343f}}
	for range 4 + w.IntN(25) {
		w.word(0, 1)
		w.some(w.IntN(3), 0, hidden)
		w.WriteString(w.oneOf("", "", " "))
	}
}

// longWord is about as long as the longest word that is still looked up (100 code points), or far longer, with things in it
// that vanish before it is measured.
func longWord(w *writer) {
	n := 95 + w.IntN(10)
	if w.IntN(20) == 0 {
		n = 200 + w.IntN(4000)
	}
	spans := [][]span{{{'a', 'z'}}, {{'A', 'Z'}, {0xc0, 0xff}}, {{0x3b1, 0x3c9}}, {{0x430, 0x44f}, {'a', 'z'}}, {{0xac00, 0xd7a3}}}[w.IntN(5)]
	for range n {
		w.from(spans)
		switch w.IntN(60) {
		case 0:
			w.from(combining)
		case 1:
			w.WriteString(w.oneOf("\u00ad", "\u200d", "\x00"))
		}
	}
	w.WriteString(w.oneOf("", " end", "!"))
}

func rightToLeft(w *writer) {
	w.some(5+w.IntN(50), 20, []span{{0x5d0, 0x5ea}, {0x591, 0x5f4}, {0x621, 0x64a}, {0x600, 0x6ff}, {0x750, 0x77f}, {0x8a0, 0x8ff}, {0xfb1d, 0xfdff}, {0xfe70, 0xfeff},
		{0x700, 0x74f}, {0x7c0, 0x7fa}, {0x840, 0x86a}, {0x1e900, 0x1e95f}, {0x1ee00, 0x1eef1}})
}

func digits(w *writer) {
	numerals := []span{{'0', '9'}, {'0', '9'}, {'0', '9'}, {0x660, 0x669}, {0x966, 0x96f}, {0xff10, 0xff19}, {0x2150, 0x218b}, {0x2460, 0x24ff}, {0xb2, 0xb9}, {0x2070, 0x2089},
		{0x1d7ce, 0x1d7ff}, {0x1f100, 0x1f10c}, {0x3220, 0x3243}}
	for range 3 + w.IntN(20) {
		w.some(1+w.IntN(6), 0, numerals)
		w.WriteString(w.oneOf(" ", ".", ",", ":", "/", "-", "%", " °C ", "e+", "€", "½", "x"))
	}
}

func signs(w *writer) {
	w.some(5+w.IntN(60), 10, []span{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}, {0xa1, 0xbf}, {0x2010, 0x205e}, {0x20a0, 0x20c0}, {0x2190, 0x23ff}, {0x2500, 0x27ff}, {0x2900, 0x2bff},
		{0x2e00, 0x2e5d}, {0x3000, 0x3030}, {0xfe10, 0xfe6b}, {0xff01, 0xff65}, {0x104a, 0x104f}, {0x1360, 0x1368}, {0x10a50, 0x10a58}, {0x12470, 0x12474}, {'a', 'z'}})
}

// marksOfModels writes what a tokenizer could take for its own marks.
func marksOfModels(w *writer) {
	for range 2 + w.IntN(12) {
		w.WriteString(w.oneOf("[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "[unused1]", "[sep]", "[ SEP ]", "[SE\u00adP]", "[[CLS]]", "[SEP", "SEP]", "##ing", "##", "# # s", "<s>", "</s>", "<|end|>", "[SEP\u0301]", "▁", "Ġ"))
		w.WriteString(w.oneOf("", " ", "a", "\n"))
		w.word(0, 1)
	}
}

func cases(w *writer) {
	for range 4 + w.IntN(20) {
		w.WriteString(w.oneOf("İstanbul", "ılık", "ΣΊΣΥΦΟΣ", "ὈΔΥΣΣΕΎΣ", "ẞ", "Straße", "Ǆǅǆ", "ŉ", "ﬁﬀ", "ＡＢＣ", "\u212a", "\u212b", "\u2126", "ⒶⓏ", "Ⅷ", "Ꭰꭰ", "𐐀𐐨", "ᲐᲑა", "\u0345", "ᾼ", "Ȿ", "ᲀ", "𞤀", "𝐀𝕬", "Ƛ", "ɤɥ", "ꟋꟚ", "Σ", "ς", "I\u0307", "ǰ"))
		w.WriteString(w.oneOf("", "", " ", "s"))
	}
	w.some(w.IntN(10), 10, []span{{0x370, 0x52f}, {0x10a0, 0x10ff}, {0x13a0, 0x13fd}, {0x1c80, 0x1cbf}, {0x2c00, 0x2d2d}, {0xa640, 0xa69f}, {0xa720, 0xa7ff}, {0xab30, 0xabbf}, {0x10400, 0x104ff}, {0x118a0, 0x118df}})
}

func southAsian(w *writer) {
	scripts := []rune{0x900, 0x980, 0xa00, 0xa80, 0xb00, 0xb80, 0xc00, 0xc80, 0xd00, 0xd80, 0xe00, 0xe80, 0xf00, 0xf80, 0x1000, 0x1200, 0x1780, 0x1a20, 0x1b00, 0xa980, 0xaa00, 0x11000, 0x11100}
	first := scripts[w.IntN(len(scripts))]
	w.some(5+w.IntN(40), 12, []span{{first, first + 0x7f}, {first + 5, first + 0x39}, {first + 0x3c, first + 0x4d}, {0x200c, 0x200d}})
}

// lookalikes are characters with canonical or compatibility decompositions, signs that decompose to ASCII among them.
func lookalikes(w *writer) {
	w.some(5+w.IntN(40), 10, []span{{0x2c6, 0x2dd}, {0x340, 0x345}, {0x374, 0x387}, {0x1fbd, 0x1ffe}, {0x2000, 0x200a}, {0x2100, 0x214f}, {0x2200, 0x22ff}, {0x2a00, 0x2aff}, {0x226e, 0x2271},
		{0xfb00, 0xfb06}, {0xfb1d, 0xfb4f}, {0x1d400, 0x1d7ff}, {0xff21, 0xff5a}, {0x2329, 0x232a}, {'a', 'z'}})
}

func identifiers(w *writer) {
	for range 2 + w.IntN(10) {
		w.word(1, 2)
		w.WriteString(w.oneOf("_", ".", "()", "::", "->", "/", "\\", "=", "+=", "[0]", "{}", "<T>", "@", "#", "$", "%20", "&&", "://", "\t", "  ", "\r\n"))
	}
}

func white(w *writer) {
	for range 3 + w.IntN(20) {
		w.word(0, 1)
		w.from([]span{{'\t', '\r'}, {' ', ' '}, {0x1c, 0x1f}, {0x85, 0x85}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200b}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x2060}, {0x3000, 0x3000}})
	}
}
