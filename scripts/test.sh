#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must hold: installs what is missing, builds everything, runs every test. If both pip's torch and
# Debian's libtorch are installed, the converter is tested with each. If ../shared exists next to the checkout, seeded
# samples of its suites also run. Ends with ctest's closing lines.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

scripts/install_deps.sh build blas vulkan converter tools tests python
options=(-DHG_VULKAN=ON -DHG_TOOLS=ON -DHG_TESTS=ON -DHG_CONVERTER=ON -DHG_SAMPLES=ON -DHG_BENCH=ON)
if python=$(scripts/python_environment.sh build/venv docs || scripts/python_environment.sh build/venv); then
  options+=(-DHG_PYTHON=ON -DPython_EXECUTABLE="$python")
else
  echo "the Python package is left out: pip cannot install what it is built with"
fi
scripts/configure.sh build "${options[@]}"
cmake --build build --parallel "$jobs"

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

other=0
# pip's, unlike Debian's python3-torch, which is libtorch-dev again.
is_pip() { [[ $1 == */site-packages/* || ($1 == */dist-packages/* && $1 != /usr/lib/python3/*) ]]; }
if is_pip "$(sed -n 's/^HG_TORCH_INCLUDE:PATH=//p' build/CMakeCache.txt)" &&
   installed libtorch-dev && installed python3-torch; then
  other=1
  echo "== the converter with Debian's libtorch"
  scripts/configure.sh build-debian-torch -DHG_TORCH=debian -DHG_VULKAN=OFF -DHG_TESTS=ON
  cmake --build build-debian-torch --parallel "$jobs" --target converter_tests
  ctest --test-dir build-debian-torch --output-on-failure -j "$jobs" -L converter
fi

if [ -d ../shared/conformance ]; then
  echo "== samples of the suites in ../shared"
  python3 tests/suites/run.py --shared ../shared --hg-bin build/bin --work build/suites
fi

[ $other = 1 ] || echo "== one libtorch is installed; the converter is tested with that"
echo "== all tests, files damaged for a minute by the five fuzz targets together"
HG_FUZZ_SECONDS=${HG_FUZZ_SECONDS:-12} ctest --test-dir build --output-on-failure -j "$jobs"
