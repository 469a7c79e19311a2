"""Compares the builtin encoder with ONNX Runtime int8 of the same graph, and measures every bar of it.

usage: bench.py PROGRAM DATA        environment: BAR=prefix, ROUNDS (default 25)
PROGRAM is this folder's Go program; DATA a folder with sets below it (`corpus.jsonl`), for real texts.

Everything runs in turns: in each round each contestant does the same work once, in an order that rotates, and a ratio is the
median over rounds of time / time of ONNX Runtime with as many threads in the same round. What else the machine does then
meets all of them alike. A line for each bar says what was measured; the exit status tells whether one is short.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

import graph
import minilm

SHAPES = ((12, 1), (32, 32), (128, 8), (256, 4), (256, 1))  # tokens with both marks, texts
BARRED = {32, 128, 256}
WARM_UP, ROUNDS = 2, int(os.environ.get("ROUNDS", "25"))
LIMITS = {"avx512-vnni": 0.70, "avx-vnni": 0.70, "avx2": 1.15}
SHORT_NAMES = {"avx512-vnni": "vnni", "avx-vnni": "avxvnni"}
MIB = 2**20


class Go:
    """One process of the Go program, with its kernel set and number of threads."""

    def __init__(self, program, kernels, threads):
        self.name, self.kernels, self.threads = f"Go {kernels}", kernels, threads
        environment = dict(os.environ, QUARRY_KERNELS=kernels, GOMAXPROCS=str(threads))
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, do, texts=(), vectors=False):
        self.process.stdin.write(json.dumps({"do": do, "texts": list(texts), "vectors": vectors}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: the program ended")
        return json.loads(line)

    def seconds(self, texts, ids):
        return self.ask("encode", texts)["seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Runtime:
    """ONNX Runtime int8. It gets ids, not texts: what its tokenizer would cost is not counted."""

    def __init__(self, threads):
        self.name, self.kernels, self.threads = "ONNX Runtime int8", "", threads
        self.session = graph.session("int8", threads)

    def seconds(self, texts, ids):
        batch = {"ids": np.array([minilm.sequence(x) for x in ids])}
        start = time.perf_counter()
        self.session.run(["mean"], batch)
        return time.perf_counter() - start

    def close(self):
        pass


class Bars:
    def __init__(self):
        self.prefix, self.missed, self.shown = os.environ.get("BAR", ""), [], 0

    def wants(self, *names):
        return any(name.startswith(self.prefix) or self.prefix.startswith(name) for name in names)

    def show(self, name, measured, limit, at_most, digits=3):
        """One line; limit is the least, or the most, that will do."""
        if not name.startswith(self.prefix):
            return
        ok = measured <= limit if at_most else measured >= limit
        self.shown += 1
        if not ok:
            self.missed.append(name)
        print(f"bar {name} {measured:.{digits}f} {limit} {'ok' if ok else 'short'}", flush=True)

    def end(self):
        if not self.shown:
            sys.exit(f"BAR={self.prefix}: no bar begins so")
        if self.missed:
            sys.exit("short: " + ", ".join(self.missed))


def single_words():
    """Words that are one token each, so that a text of n tokens can be written: word -> id."""
    pieces = (minilm.FOLDER / "vocab.txt").read_text(encoding="utf8").split("\n")
    return [(p, i) for i, p in enumerate(pieces) if p.isascii() and p.isalpha() and len(p) > 2]


def work(tokens, texts, random, words):
    rows = [[words[i] for i in random.integers(len(words), size=tokens - 2)] for _ in range(texts)]
    return [" ".join(w for w, _ in row) for row in rows], [[i for _, i in row] for row in rows]


def race(contestants, tokens, texts, random, words):
    """(name, threads) -> seconds, one number a round."""
    times = {(c.name, c.threads): [] for c in contestants}
    for r in range(WARM_UP + ROUNDS):
        job = work(tokens, texts, random, words)
        turn = r % len(contestants)
        for c in contestants[turn:] + contestants[:turn]:
            s = c.seconds(*job)
            if r >= WARM_UP:
                times[c.name, c.threads].append(s)
    return {k: np.array(v) for k, v in times.items()}


def bar_name(kernels):
    return SHORT_NAMES.get(kernels, kernels)


def speed(program, kernels, bars):
    if not bars.wants("encoder-threads", *(f"encoder-{bar_name(k)}-" for k in kernels)):
        return
    contestants = [make(t) for t in (1, 2) for make in [Runtime] + [lambda t, k=k: Go(program, k, t) for k in kernels]]
    random, words, lines = np.random.default_rng(1), single_words(), []
    print(f"median of {ROUNDS} rounds, load {os.getloadavg()[0]:.1f}")
    print("| tokens x texts | threads | who | ms | tokens/s | time / ONNX Runtime int8 | quartiles |\n|---|---|---|---|---|---|---|")
    for tokens, texts in SHAPES:
        times = race(contestants, tokens, texts, random, words)
        for (name, threads), s in times.items():
            ratio = s / times["ONNX Runtime int8", threads]
            low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
            print(f"| {tokens} x {texts} | {threads} | {name} | {statistics.median(s) * 1e3:.2f} | {tokens * texts / statistics.median(s):.0f} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)
            kernel = name.removeprefix("Go ")
            if kernel in LIMITS and texts > 1 and tokens in BARRED:
                lines.append((f"encoder-{bar_name(kernel)}-{tokens}" + ("" if threads == 1 else "-two"), middle, LIMITS[kernel], True))
        first = "Go " + kernels[0]
        gain = statistics.median(times[first, 1] / times[first, 2])
        print(f"| {tokens} x {texts} | 2 | {first}: one thread's time / two threads' | | | {gain:.3f} | |", flush=True)
        if texts > 1:
            lines.append((f"encoder-threads-{tokens}", gain, 1.8, False))
    for line in lines:
        bars.show(*line)
    for c in contestants:
        c.close()


def in_english(path):
    """Sets in other languages end in their code, as xquad/de and miracl-yo do."""
    code = path.parent.name.split("-")[-1]
    return len(code) != 2 or code == "en"


def real_texts(data, n, english=True):
    """n texts, drawn alike from all sets in English, or from all others: the same ones in every run."""
    random, sets = np.random.default_rng(2), []
    for path in sorted(p for p in pathlib.Path(data).glob("**/corpus.jsonl") if in_english(p) == english):
        rows = [json.loads(line) for line in path.open(encoding="utf8")]
        sets.append([f"{r.get('title') or ''} {r['text']}".strip() for r in (rows[i] for i in random.permutation(len(rows))[:n])])
    if not sets:
        return []
    out = [s[i] for i in range(n) for s in sets if i < len(s)][:n]
    return [t for t in out if t]


def f32(texts):
    """The f32 model's vectors."""
    ids = [e.ids for e in minilm.tokenizer().encode_batch(texts, add_special_tokens=False)]
    return graph.embed(graph.session("f32"), ids)


def quality(program, kernels, data, bars):
    """Mean cosine to f32 for each kernel set. The bar is for English, which the model was made for."""
    if not bars.wants("encoder-cosine"):
        return
    for language, texts in ("English", real_texts(data, 500)), ("other languages", real_texts(data, 120, english=False)):
        if not texts:
            continue
        want = f32(texts)
        for k in kernels:
            go = Go(program, k, 2)
            c = (want * np.array(go.ask("encode", texts, vectors=True)["vectors"], np.float32)).sum(1)
            go.close()
            print(f"cosine to f32, {k}, {len(texts)} texts in {language}: mean {c.mean():.5f}, worst {c.min():.5f}", flush=True)
            if language == "English":
                bars.show(f"encoder-cosine-{bar_name(k)}", c.mean(), 0.997, False, 5)


def memory(program, data, bars):
    """The most that a process had in memory, its file pages included, having encoded with two threads."""
    if not bars.wants("encoder-memory"):
        return
    go, texts = Go(program, "", 2), real_texts(data, 500)
    for _ in range(3):
        go.ask("encode", texts)
    bars.show("encoder-memory", go.ask("memory")["bytes"] / MIB, 100, True, 1)
    go.close()


def tokenizer(program, data, bars):
    """MB of text per second on one core: the median of rounds over some megabytes of real text."""
    if not bars.wants("encoder-tokenizer"):
        return
    go, texts = Go(program, "", 1), real_texts(data, 6000)
    size = sum(len(t.encode()) for t in texts)
    speeds = [size / 1e6 / go.ask("count", texts)["seconds"] for _ in range(7)]
    print(f"tokenizer: {len(texts)} texts, {size / 1e6:.1f} MB")
    bars.show("encoder-tokenizer", statistics.median(speeds), 10, False, 1)
    go.close()


def main(program, data):
    if not real_texts(data, 1):
        sys.exit(f"DATA={data}: no corpus.jsonl below it, and the bars for quality, memory and tokenizer need real texts")
    probe = Go(program, "", 1)
    kernels = [k for k in probe.ask("kernels")["kernels"] if k != "generic"] or ["generic"]
    probe.close()
    bars = Bars()
    speed(program, kernels, bars)
    quality(program, kernels, data, bars)
    memory(program, data, bars)
    tokenizer(program, data, bars)
    bars.end()


main(*sys.argv[1:])
