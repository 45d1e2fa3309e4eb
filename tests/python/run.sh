#!/usr/bin/env bash
# Builds the wheel against this build's libsplitwave, installs it into an environment of its own and
# runs tests/python there. Called by ctest: run.sh PYTHON CMAKE BUILD_DIR, in the project's root.
set -euo pipefail
python=$1 cmake=$2 build=$3
work=$build/python
# A user's overrides must not reach the tests; pip must not look at the user's own packages.
for name in $(compgen -e | grep '^SPLITWAVE_' || true); do unset "$name"; done
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

wanted=$(cat tests/python/requirements.txt; "$python" --version)
if [ "$(cat "$work/venv/wanted" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$work/venv"
  "$python" -m venv "$work/venv"
  if ! "$work/venv/bin/pip" install -q -r tests/python/requirements.txt; then
    echo "tests/python: pip could not install tests/python/requirements.txt; is PyPI reachable?" >&2
    echo "tests/python: configure with -DSPLITWAVE_PYTHON=OFF to leave the package out" >&2
    exit 1
  fi
  printf '%s\n' "$wanted" > "$work/venv/wanted"
fi

rm -rf "$work/prefix" "$work/wheel"
"$cmake" --install "$build" --component library --prefix "$work/prefix" > /dev/null
"$work/venv/bin/pip" wheel -q --no-build-isolation --no-deps --no-index -w "$work/wheel" \
  -C build-dir="$work/extension" -C cmake.define.SPLITWAVE_PREBUILT="$work/prefix" ./python
"$work/venv/bin/pip" install -q --no-index --no-deps --force-reinstall "$work"/wheel/*.whl
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider -rs tests/python
