#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs cmake, with Ninja if available; prints errors, and which libtorch was chosen.
#
#   scripts/configure.sh FOLDER [options of cmake]
set -euo pipefail
folder=$1
shift
generator=()
if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake -S "$(dirname "$0")/.." -B "$folder" "${generator[@]}" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep -- '-- libtorch:' "$log" || true
