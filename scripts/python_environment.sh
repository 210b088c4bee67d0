#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Creates a virtual environment to build and test the Python package in; it also sees the system's packages, such as
# numpy and torch. Prints the path of its Python; quick if the environment exists.
#
#   scripts/python_environment.sh FOLDER [docs] [engines]
#
# docs: Sphinx and tools that run notebooks. engines: Ray and Spark; Spark needs Java (install_deps.sh engines).
set -euo pipefail
declare -A groups=([docs]="sphinx myst_parser nbclient ipykernel" [engines]="ray pyspark pandas pyarrow")
folder=$1
python=$folder/bin/python3
if ! "$python" -c 'import nanobind, pytest, numpy' 2>/dev/null; then
  python3 -m venv --system-site-packages "$folder" >&2
  "$python" -m pip install --quiet --disable-pip-version-check 'nanobind>=2.4' pytest >&2
  "$python" -c 'import numpy' 2>/dev/null || "$python" -m pip install --quiet numpy >&2
fi
for group in "${@:2}"; do
  [ -n "${groups[$group]:-}" ] || { echo "$0: there is no group '$group'" >&2; exit 1; }
  for module in ${groups[$group]}; do
    "$python" -c "import $module" 2>/dev/null || "$python" -m pip install --quiet --disable-pip-version-check "$module" >&2
  done
done
echo "$(cd "$folder" && pwd)/bin/python3"
