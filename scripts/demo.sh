#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a running model: installs what is missing, builds the library and the converter, converts a
# PyTorch model, and runs it on handwritten digits.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(-DHG_VULKAN=OFF -DHG_TOOLS=OFF -DHG_TESTS=OFF -DHG_BENCH=OFF -DHG_SAMPLES=ON)

scripts/install_deps.sh build tools
# libtorch is large: it arrives while the library is built, which does without.
scripts/install_deps.sh converter &
installing=$!
trap wait EXIT
scripts/configure.sh build "${options[@]}" -DHG_CONVERTER=OFF
cmake --build build --parallel "$(nproc)" --target hologram
wait $installing
scripts/configure.sh build "${options[@]}" -DHG_CONVERTER=ON
cmake --build build --parallel "$(nproc)" --target hg-convert digits

echo '$ hg-convert samples/digits/digits.pt -o build/digits.hgm --input image:f32[n,1,8,8]'
build/bin/hg-convert samples/digits/digits.pt -o build/digits.hgm --input 'image:f32[n,1,8,8]'
echo '$ digits build/digits.hgm samples/digits'
build/bin/digits build/digits.hgm samples/digits
