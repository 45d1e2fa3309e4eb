#!/usr/bin/env python3
"""Writes tiny_tokenizer.json: the byte-level BPE that `splitwave model make-tiny` ships.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers==0.23.3
    /tmp/venv/bin/python make_tiny_tokenizer.py

4,096 ids: BOS 0, EOS 1, padding 2 and V4's other control tokens at the end, V4's pre-tokenizer, and
merges trained on the canary's tool sessions and V4's prompt texts, so that a session costs at most
0.3 token a byte. The file is DeepSeek-V4's dialect of tokenizer.json.
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
VOCABULARY = 4096
FIRST = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
LAST = ["<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜", "<｜latest_reminder｜>",
        "<｜action｜>", "<｜query｜>", "<｜authority｜>", "<｜domain｜>", "<｜title｜>",
        "<｜extracted_url｜>", "<｜read_url｜>"]


def corpus():
    data = json.loads((ROOT / "src/load/canary_sessions.json").read_text())
    for tool in data["tools"]:
        yield json.dumps(tool, ensure_ascii=False)
    for session in data["sessions"]:
        yield from session["turns"]
        for call in session["calls"]:
            yield f'invoke name="{call}">\n'
    prompt = (ROOT / "tests/data/deepseek_v4/chat_1.txt").read_text()
    for token in FIRST + LAST:
        prompt = prompt.replace(token, "\n")
    yield from [prompt] * 8


def main():
    published = json.loads((ROOT / "tests/data/deepseek_v4/tokenizer_vectors.json").read_text())
    splits = published["pre_tokenizer"]["pretokenizers"][:-1]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(split["pattern"]["Regex"]), "isolated") for split in splits]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(LAST), special_tokens=FIRST, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=True) for text in LAST])
    assert tokenizer.get_vocab_size() == VOCABULARY
    out = json.loads(tokenizer.to_str())
    out["model"]["merges"] = [" ".join(merge) for merge in out["model"]["merges"]]
    out["pre_tokenizer"] = published["pre_tokenizer"]
    text = json.dumps(out, ensure_ascii=False, separators=(",", ":"))
    # A line for each section, so that a diff is readable.
    for key in ("model", "merges", "vocab", "added_tokens", "pre_tokenizer", "decoder"):
        text = text.replace(f'"{key}":', f'\n"{key}":', 1)
    (HERE / "tiny_tokenizer.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
