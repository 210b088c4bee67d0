#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a running model: installs missing packages, builds what the demo needs in build/demo, converts a
# PyTorch model of handwritten digits and runs it. An interrupted run continues where it stopped.
#
#   scripts/demo.sh --options     prints the CMake options of the demo
set -euo pipefail
cd "$(dirname "$0")/.."

# The instruction sets of this processor; the portable baseline is always compiled.
simd_targets() {
  local flags
  flags=" $(grep -m1 -E '^(flags|Features)' /proc/cpuinfo 2>/dev/null | cut -d: -f2) "
  case $flags in
    *" avx512f "*" avx512bw "* | *" avx512bw "*" avx512f "*) echo avx512 ;;
    *" avx2 "*) echo avx2 ;;
    *" sse4_1 "*) echo sse4 ;;
  esac
}
options=("-DHG_SIMD_TARGETS=$(simd_targets)" -DHG_EXTRAS=OFF -DHG_TORCHSCRIPT_ONLY=ON -DHG_SMALL=ON -DHG_COLD_FLAGS=-O0 -DHG_VULKAN=OFF -DHG_IO=OFF -DHG_TEXT=OFF
         -DHG_SHARED=OFF -DHG_TOOLS=OFF -DHG_TESTS=OFF -DHG_BENCH=OFF -DHG_SAMPLES=ON)
if [ "${1:-}" = --options ]; then
  printf '%s\n' "${options[@]}"
  exit
fi
build=build/demo

# make TARGET...: prints the steps done and an estimate of the time left, on a terminal in one line.
make() {
  local begin=$SECONDS line last=-1 tail=$'\n'
  if [ -t 1 ]; then tail=$'\r'; fi
  cmake --build $build --parallel "$(nproc)" --target "$@" | while IFS= read -r line; do
    if [[ $line =~ ^\[\ *([1-9][0-9]*)/([0-9]+)\] ]]; then
      local done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} spent=$((SECONDS - begin))
      local tenth=$((10 * done / all))
      if [ -t 1 ] || [ $tenth -ne $last ]; then
        printf '  %d of %d files, %d s, about %d s left   %s' "$done" "$all" "$spent" $((spent * (all - done) / done)) "$tail"
      fi
      last=$tenth
    else
      printf '%s\n' "$line"
    fi
  done
  printf '  built %s in %d s              \n' "$*" $((SECONDS - begin))
}

scripts/install_deps.sh build tools
echo "building in $build: the core library for this processor, hg-convert for TorchScript without optimization, the digits sample"
echo "the full build: cmake -S . -B build && cmake --build build --parallel"
if [ -z "$(scripts/install_deps.sh --missing converter)" ]; then
  scripts/configure.sh $build "${options[@]}" -DHG_CONVERTER=ON
else
  # libtorch is large: it is downloaded while the library is built, which does not need it.
  scripts/install_deps.sh converter &
  installing=$!
  trap wait EXIT
  scripts/configure.sh $build "${options[@]}" -DHG_CONVERTER=OFF
  make hologram
  wait $installing
  scripts/configure.sh $build "${options[@]}" -DHG_CONVERTER=ON
fi
make hg-convert digits

echo "$ hg-convert samples/digits/digits.pt -o $build/digits.hgm --input image:f32[n,1,8,8]"
$build/bin/hg-convert samples/digits/digits.pt -o $build/digits.hgm --input 'image:f32[n,1,8,8]'
echo "$ digits $build/digits.hgm samples/digits"
$build/bin/digits $build/digits.hgm samples/digits
