#!/usr/bin/env bash
# Format and lint. Owns the calls of clang-format and clang-tidy; the rest is tests/tidy's.
#   scripts/tidy.sh                  names the files that clang-format would change; exit 1
#   scripts/tidy.sh --fix            formats them
#   scripts/tidy.sh --fix-wide       reformats only the lines over 100 columns
#   scripts/tidy.sh --lint [BUILD]   clang-tidy on the host files of BUILD (build/release)
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=clang-format-14
linter=clang-tidy-19
# clang-tidy parses no CUDA 13 header (HACKING.md): .cu files and what includes CUDA are left out.
lint_pattern='^(?!.*(/kernels/cuda/|/cuda_|/build/)).*/(src|apps|tests)/.*\.cpp$'

need() {
  command -v "$1" >/dev/null && return
  echo "tidy: $1 is not installed: apt-get install $1" >&2
  exit 3
}

sources() {
  git ls-files -- '*.h' '*.cpp' '*.cu' '*.cuh'
}

fix_wide() {
  local file lines line
  sources | while read -r file; do
    # From the bottom up: a rewrapped line moves only what stands below it.
    lines=$(LC_ALL=C.UTF-8 awk 'length > 100 {print FNR}' "$file" | sort -rn)
    for line in $lines; do "$formatter" -i --lines="$line:$line" "$file"; done
  done
}

case "${1:-}" in
  "")
    need "$formatter"
    unformatted=$(sources | while read -r file; do
      "$formatter" --dry-run -Werror "$file" 2>/dev/null || echo "$file"
    done)
    [ -z "$unformatted" ] && exit 0
    printf '%s\n' "$unformatted"
    echo "tidy: these files are not formatted; scripts/tidy.sh --fix formats them" >&2
    exit 1
    ;;
  --fix) need "$formatter"; sources | xargs "$formatter" -i ;;
  --fix-wide) need "$formatter"; fix_wide ;;
  --lint)
    need "$linter"
    build=${2:-build/release}
    [ -f "$build/compile_commands.json" ] || {
      echo "tidy: $build/compile_commands.json is missing: cmake --preset release" >&2
      exit 2
    }
    mapfile -t files < <(grep -o '"file": "[^"]*"' "$build/compile_commands.json" |
      cut -d'"' -f4 | grep -P "$lint_pattern" | sort -u)
    "$linter" --quiet -p "$build" "${files[@]}"
    ;;
  *) sed -n '2,6p' "$0" | cut -c3- >&2; exit 2 ;;
esac
