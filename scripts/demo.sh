#!/usr/bin/env bash
# The main job, end to end, on this machine: installs what is missing, builds, and repeats the
# committed experiment experiments/0000-demo (a gated A/B of how a sparse decode batch is cut, over
# batches of a real serving trace, on the best backend present); then serves the embedded tiny model
# and asks it for a chat completion. Ends by naming the report.
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

"$splitwave" serve --listen 127.0.0.1:18480 >"$out/serve.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
url=http://127.0.0.1:18480
curl -fs --retry 30 --retry-delay 1 --retry-all-errors -o "$out/ready.json" "$url/ready"
echo
echo "demo: the tiny model (random weights: its words mean nothing), asked over $url:"
curl -fs "$url/v1/chat/completions" -H 'Content-Type: application/json' -d \
  '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "temperature": 0}'
echo
echo "demo: the report is $out/REPORT.md, its raw samples are $out/result.json"
