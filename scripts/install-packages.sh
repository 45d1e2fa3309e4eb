#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need. Idempotent; does nothing
# when all are there. Needs root (or sudo) only when something is missing. Called by test.sh and
# demo.sh.
set -euo pipefail

packages=(
  cmake ninja-build g++ ccache curl git pkg-config   # toolchain
  libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libgit2-dev libxxhash-dev
  libhwy-dev                                         # CPU kernels
  libboost1.81-dev libcurl4-openssl-dev prometheus-cpp-dev libpcre2-dev libutf8proc-dev
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  libdnnl-dev libopenblas-dev                        # measured CPU peers only
  gnuplot-nox                                        # the reports' plots
  python3 python3-dev python3-venv                   # the binding and test oracles
  clang-19 libclang-rt-19-dev                        # fuzz targets
  g++-aarch64-linux-gnu                              # the NEON build is compiled, not run
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-packages: need root for: ${missing[*]}" >&2
    exit 3
  fi
  as_root=(sudo)
fi
echo "install-packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
  "${missing[@]}"
