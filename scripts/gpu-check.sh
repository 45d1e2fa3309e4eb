#!/usr/bin/env bash
# Everything that a GPU must confirm, in one run: builds for the GPU at hand, compute-sanitizer's
# memcheck and racecheck on a small set, the correctness matrix with the contract suite, and the
# benchmark; one JSON record. Needs CUDA, CMake and a compiler only. Any failure is an exit status.
#   SPLITWAVE_COMMIT=$(git rev-parse HEAD) scripts/gpu-check.sh [--quick] [--no-bench] [OUT.json]
set -euo pipefail
cd "$(dirname "$0")/.."
flags=()
while [[ "${1:-}" == --* ]]; do flags+=("$1"); shift; done
out=${1:-build/gpu/gpu-check.json}
mkdir -p "$(dirname "$out")"
if [ -z "${SPLITWAVE_COMMIT:-}" ]; then
  SPLITWAVE_COMMIT=$(git rev-parse HEAD 2>/dev/null || echo unknown)
fi
export SPLITWAVE_COMMIT
archs=${SPLITWAVE_CUDA_ARCHS:-90;90a}
# What was built: names and bytes of every source that can change a result or a time.
fingerprint=$(find include src tests/gpu scripts/cmake -type f | LC_ALL=C sort | xargs sha256sum |
  sha256sum | cut -c1-16)
configure() {
  cmake -S . -B "$1" -DCMAKE_BUILD_TYPE=Release -DSPLITWAVE_BUILD_APP=OFF \
    -DSPLITWAVE_BUILD_TESTS=OFF "-DSPLITWAVE_CUDA_ARCHS=$archs" "${@:2}" >/dev/null
}
configure build/gpu
cmake --build build/gpu --target gpu_check -j"$(nproc)" >build/gpu/build.log ||
  { tail -40 build/gpu/build.log; exit 1; }
program=build/gpu/tests/gpu/gpu_check
notes=(--note "fingerprint=$fingerprint" --note "date=$(date -u +%Y-%m-%d)"
  --note "command=scripts/gpu-check.sh ${flags[*]}")
status=0
sanitize() {  # TOOL PROGRAM WORDS: a failure is recorded and decides the exit status
  if compute-sanitizer --tool "$1" --error-exitcode 9 "$2" --sanitize; then
    notes+=(--note "$1=$3")
  else
    notes+=(--note "$1=failed")
    status=9
  fi
}
if command -v compute-sanitizer >/dev/null && [ "${SPLITWAVE_SANITIZER:-1}" = 1 ]; then
  sanitize memcheck "$program" "clean"
  # racecheck credits an mbarrier arrival to the arriving lane alone: its build lets every lane
  # arrive (docs/kernels/portable.md). Spills of that build are no fault of the shipped one.
  export SPLITWAVE_ALLOW_SPILLS=1
  configure build/gpu-race -DCMAKE_CUDA_FLAGS=-DSPLITWAVE_EVERY_LANE_ARRIVES
  cmake --build build/gpu-race --target gpu_check -j"$(nproc)" >build/gpu-race/build.log ||
    { tail -40 build/gpu-race/build.log; exit 1; }
  sanitize racecheck build/gpu-race/tests/gpu/gpu_check "clean (build in which every lane arrives)"
else
  notes+=(--note "memcheck=not run" --note "racecheck=not run")
fi
"$program" "${flags[@]}" "${notes[@]}" --out "$out" || status=1
echo "gpu-check: $out"
exit $status
