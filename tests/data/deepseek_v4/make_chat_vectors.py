#!/usr/bin/env python3
"""Writes chat_vectors.json beside this file: random conversations and what the published encoding
makes of them.

    python3 make_chat_vectors.py ENCODING

ENCODING is encoding/encoding_dsv4.py of the DeepSeek-V4 release (MIT), which is not copied here.
Every role, thinking on and off, tools, tool results out of order, tasks, dropped reasoning,
prefixes and texts with markup in them. A prompt is kept as its length in bytes and its FNV-1a hash;
tests/serve/chat_encoding_test.cpp compares.
"""
import copy
import importlib.util
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).parent
CONVERSATIONS = 300
TEXTS = ["Hello", "", "你好，世界", "a\n\nb", "<think>", "</think>x", "<｜User｜>", "{\"a\": [1, 2]}",
         "<tool_result>", "line\twith \"quotes\" \\ and é", "｜DSML｜", "  blanks  "]
VALUES = [1, 1.5, -3, 1e-7, 2.5e+20, True, None, "text", "", "\"q\"\n", [1, "é", {"k": None}],
          {"b": 1, "a": [0.1]}, 12345678901234567]
TASKS = ["action", "query", "authority", "domain", "read_url"]


def tool(rng):
    return {"type": "function", "function": {
        "name": rng.choice(["get", "search", "打开"]), "description": rng.choice(TEXTS),
        "parameters": {"type": "object", "properties": {
            "x": {"type": "string", "default": rng.choice(VALUES)}}, "required": ["x"]}}}


def call(rng, number):
    keys = rng.sample(["x", "y", "zü", "w"], rng.randrange(4))
    arguments = {key: rng.choice(VALUES) for key in keys}
    return {"id": f"call_{number}", "type": "function", "function": {
        "name": rng.choice(["get", "search"]),
        "arguments": json.dumps(arguments, ensure_ascii=rng.random() < 0.5)}}


def conversation(rng):
    messages = []
    if rng.random() < 0.7:
        system = {"role": "system", "content": rng.choice(TEXTS)}
        if rng.random() < 0.5:
            system["tools"] = [tool(rng) for _ in range(1 + rng.randrange(3))]
        if rng.random() < 0.3:
            system["response_format"] = {"type": "json_schema", "schema": {"z": 1, "a": "é"}}
        messages.append(system)
    for turn in range(1 + rng.randrange(4)):
        if rng.random() < 0.2:
            messages.append({"role": "latest_reminder", "content": rng.choice(TEXTS)})
        if rng.random() < 0.15:
            developer = {"role": "developer", "content": "developer " + rng.choice(TEXTS)}
            if rng.random() < 0.5:
                developer["tools"] = [tool(rng)]
            messages.append(developer)
        else:
            messages.append({"role": "user", "content": rng.choice(TEXTS)})
            if rng.random() < 0.2:
                messages.append({"role": "user", "content": rng.choice(TEXTS)})
        last = messages[-1]
        joined = len(messages) > 1 and messages[-2]["role"] in ("user", "tool")
        if last["role"] == "user" and not joined and rng.random() < 0.15:
            last["task"] = rng.choice(TASKS)
        if rng.random() < 0.15:
            break
        assistant = {"role": "assistant", "content": rng.choice(TEXTS)}
        if rng.random() < 0.6:
            assistant["reasoning_content"] = rng.choice(TEXTS)
        if rng.random() < 0.4:
            calls = [call(rng, 10 * turn + i) for i in range(1 + rng.randrange(3))]
            assistant["tool_calls"] = calls
            messages.append(assistant)
            results = [{"role": "tool", "tool_call_id": c["id"], "content": rng.choice(TEXTS)}
                       for c in calls]
            rng.shuffle(results)
            messages.extend(results)
            if rng.random() < 0.5:
                messages.append({"role": "assistant", "content": rng.choice(TEXTS)})
        else:
            messages.append(assistant)
    if messages[-1]["role"] == "assistant":
        if rng.random() < 0.2:
            messages[-1]["prefix"] = True
        elif rng.random() < 0.2:
            messages[-1]["task"] = "title"
    return messages


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & ((1 << 64) - 1)
    return f"{value:016x}"


def main():
    spec = importlib.util.spec_from_file_location("encoding", sys.argv[1])
    encoding = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(encoding)
    rng = random.Random(4)
    lines = []
    for _ in range(CONVERSATIONS):
        messages = conversation(rng)
        options = {"thinking": rng.random() < 0.6, "drop_thinking": rng.random() < 0.7,
                   "effort": rng.choice([None, None, "high", "max"])}
        given = copy.deepcopy(messages)
        for message in given:
            if message.pop("prefix", False):
                message["wo_eos"] = True
        prompt = encoding.encode_messages(
            given, thinking_mode="thinking" if options["thinking"] else "chat",
            drop_thinking=options["drop_thinking"], reasoning_effort=options["effort"]).encode()
        lines.append(json.dumps({**options, "messages": messages, "bytes": len(prompt),
                                 "hash": fnv1a(prompt)}, ensure_ascii=False))
    (HERE / "chat_vectors.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
