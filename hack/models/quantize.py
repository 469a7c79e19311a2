"""Writes minilm-l6-v2-int8.safetensors: the transformer with int8 weights, laid out as the Go kernels read it.

usage: quantize.py OUT

Word embeddings: int8, one scale per row (`word.q`, `word.s`). Linear layers: symmetric int8, one scale per output channel,
`<layer>.<name>.q` in panels [outputs/64][inputs/4][64][4], so that one 64-byte load holds four inputs of sixteen outputs;
`<layer>.<name>.col` is f32 [3][outputs]: scale, sum of the dequantised weights (for activations with a zero point), bias.
Positions with the token type added (`pos`), layer norms (gain, then bias) in f32. `vocab` is vocab.txt.
The file is a safetensors file whose arrays all begin at multiples of 64 bytes: a load across cache lines costs time.
The format wants no gaps between arrays, so other readers may complain of them.
"""
import json
import sys

import numpy as np

from minilm import FOLDER, HEADS, HIDDEN, LAYERS, MAX_TOKENS, weights

LEVELS = 127  # symmetric int8; -128 is not used
PANEL, GROUP, ALIGN = 64, 4, 64
TYPES = {"int8": "I8", "uint8": "U8", "float32": "F32"}


def by_row(w):
    """[n, k] f32 -> int8 of the same shape and one scale per row, w = q * scale to within half a step."""
    scale = np.abs(w).max(1, keepdims=True) / LEVELS
    scale[scale == 0] = 1
    return np.rint(w / scale).astype(np.int8), scale[:, 0].astype(np.float32)


def linear(out, name, w, bias):
    """Adds a layer of weights [outputs, inputs]."""
    n, k = w.shape
    q, scale = by_row(w)
    out[name + ".q"] = np.ascontiguousarray(q.reshape(n // PANEL, PANEL, k // GROUP, GROUP).transpose(0, 2, 1, 3))
    sums = (q.astype(np.float64).sum(1) * scale).astype(np.float32)
    out[name + ".col"] = np.stack([scale, sums, bias]).astype(np.float32)


def arrays():
    w, out = weights(), {}
    both = lambda key: (w[key + ".weight"], w[key + ".bias"])
    out["word.q"], out["word.s"] = by_row(w["embeddings.word_embeddings.weight"])
    out["pos"] = w["embeddings.position_embeddings.weight"][:MAX_TOKENS] + w["embeddings.token_type_embeddings.weight"][0]
    out["ln"] = np.stack(both("embeddings.LayerNorm"))
    shrink = np.float32((HIDDEN // HEADS) ** -0.5)  # attention divides by it; here once, in the query weights
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        (wq, bq), (wk, bk), (wv, bv) = (both(f"{p}attention.self.{name}") for name in ("query", "key", "value"))
        linear(out, f"{i}.qkv", np.concatenate([wq * shrink, wk, wv]), np.concatenate([bq * shrink, bk, bv]))
        linear(out, f"{i}.out", *both(p + "attention.output.dense"))
        linear(out, f"{i}.up", *both(p + "intermediate.dense"))
        linear(out, f"{i}.down", *both(p + "output.dense"))
        out[f"{i}.ln1"] = np.stack(both(p + "attention.output.LayerNorm"))
        out[f"{i}.ln2"] = np.stack(both(p + "output.LayerNorm"))
    out["wlevels"] = np.array([LEVELS], np.float32)
    out["vocab"] = np.fromfile(FOLDER / "vocab.txt", np.uint8)
    return out


def write(path, out):
    header, body, at = {}, [], 0
    for name, a in out.items():
        data = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": TYPES[a.dtype.name], "shape": a.shape, "data_offsets": [at, at + len(data)]}
        body.append(data + b"\0" * (-len(data) % ALIGN))
        at += len(body[-1])
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGN)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(body))


write(sys.argv[1], arrays())
