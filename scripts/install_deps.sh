#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing packages of the named groups on Debian 12 or a derivative; quick if nothing is missing.
# With --missing it only lists them.
#
#   scripts/install_deps.sh [--missing] [build] [blas] [vulkan] [converter] [tools] [text] [tests]   (default: these)
#                           [python] [engines] [pictures] [arm] [arm32] [windows] [musl] [wasm] [avx512] [openmp] [fuzz]
set -euo pipefail

declare -A packages=(
  [build]="g++ cmake ninja-build libhwy-dev libflatbuffers-dev flatbuffers-compiler"
  [blas]="libopenblas-openmp-dev"
  [vulkan]="libvulkan-dev spirv-headers glslang-tools"
  [converter]="libtorch-dev libseccomp-dev libzip-dev libssl-dev libprotobuf-dev protobuf-compiler nlohmann-json3-dev"
  [tools]="libcli11-dev nlohmann-json3-dev"
  [text]="libicu-dev libonig-dev nlohmann-json3-dev"
  [tests]="libgtest-dev libcpp-httplib-dev doxygen dpkg-dev file pkg-config python3 python3-numpy python3-torch mesa-vulkan-drivers vulkan-validationlayers spirv-tools"
  [python]="python3 python3-dev python3-venv python3-numpy libzip-dev libssl-dev libprotobuf-dev protobuf-compiler nlohmann-json3-dev libcli11-dev"
  [engines]="default-jre-headless"
  [pictures]="librsvg2-bin"
  [arm]="g++-aarch64-linux-gnu qemu-user-static libgtest-dev:arm64"
  [arm32]="g++-arm-linux-gnueabihf qemu-user-static googletest"
  [windows]="g++-mingw-w64-x86-64-posix wine64 wine googletest"
  [musl]="python3-venv googletest"
  [wasm]="emscripten nodejs chromium fonts-dejavu-core googletest"
  [openmp]="clang-14 libomp-14-dev"
  [fuzz]="clang-14 libclang-rt-14-dev"
  [avx512]="bochs bochs-term bochsbios vgabios grub-pc-bin grub-common xorriso mtools busybox-static cpio"
)
# Programs that may come from elsewhere, such as pip's cmake.
declare -A programs=([cmake]=cmake [ninja-build]=ninja [g++]=g++ [python3]=python3
                    [pkg-config]=pkg-config [glslang-tools]=glslangValidator [default-jre-headless]=java [nodejs]=node)

# pip's torch holds a libtorch too.
pip_torch() {
  python3 - 2>/dev/null <<'PYTHON'
import importlib.util, pathlib, sys
spec = importlib.util.find_spec("torch")
header = spec and pathlib.Path(spec.submodule_search_locations[0], "include", "ATen", "ATen.h")
sys.exit(0 if header and header.is_file() else 1)
PYTHON
}

installed() {
  local program=${programs[$1]:-}
  if [ -n "$program" ] && command -v "$program" >/dev/null; then return 0; fi
  case $1 in
    libtorch-dev | python3-torch) if pip_torch; then return 0; fi ;;
    python3-dev) if python3 -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())' 2>/dev/null; then return 0; fi ;;
    python3-venv) if python3 -c 'import ensurepip' 2>/dev/null; then return 0; fi ;;
    python3-numpy) if python3 -c 'import numpy' 2>/dev/null; then return 0; fi ;;
  esac
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

only_list=0
if [ "${1:-}" = --missing ]; then
  only_list=1
  shift
fi
missing=()
for group in "${@:-build blas vulkan converter tools text tests}"; do
  for name in $group; do
    [ -n "${packages[$name]:-}" ] || { echo "$0: there is no group '$name'" >&2; exit 1; }
    for package in ${packages[$name]}; do
      installed "$package" || missing+=("$package")
    done
  done
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ $only_list = 1 ]; then
  printf '%s\n' "${missing[@]}"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "$0: run as root, to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
if [[ " ${missing[*]}" == *:arm64* ]]; then "${as_root[@]}" dpkg --add-architecture arm64; fi
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
