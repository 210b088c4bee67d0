#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A virtual environment with what the Python package is built and tested with, beside what the machine's
# Python has, such as numpy and torch. Prints the path of its Python; quick where it is there.
#
#   scripts/python_environment.sh FOLDER [docs] [engines]
#
# docs: Sphinx and what runs notebooks. engines: Ray and Spark, which needs Java (install_deps.sh engines).
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
