#!/usr/bin/env bash
# Installs what is missing, builds everything that this machine can build (CUDA variants where nvcc
# exists) and passes every test. The last line counts them; zero tests run is a failure.
#   scripts/test.sh            the release build
#   scripts/test.sh dev        the same host tests under ASan and UBSan
#   scripts/test.sh tsan       under ThreadSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
scripts/install-packages.sh
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" --no-tests=error
