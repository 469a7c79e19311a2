"""Reads texts as JSON strings, one a line, and prints one line per thousand: digest of the texts, digest of their tokens.

usage: tokens.py < TEXTS > internal/embed/testdata/wordpiece.txt
       tokens.py ids < TEXTS        the ids themselves, a JSON array a line
A digest is sha256 over each text as the number of its bytes and the bytes, or the number of its ids and the ids; all numbers
are little-endian and 32 bits wide. Special tokens are neither added nor read from the text.
"""
import hashlib
import itertools
import json
import sys

import numpy as np

from minilm import tokenizer

BLOCK = 1000


def number(n):
    return n.to_bytes(4, "little")


def main(want="digests"):
    encode = tokenizer()
    texts = (json.loads(line) for line in sys.stdin.buffer)
    while block := list(itertools.islice(texts, BLOCK)):
        read, ids = hashlib.sha256(), hashlib.sha256()
        for text, e in zip(block, encode.encode_batch(block, add_special_tokens=False)):
            if want == "ids":
                print(json.dumps(e.ids))
                continue
            data = text.encode()
            read.update(number(len(data)) + data)
            ids.update(number(len(e.ids)) + np.array(e.ids, "<i4").tobytes())
        if want == "digests":
            print(read.hexdigest(), ids.hexdigest())


main(*sys.argv[1:])
