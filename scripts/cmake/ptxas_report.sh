#!/usr/bin/env bash
# Compiler launcher of the CUDA variants: runs the command, keeps what ptxas -v said beside the
# object (NAME.o.ptxas.txt), and fails the build on what must never be shipped: serialised wgmma
# (C7507..C7515) and, unless told otherwise, register spills. Called by
# src/kernels/cuda/CMakeLists.txt only.
#   ptxas_report.sh [--allow-spills] COMMAND...
set -u
allow_spills=${SPLITWAVE_ALLOW_SPILLS:-0}  # 1: a build for a checker, never shipped
if [ "${1:-}" = "--allow-spills" ]; then allow_spills=1; shift; fi
object=""
previous=""
for argument in "$@"; do
  [ "$previous" = "-o" ] && object=$argument
  previous=$argument
done
report=${object:-/dev/null}
[ "$report" = /dev/null ] || report=$object.ptxas.txt

text=$("$@" 2>&1)
status=$?
printf '%s\n' "$text" >"$report"
# Everything that is not the resource report is the compiler's message to whoever builds.
printf '%s\n' "$text" | grep -vE '^ptxas info|^    [0-9]+ bytes stack frame|^$' >&2
[ $status -eq 0 ] || exit $status

if grep -qE 'C75(0[7-9]|1[0-5])' "$report"; then
  echo "ptxas_report: $object: wgmma was serialised or setmaxnreg ignored:" >&2
  grep -E 'C75(0[7-9]|1[0-5])' "$report" >&2
  rm -f "$object"
  exit 1
fi
if [ $allow_spills -eq 0 ] && grep -E 'bytes spill' "$report" |
    grep -qvE ' 0 bytes spill stores, 0 bytes spill loads'; then
  echo "ptxas_report: $object: register spills:" >&2
  grep -E 'Compiling entry|bytes spill' "$report" >&2
  rm -f "$object"
  exit 1
fi
exit 0
