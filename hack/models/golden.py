"""Writes internal/embed/testdata/minilm-f32.json: f32 vectors of our own sentences, for the Go encoder's tests.

usage: golden.py SENTENCES OUT
SENTENCES holds one JSON string a line. Texts of more than 256 tokens are made here by joining them.
"""
import base64
import json
import sys

import numpy as np

from minilm import MAX_TOKENS, Reference, sequence, tokenizer

TOKEN_VECTORS_UP_TO = 10  # tokens; longer texts carry the sentence vector alone, which keeps the file small


def packed(x):
    """Numbers in [-1, 1] as base64 of little-endian int16, x = v / 32767: an error of 1.6e-5 at most."""
    return base64.b64encode(np.rint(np.asarray(x) * 32767).astype("<i2").tobytes()).decode()


def main(sentences, out):
    texts = [json.loads(line) for line in open(sentences, encoding="utf8")]
    texts += [" ".join(texts[i::3]) for i in range(3)] + [" ".join(texts), texts[0] + " " + "again and again, " * 120]
    encode, model, rows = tokenizer(), Reference(), []
    for text in texts:
        ids = encode.encode(text, add_special_tokens=False).ids
        cut = sequence(ids)
        row = {"text": text, "tokens": len(ids), "vector": packed(model.sentence(cut))}
        if len(ids) <= TOKEN_VECTORS_UP_TO:
            row["tokenVectors"] = packed(model.tokens(cut))
        rows.append(row)
    with open(out, "w", encoding="utf8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=True) for r in rows) + "\n]\n")
    long = sum(r["tokens"] > MAX_TOKENS - 2 for r in rows)
    print(f"{out}: {len(rows)} texts, {long} of them cut at {MAX_TOKENS} tokens")


main(*sys.argv[1:])
