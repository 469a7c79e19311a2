"""Makes static-256.safetensors: an int8 row of 256 per WordPiece, so that the sum of a text's rows points where MiniLM's vector does.

usage: distill.py TEXTS OUT        environment: ENCODER, the command of ./encode; TEXTS_LIMIT, to use only so many texts

1. start: each piece alone through the teacher, its own output vector, PCA to 256, weighted a/(a+p) by its frequency p (SIF,
   Arora et al. 2017; model2vec makes its tables so)
2. rotation: the least squares map that brings sums of rows onto the teacher's sentence space
3. training, Adam: cosine to the teacher's vector of every text and question, and KL divergence between the teacher's and the
   table's similarities of a batch's questions and texts. Questions are headings, or spans of 4 to 14 words
4. one scale to int8 for all, which the norm of a text's vector cancels

The last texts are held out; the report at the end says how many of their questions find their own text first.
"""
import json
import os
import random
import shlex
import subprocess
import sys

import numpy as np
import scipy.sparse
from safetensors.numpy import save_file

import graph
from minilm import CLS, HIDDEN, SEP, STATE, VOCABULARY, tokenizer, unit

DIMENSIONS = 256
FREQUENT = 3e-4  # a of a/(a+p)
BATCH, EPOCHS, RATE, TEMPERATURE = 1024, 6, 2e-3, 0.05
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's
LONGEST = 254  # tokens that the teacher sees of a text
METADATA = {
    "teacher": "sentence-transformers/all-MiniLM-L6-v2",
    "pooling": "sum of rows without special tokens, then L2 norm",
    "dimensions": "256, ordered by variance: a prefix works too",
}


def questions(rows):
    """One question-like text for each row."""
    r = random.Random(3)
    for source, heading, text in rows:
        words = text.split()
        if source == "wordnet":
            yield heading if r.random() < 0.5 else text.split(": ", 1)[1].split(";")[0]
        elif len(heading.split()) >= 2 and r.random() < 0.5:
            yield heading
        else:
            n = r.randint(4, 14)
            first = r.randint(0, max(0, len(words) - n))
            yield " ".join(words[first : first + n])


def bags(ids):
    """Token lists -> sparse [texts, VOCABULARY]; times a table it gives the mean of each text's rows."""
    ends = np.cumsum([0] + [len(x) for x in ids])
    values = np.concatenate([np.full(len(x), 1 / max(1, len(x)), np.float32) for x in ids])
    return scipy.sparse.csr_matrix((values, np.concatenate([np.asarray(x, np.int32) for x in ids]), ends), shape=(len(ids), VOCABULARY))


def teach(texts):
    """The teacher's vectors, by Quarry's own encoder."""
    lines = "".join(json.dumps(t) + "\n" for t in texts).encode()
    out = subprocess.run(shlex.split(os.environ["ENCODER"]), input=lines, stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(out, "<f4").reshape(len(texts), HIDDEN)


def teach_pieces():
    """The teacher's output for each piece alone between its marks, at the piece's place, in f32. Cached."""
    cache = STATE / "pieces.npy"
    if not cache.exists():
        s = graph.session("f32")
        ids = np.stack([np.full(VOCABULARY, CLS), np.arange(VOCABULARY), np.full(VOCABULARY, SEP)], 1)
        np.save(cache, np.concatenate([s.run(["hidden"], {"ids": ids[i : i + 2048]})[0][:, 1] for i in range(0, VOCABULARY, 2048)]))
    return np.load(cache)


def principal(x):
    """Mean, and the first 256 principal directions as columns, the one of the most variance first."""
    mean = x.mean(0)
    return mean, np.linalg.svd(x - mean, full_matrices=False)[2][:DIMENSIONS].T


def start(pieces, ids):
    count = np.bincount(np.concatenate(ids), minlength=VOCABULARY) + 1.0
    mean, basis = principal(pieces)
    weight = FREQUENT / (FREQUENT + count / count.sum())
    return ((pieces - mean) @ basis * weight[:, None]).astype(np.float32)


def rotate(table, bag, goal):
    """The table times the ridge regression from means of rows to the goal vectors."""
    y = bag @ table
    gram = y.T @ y
    ridge = 1e-3 * np.trace(gram) / DIMENSIONS * np.eye(DIMENSIONS)
    table = (table @ np.linalg.solve(gram + ridge, y.T @ goal)).astype(np.float32)
    return table * (0.05 / np.abs(table).mean())


def softmax(x):
    x = np.exp(x - x.max(1, keepdims=True))
    return x / x.sum(1, keepdims=True)


def through_norm(gradient, unit_vectors, norms):
    """The gradient by x/|x| -> the gradient by x."""
    return (gradient - unit_vectors * (unit_vectors * gradient).sum(1, keepdims=True)) / norms


def gradient(table, texts, asks, teacher_texts, teacher_asks, goal_texts, goal_asks):
    """Of the loss by the table, for one batch. Each pair: sparse bags, the teacher's vectors, their 256 main directions."""
    st, sa = texts @ table, asks @ table
    nt, na = (np.linalg.norm(s, axis=1, keepdims=True) + 1e-6 for s in (st, sa))
    ht, ha = st / nt, sa / na
    wanted = softmax(teacher_asks @ teacher_texts.T / TEMPERATURE)
    g = (softmax(ha @ ht.T / TEMPERATURE) - wanted) / len(st)
    by_texts, by_asks = g.T @ ha - goal_texts / len(st), g @ ht - goal_asks / len(st)
    return texts.T @ through_norm(by_texts, ht, nt) + asks.T @ through_norm(by_asks, ha, na)


def train(table, data, rng):
    """Adam with a cosine schedule over whole batches; data are arrays of one row per pair."""
    batches = len(data[2]) // BATCH
    if not batches:
        sys.exit(f"distill: {len(data[2])} texts are fewer than a batch of {BATCH}")
    first, second, step = np.zeros_like(table), np.zeros_like(table), 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(data[2]))
        for b in range(batches):
            rows = order[b * BATCH : (b + 1) * BATCH]
            g = gradient(table, *(d[rows] for d in data))
            step += 1
            first = BETA1 * first + (1 - BETA1) * g
            second = BETA2 * second + (1 - BETA2) * g * g
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / (EPOCHS * batches)))
            table -= rate * (first / (1 - BETA1**step)) / (np.sqrt(second / (1 - BETA2**step)) + EPSILON)
        print(f"distill: epoch {epoch + 1} of {EPOCHS}", flush=True)
    return table


def found_first(asks, texts):
    """The share of questions whose own text is the nearest."""
    return (np.argmax(unit(asks) @ unit(texts).T, axis=1) == np.arange(len(asks))).mean()


def main(path, out):
    rows = [json.loads(line) for line in open(path)][: int(os.environ.get("TEXTS_LIMIT", "0")) or None]
    pairs = [(r[2], q) for r, q in zip(rows, questions(rows)) if r[2].strip() and q.strip()]
    texts, asks = zip(*pairs)
    teacher_texts, teacher_asks = teach(texts), teach(asks)
    encode = tokenizer()
    ids = [[e.ids[:LONGEST] for e in encode.encode_batch(list(x), add_special_tokens=False)] for x in (texts, asks)]
    bag_texts, bag_asks = bags(ids[0]), bags(ids[1])
    rng = np.random.default_rng(1)
    mean, basis = principal(teacher_texts[:50000])
    goal_texts, goal_asks = unit((teacher_texts - mean) @ basis), unit((teacher_asks - mean) @ basis)
    held = min(1000, len(pairs) // 10)
    learn, test = slice(0, len(pairs) - held), slice(len(pairs) - held, len(pairs))

    table = start(teach_pieces(), ids[0])
    some = rng.permutation(len(pairs) - held)[:40000]
    table = rotate(table, bag_texts[some], (teacher_texts[some] - mean) @ basis)
    before = found_first(bag_asks[test] @ table, bag_texts[test] @ table)
    data = (bag_texts, bag_asks, teacher_texts, teacher_asks, goal_texts, goal_asks)
    table = train(table, [d[learn] for d in data], rng)
    small = np.clip(np.round(table * (127 / np.abs(table).max())), -127, 127).astype(np.int8)
    save_file({"embeddings": small}, out, metadata=METADATA)

    whole = small.astype(np.float32)
    after = found_first(bag_asks[test] @ whole, bag_texts[test] @ whole)
    print(f"distill: {out}, from {len(pairs) - held} texts. Of {held} held out, found first: teacher {found_first(teacher_asks[test], teacher_texts[test]):.3f}, this {after:.3f}, before training {before:.3f}")


main(*sys.argv[1:])
