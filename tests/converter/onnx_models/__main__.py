#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX models made by hand: converted, run, and compared with numpy or onnx's reference evaluator.

usage: onnx_models BIN WORK
Exits with 77 if Python has no onnx.
"""
import argparse, pathlib, shutil, sys

try:
    import onnx  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

folder = pathlib.Path(__file__).parent
sys.path[:0] = [str(folder), str(folder.parent / "onnx_runtime"), str(folder.parent)]
import loading  # noqa: E402
import models  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("work", type=pathlib.Path)
given = parser.parse_args()
shutil.rmtree(given.work, ignore_errors=True)
given.work.mkdir(parents=True)
sys.exit(1 if sum(check(given) for check in models.CHECKS + loading.CHECKS) else 0)
