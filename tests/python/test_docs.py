"""Every Python block of docs/python.md runs."""

import pathlib
import re

import pytest

TEXT = (pathlib.Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


def test_there_are_blocks():
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number):
    exec(compile(BLOCKS[number], f"docs/python.md, block {number}", "exec"), {})
