#!/usr/bin/env bash
# Builds every fuzz target with clang 19, ASan and UBSan in build/fuzz, and runs each for a while.
# Usage: scripts/fuzz.sh [seconds a target, default 20]. Exit status: that of ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
for tool in clang++-19 cmake ninja; do
  if ! command -v "$tool" >/dev/null; then
    echo "fuzz.sh: $tool is missing; run scripts/install-packages.sh" >&2
    exit 3
  fi
done
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
  -DSPLITWAVE_SANITIZE=address,undefined -DSPLITWAVE_CUDA=OFF -DSPLITWAVE_BUILD_FUZZERS=ON \
  -DSPLITWAVE_BUILD_TESTS=OFF -DSPLITWAVE_FUZZ_SECONDS="$seconds"
# Only the targets and what they link.
targets=$(sed -n 's/^splitwave_fuzzer(\([a-z0-9_]*\).*/fuzz_\1/p' tests/fuzz/CMakeLists.txt)
# shellcheck disable=SC2086  # one word a target
cmake --build build/fuzz --target $targets
ctest --test-dir build/fuzz -R '^fuzz_' --output-on-failure --no-tests=error
