#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the documentation: the C++ reference in FOLDER/docs/api (Doxygen), the Python pages and the list of ops in
# FOLDER/docs/python (Sphinx). Warnings are errors.
#
#   scripts/docs.sh [FOLDER]      # build folder; default: build
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build}
scripts/install_deps.sh build vulkan converter python tests
python=$(scripts/python_environment.sh "$folder/python-environment" docs)
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "docs.sh: the pages of hg.nn and hg.torch need torch: $python -m pip install torch" >&2
  exit 1
fi
scripts/configure.sh "$folder" -DHG_PYTHON=ON -DPython_EXECUTABLE="$python"
cmake --build "$folder" --parallel "$(nproc)" --target python_docs
mkdir -p "$folder/docs/api"
HG_API_OUTPUT=$folder/docs/api HG_API_BUILD=$folder doxygen docs/api/Doxyfile
echo "$folder/docs/api/index.html"
echo "$folder/docs/python/index.html"
