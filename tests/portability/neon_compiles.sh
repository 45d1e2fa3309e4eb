#!/usr/bin/env bash
# Compiles every CPU kernel file for AArch64 with the warnings of the build as errors, and looks for
# NEON's vector multiply-add in the decode kernel's code: a build without vectors would pass too.
# Usage: neon_compiles.sh FOLDER-FOR-ASSEMBLY
set -euo pipefail
out=$1
cd "$(dirname "$0")/../.."
compiler=aarch64-linux-gnu-g++
command -v "$compiler" >/dev/null || {
  echo "neon_compiles: $compiler is missing; run scripts/install-packages.sh" >&2
  exit 1
}
mkdir -p "$out"
compiled=0
for file in src/kernels/cpu/*.cpp; do
  assembly=$out/$(basename "$file" .cpp).s
  # Highway's headers are the same for every target; the C library's are the cross compiler's own.
  "$compiler" -std=c++20 -O1 -ffp-contract=off -Wall -Wextra -Wshadow -Werror -DHWY_SHARED_DEFINE \
    -Iinclude -Isrc -idirafter /usr/include -S -o "$assembly" "$file"
  compiled=$((compiled + 1))
done
fused=$(grep -cE '\sfmla\s+v' "$out/decode_simd.s" || true)
[ "$fused" -gt 0 ] || {
  echo "neon_compiles: decode_simd.cpp has no NEON multiply-add" >&2
  exit 1
}
echo "neon_compiles: $compiled files, $fused vector multiply-adds in decode_simd"
