"""Gathers the text that static-256 learns from: JSON lines [source, heading, text] of at most 100 words, shuffled.

usage: texts.py PACKAGES [CLONES] > texts.jsonl
PACKAGES is a folder with one unpacked Debian package per folder; CLONES, which may be left out, a folder of git clones,
owner/name or owner/name.git. What is missing is left out and named on standard error.

English of many kinds: definitions, manuals, handbooks, an encyclopaedia. Nothing of it is in an evaluation set; keep it so.
"""
import gzip
import html
import json
import pathlib
import random
import re
import string
import subprocess
import sys

MANUALS = ("libreoffice-help-en-us", "gimp-help-en", "gnucash-docs", "debian-handbook", "postgresql-doc-15", "python-biopython-doc")
HANDBOOKS = ("helm/helm-www", "18F/handbook", "sourcegraph/handbook", "basecamp/handbook")
SIZES = (40, 70, 100, 100)  # words of a passage: indexes hold short and long ones
DICTIONARY_ENTRIES = 40000  # of gcide, which would drown the rest


class Texts:
    """Passages without repetition, in the order of their coming."""

    def __init__(self):
        self.random, self.rows, self.seen = random.Random(7), [], set()

    def keep(self, source, heading, text):
        if text not in self.seen:
            self.seen.add(text)
            self.rows.append([source, one_line(heading)[:200], text])

    def add(self, source, heading, text, least=12):
        """Cuts text into passages; a last one of fewer than `least` words is dropped."""
        words = one_line(text).split()
        while len(words) >= least:
            n = self.random.choice(SIZES)
            self.keep(source, heading, " ".join(words[:n]))
            words = words[n:]


def one_line(s):
    return re.sub(r"\s+", " ", s).strip()


def wordnet(folder, out):
    """Each sense: its words, and its gloss. The format is described in wndb(5WN): a count in hexadecimal, then word and number."""
    for kind in ("noun", "verb", "adj", "adv"):
        for line in open(folder / f"usr/share/wordnet/data.{kind}", encoding="latin1"):
            if line.startswith("  "):  # the licence
                continue
            fields, gloss = line.split("|", 1)
            f = fields.split()
            words = [f[4 + 2 * i].replace("_", " ").split("(")[0] for i in range(int(f[3], 16))]
            out.keep("wordnet", ", ".join(words[:3]), one_line(", ".join(words) + ": " + gloss))


def dictionary(folder, name):
    """Headword and entry of a dictd dictionary, whose index gives offset and length in base 64."""
    digits = {c: i for i, c in enumerate(string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/")}
    number = lambda s: sum(digits[c] * 64**i for i, c in enumerate(reversed(s)))
    data, done = gzip.open(folder / f"usr/share/dictd/{name}.dict.dz").read(), set()
    for line in open(folder / f"usr/share/dictd/{name}.index", encoding="utf8", errors="replace"):
        head, at, size = line.rstrip("\n").split("\t")
        if head.startswith("00") or at in done:  # 00-database-...: about the dictionary; and synonyms of one entry
            continue
        done.add(at)
        entry = data[number(at) : number(at) + number(size)].decode("utf8", "replace")
        yield head, re.sub(r"\[1913 Webster\]|[{}\\]", "", entry)


def web_pages(folder, out):
    """HTML pages in English, cut at their headings."""
    foreign = re.compile(r"-(it|de|ja|pt|ru)(/|$)|/(it|de|ja|[a-z]{2}-[A-Z]{2})(/|$)")
    plain = lambda s: html.unescape(re.sub(r"(?s)<[^>]+>", " ", s))
    for path in sorted(folder.rglob("*.html")):
        if foreign.search(str(path.parent)) and "en-US" not in str(path):
            continue
        page = path.read_text(encoding="utf8", errors="replace")
        page = re.sub(r"(?is)<(script|style|nav|head)\b.*?</\1>", " ", page)
        parts = re.split(r"(?is)<h[1-4][^>]*>(.*?)</h[1-4]>", page)
        for heading, text in zip(parts[1::2], parts[2::2]):
            out.add(folder.name, plain(heading), plain(text))


def files(clone, suffixes):
    """Texts of a clone's newest commit, bare or not."""
    git = lambda *a: subprocess.run(["git", "-C", str(clone), *a], capture_output=True, check=True).stdout
    for name in git("ls-tree", "-r", "--name-only", "-z", "HEAD").decode("utf8", "replace").split("\0"):
        if name.endswith(suffixes):
            yield git("cat-file", "blob", f"HEAD:{name}").decode("utf8", "replace")


def markdown(clone, source, out):
    for s in files(clone, (".md", ".mdx")):
        s = re.sub(r"(?s)^---.*?\n---\n|```.*?```", " ", s)
        s = re.sub(r"<[^>]+>", " ", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", s))
        parts = re.split(r"(?m)^#+\s+(.*)$", s)
        for heading, text in zip(parts[1::2], parts[2::2]):
            out.add(source, heading, re.sub(r"[*`|]|\{[^}]*\}", " ", text))


def restructured(clone, out):
    for s in files(clone, (".rst",)):
        s = re.sub(r":\w+:`([^`<]*)(<[^>]*>)?`", r"\1", re.sub(r"(?m)^\.\. .*$", "", s))
        parts = re.split(r"(?m)^(.+)\n[=\-\^~\"\*]{4,}$", s)
        for heading, text in zip(parts[1::2], parts[2::2]):
            out.add("ansible", heading, re.sub(r"[*`|]", "", text))


def encyclopaedia(clone, out):
    """wikitext-2's smaller files: paragraphs whose rare words are <unk> and whose hyphens are @-@."""
    for s in files(clone, ("wikitext-2/test.txt", "wikitext-2/valid.txt")):
        for paragraph in s.split("\n"):
            if not paragraph.strip().startswith("="):
                out.add("wikitext", "", re.sub(r" @(.)@ ", r"\1", paragraph).replace("<unk>", ""), 15)


def gather(packages, clones):
    out = Texts()

    def there(path):
        if not path.exists():
            print(f"texts: {path} is missing and left out", file=sys.stderr)
        return path.exists()

    def clone(name):
        return next((p for p in (clones / name, clones / f"{name}.git") if p.exists()), clones / name)

    if there(p := packages / "wordnet-base"):
        wordnet(p, out)
    if there(p := packages / "dict-foldoc"):
        for head, text in dictionary(p, "foldoc"):
            out.add("foldoc", head, text, 6)
    if there(p := packages / "dict-gcide"):
        entries = list(dictionary(p, "gcide"))
        out.random.shuffle(entries)
        for head, text in entries[:DICTIONARY_ENTRIES]:
            out.add("gcide", head, text[:900], 6)
    for name in MANUALS:
        if there(p := packages / name):
            web_pages(p, out)
    for name in HANDBOOKS:
        if there(p := clone(name)):
            markdown(p, name, out)
    if there(p := clone("ansible/ansible-documentation")):
        restructured(p, out)
    if there(p := clone("pytorch/examples")):
        encyclopaedia(p, out)
    out.random.shuffle(out.rows)
    return out.rows


def main(packages, clones="none"):
    for row in gather(pathlib.Path(packages), pathlib.Path(clones)):
        print(json.dumps(row))


main(*sys.argv[1:])
