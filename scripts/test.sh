#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything and runs every test. If ../shared exists beside the checkout, seeded samples of
# its suites run too. Ends with ctest's closing lines.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

scripts/install_deps.sh build blas vulkan converter tools text tests python
options=(-DHG_VULKAN=ON -DHG_TOOLS=ON -DHG_TESTS=ON -DHG_CONVERTER=ON -DHG_SAMPLES=ON -DHG_BENCH=ON)
if python=$(scripts/python_environment.sh build/venv docs || scripts/python_environment.sh build/venv); then
  options+=(-DHG_PYTHON=ON -DPython_EXECUTABLE="$python")
else
  echo "the Python package is left out: pip cannot install what it is built with"
fi
scripts/configure.sh build "${options[@]}"
cmake --build build --parallel "$jobs"
if [ -f build/build_time.jsonl ]; then  # .ci/run records it
  echo "== what the build took"
  bench/build_time.py build --report --compare --files 5
fi

if [ -d ../shared/conformance ]; then
  echo "== samples of the suites in ../shared"
  python3 tests/suites/run.py --shared ../shared --hg-bin build/bin --work build/suites
fi

echo "== all tests, files damaged for a minute by the five fuzz targets together"
HG_FUZZ_SECONDS=${HG_FUZZ_SECONDS:-12} ctest --test-dir build --output-on-failure -j "$jobs"
