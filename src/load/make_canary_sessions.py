#!/usr/bin/env python3
"""Writes canary_sessions.json: the tool sessions that `splitwave canary` replays.

    python3 make_canary_sessions.py DIRECTORY

DIRECTORY holds multi_turn_base.jsonl, multi_turn_miss_param_60.jsonl and functions/ of the
Berkeley Function Calling Leaderboard v4 (Apache-2.0, gorilla-llm). Of each session it keeps the
user's turns, in order, and the functions that its recorded calls use; of each function the name,
the description without the sentence that all functions of a class share, and the parameters
("dict" becomes JSON schema's "object"). 200 base sessions and the first 40 with a missing
parameter.
"""
import json
import pathlib
import sys

SESSIONS = {"multi_turn_base.jsonl": 200, "multi_turn_miss_param_60.jsonl": 40}


def schema(value):
    if isinstance(value, dict):
        return {k: "object" if k == "type" and v == "dict" else schema(v) for k, v in value.items()}
    if isinstance(value, list):
        return [schema(v) for v in value]
    return value


def main():
    source = pathlib.Path(sys.argv[1])
    functions = {}
    for path in sorted((source / "functions").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            function = json.loads(line)
            functions[function["name"]] = {
                "name": function["name"],
                "description": function["description"].split("Tool description: ")[-1],
                "parameters": schema(function["parameters"]),
            }
    sessions, used = [], set()
    for name, count in SESSIONS.items():
        for line in (source / name).read_text().splitlines()[:count]:
            entry = json.loads(line)
            calls = [call.split(".")[-1] for call in entry["path"]]
            calls = [call for call in calls if call in functions]
            used.update(calls)
            sessions.append({
                "id": entry["id"],
                "calls": calls,
                "turns": [turn[0]["content"] for turn in entry["question"] if turn],
            })
    lines = [json.dumps(session, ensure_ascii=False) for session in sessions]
    tools = [json.dumps(functions[name], ensure_ascii=False) for name in sorted(used)]
    out = pathlib.Path(__file__).with_name("canary_sessions.json")
    out.write_text('{"source": "Berkeley Function Calling Leaderboard v4, Apache-2.0",\n'
                   '"tools": [\n'
                   + ",\n".join(tools) + '\n],\n"sessions": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
