#!/usr/bin/env bash
# The corruption gate on the tiny model, served for real: solo run on a fresh server, crowd run on
# another fresh one (its prefix cache knows nothing of the solo run), then, when asked, every seeded
# fault, which the gate must catch, and the sensitivity test.
# Usage: scripts/canary-gate.sh [--sessions N] [--concurrency C] [--fault-seeds S] [--build DIR]
#   defaults: 240 sessions, C96, no faults, build/release. --sessions 24 is the short form of CI.
# Exit status: 0 passed, 1 corruption, a fault that was not caught or no server, 2 usage, 3 this
# build has no server or no engine.
set -euo pipefail
cd "$(dirname "$0")/.."
sessions=240 concurrency=96 fault_seeds=0 build=build/release
while [ $# -gt 0 ]; do
  case $1 in
    --sessions) sessions=$2 ;;
    --concurrency) concurrency=$2 ;;
    --fault-seeds) fault_seeds=$2 ;;
    --build) build=$2 ;;
    *) echo "canary-gate.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
splitwave=$build/bin/splitwave
[ -x "$splitwave" ] || { echo "canary-gate.sh: $splitwave is missing; build it first" >&2; exit 3; }
"$splitwave" --help | grep -q '^ *serve ' ||
  { echo "canary-gate.sh: this build has no 'serve'" >&2; exit 3; }

work=$(mktemp -d)
server=
stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
}
trap 'stop; rm -rf "$work"' EXIT
port=$((20000 + RANDOM % 20000))
url=http://127.0.0.1:$port

start() {  # arguments: further flags of serve
  "$splitwave" serve --model "$work/tiny" --listen "127.0.0.1:$port" "$@" >"$work/serve.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    if curl -fs "$url/ready" >/dev/null 2>&1; then return; fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  echo "canary-gate.sh: the server is not ready:" >&2
  tail -5 "$work/serve.log" >&2
  kill "$server" 2>/dev/null || true
  local status=0
  wait "$server" || status=$?
  server=
  [ "$status" = 3 ] && exit 3  # the build has no engine, or the machine lacks something
  exit 1
}

"$splitwave" model make-tiny "$work/tiny" >/dev/null

begin=$SECONDS
start
"$splitwave" canary --url "$url" --sessions "$sessions" --solo-out "$work/solo.json" --solo-only
stop
start
"$splitwave" canary --url "$url" --sessions "$sessions" --concurrency "$concurrency" \
  --solo "$work/solo.json"
stop
echo "gate: $((SECONDS - begin)) s for $sessions sessions at C$concurrency"
[ "$fault_seeds" -gt 0 ] || exit 0

# Each fault, on 24 sessions, must make the gate fail; the first divergence is enough.
start
"$splitwave" canary --url "$url" --sessions 24 --solo-out "$work/solo24.json" --solo-only
stop
missed=0
for fault in swapped_pages dropped_dependency stale_stride shared_scratch; do
  caught=0
  for seed in $(seq "$fault_seeds"); do
    start --fault "$fault" --fault-seed "$seed"
    status=0
    "$splitwave" canary --url "$url" --sessions 24 --concurrency "$concurrency" \
      --solo "$work/solo24.json" --stop-at-first >"$work/canary.log" || status=$?
    stop
    if [ "$status" = 1 ]; then
      caught=$((caught + 1))
    else
      echo "NOT caught: $fault, seed $seed (exit $status)"
      missed=1
    fi
  done
  echo "$fault: caught on $caught of $fault_seeds seeds"
done

# One bit of the newest window row must change the tokens of at least 90 % of the sessions.
start --fault flipped_bit --fault-seed 1
"$splitwave" canary --url "$url" --sessions 24 --concurrency "$concurrency" --json \
  --solo "$work/solo24.json" >"$work/flip.json" || true
stop
others=$(sed -n 's/.*"other_tokens": \([0-9]*\).*/\1/p' "$work/flip.json")
echo "flipped_bit: other tokens in ${others:-0} of 24 sessions"
[ "$((${others:-0} * 10))" -ge $((24 * 9)) ] || missed=1
exit "$missed"
