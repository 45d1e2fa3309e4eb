#!/usr/bin/env bash
# scripts/packaging: the unit with its drop-in passes systemd-analyze verify, and a broken drop-in
# does not.
# Usage: units_test.sh SOURCE_DIR. Exit status 77 where systemd-analyze is missing.
set -euo pipefail
command -v systemd-analyze >/dev/null || { echo "skipped: no systemd-analyze"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$1"/scripts/packaging/splitwave.service "$1"/scripts/packaging/splitwave.service.d "$work"
out=$(systemd-analyze verify --man=no "$work/splitwave.service" 2>&1) || { echo "$out"; exit 1; }
[ -z "$out" ] || { echo "$out"; exit 1; }
# A test that cannot fail is none: an unknown directive must be reported.
echo "Environmant=x" >>"$work/splitwave.service.d/plan.conf"
out=$(systemd-analyze verify --man=no "$work/splitwave.service" 2>&1) || true
case $out in *Environmant*) ;; *) echo "a broken drop-in went unnoticed: $out"; exit 1 ;; esac
