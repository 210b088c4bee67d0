#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Libraries that a cross build takes from Debian. Header-only libraries are linked into a folder of their own, because
# the C library headers next to them belong to this system. GoogleTest is compiled.
#
#   scripts/cross_libraries.sh PREFIX                      the headers
#   scripts/cross_libraries.sh PREFIX OPTIONS_OF_CMAKE     and GoogleTest, for the compiler that the options name
set -euo pipefail
mkdir -p "$1/include" "$1/lib/cmake"
prefix=$(realpath "$1")
shift
for folder in flatbuffers hwy CLI nlohmann; do
  if [ -d "/usr/include/$folder" ]; then ln -sfn "/usr/include/$folder" "$prefix/include/$folder"; fi
done
for name in CLI11 nlohmann_json; do
  mkdir -p "$prefix/lib/cmake/$name"
  cat >"$prefix/lib/cmake/$name/${name}Config.cmake" <<CMAKE
add_library(${name}::${name} INTERFACE IMPORTED)
set_target_properties(${name}::${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "$prefix/include")
CMAKE
done
[ $# -gt 0 ] || exit 0
cmake -S /usr/src/googletest -B "$prefix/googletest" -DBUILD_GMOCK=OFF -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_INSTALL_PREFIX="$prefix" -Wno-dev -Wno-deprecated "$@" >"$prefix/googletest.log"
cmake --build "$prefix/googletest" --parallel "$(nproc)" >>"$prefix/googletest.log"
cmake --install "$prefix/googletest" >>"$prefix/googletest.log"
