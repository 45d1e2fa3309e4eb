"""scripts/compare-flash-mla.py where something is missing: it says what, and exits 3."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "compare-flash-mla.py"


def test_names_what_is_missing_and_exits_3():
    try:
        import flash_mla  # noqa: F401
        import torch
        if torch.cuda.is_available():
            pytest.skip("nothing is missing here")
    except ImportError:
        pass
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert "compare-flash-mla: missing: " in done.stderr


def test_bad_usage_exits_2():
    done = subprocess.run([sys.executable, str(SCRIPT), "--batch", "one"], capture_output=True,
                          text=True)
    assert done.returncode == 2 and "--batch" in done.stderr
