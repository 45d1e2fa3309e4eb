#!/usr/bin/env bash
# The Python package on the GPU at hand: tests/python with torch, then splitwave's own time through
# Python against its time in a graph; one JSON record. Needs an installed splitwave wheel with CUDA,
# torch, numpy and pytest.
#   SPLITWAVE_COMMIT=$(git rev-parse HEAD) scripts/python-gpu-check.sh OUT.json
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/python-gpu-check.sh OUT.json}
python=${PYTHON:-python3}
commit=${SPLITWAVE_COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
unset SPLITWAVE_COMMIT  # the library refuses a SPLITWAVE_ variable that it does not know
status=0
"$python" -m pytest -q -p no:cacheprovider -rs --junitxml="$out.xml" tests/python || status=$?
"$python" scripts/python-gpu-record.py "$out.xml" "$out" "$commit"
exit "$status"
