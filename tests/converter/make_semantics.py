# SPDX-License-Identifier: Apache-2.0
"""Writes small modules with typical uses of TorchScript, each with the expected outcome of hg-convert.

Usage: make_semantics.py FOLDER.

Every line of FOLDER/cases.txt has, separated by tabs: the file, the exit code, words of the message, sizes of n, the
--input options, and the --constant options with a leading "=". Conversion checks the result at two sizes, and with two
runs if there is state, so exit code 0 means that it equals libtorch's. Without torch it writes only a file `skipped`.
"""
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
try:
    import torch  # noqa: F401
except ImportError:
    (folder / "skipped").write_text("this Python has no torch\n")
    sys.exit(0)

from semantics import (  # noqa: E402,F401
    aliases,
    choices,
    complex,
    containers,
    control,
    decoding,
    edges,
    floats,
    integers,
    lengths,
    losses,
    memory,
    numbers,
    open_lists,
    ops,
    sequences,
    sizes,
    texts,
)
from semantics.case import lines  # noqa: E402

(folder / "cases.txt").write_text("".join(line + "\n" for line in lines))
