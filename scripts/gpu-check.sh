#!/usr/bin/env bash
# Builds for the GPU at hand, runs the GPU tests, compute-sanitizer on a small set, and the
# benchmark; writes one JSON record. Needs CUDA, CMake and a compiler only.
#   SPLITWAVE_COMMIT=$(git rev-parse HEAD) scripts/gpu-check.sh [--quick] [OUT.json]
set -euo pipefail
cd "$(dirname "$0")/.."
quick=()
if [ "${1:-}" = "--quick" ]; then quick=(--quick); shift; fi
out=${1:-build/gpu/gpu-check.json}
if [ -z "${SPLITWAVE_COMMIT:-}" ]; then
  SPLITWAVE_COMMIT=$(git rev-parse HEAD 2>/dev/null || echo unknown)
fi
export SPLITWAVE_COMMIT
cmake -S . -B build/gpu -DCMAKE_BUILD_TYPE=Release -DSPLITWAVE_BUILD_APP=OFF \
  -DSPLITWAVE_BUILD_TESTS=OFF "-DSPLITWAVE_CUDA_ARCHS=${SPLITWAVE_CUDA_ARCHS:-90;90a}" >/dev/null
cmake --build build/gpu --target gpu_check -j"$(nproc)"
program=build/gpu/tests/gpu/gpu_check
if command -v compute-sanitizer >/dev/null && [ "${SPLITWAVE_SANITIZER:-1}" = 1 ]; then
  compute-sanitizer --tool memcheck --error-exitcode 9 "$program" --sanitize
  # racecheck credits an mbarrier arrival to the arriving lane alone: its build lets every lane
  # arrive.
  SPLITWAVE_ALLOW_SPILLS=1 cmake -S . -B build/gpu-race -DCMAKE_BUILD_TYPE=Release \
    -DSPLITWAVE_BUILD_APP=OFF -DSPLITWAVE_BUILD_TESTS=OFF \
    "-DSPLITWAVE_CUDA_ARCHS=${SPLITWAVE_CUDA_ARCHS:-90;90a}" \
    -DCMAKE_CUDA_FLAGS=-DSPLITWAVE_EVERY_LANE_ARRIVES >/dev/null
  SPLITWAVE_ALLOW_SPILLS=1 cmake --build build/gpu-race --target gpu_check -j"$(nproc)"
  compute-sanitizer --tool racecheck --error-exitcode 9 \
    build/gpu-race/tests/gpu/gpu_check --sanitize
fi
"$program" "${quick[@]}" --out "$out"
echo "gpu-check: $out"
