#!/usr/bin/env bash
# The main job, end to end, on this machine: installs what is missing, builds, and repeats the
# committed experiment experiments/0000-demo (a gated A/B of how a sparse decode batch is cut, over
# batches of a real serving trace, on the best backend present). Ends by naming the report.
#   scripts/demo.sh [DIR]     DIR receives result.json, REPORT.md and the plots (default: a fresh
#                             folder under build/demo)
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-packages.sh
cmake --preset release >/dev/null
cmake --build --preset release
out=${1:-build/demo/$(date +%Y%m%d-%H%M%S)}
splitwave=build/release/bin/splitwave
"$splitwave" doctor
"$splitwave" ab run experiments/0000-demo --out "$out"
echo
echo "demo: the report is $out/REPORT.md, its raw samples are $out/result.json"
