# SPDX-License-Identifier: Apache-2.0
"""Writes small modules with typical uses of TorchScript, each with the expected outcome of hg-convert.

Usage: make_semantics.py FOLDER.

Every line of FOLDER/cases.txt has, separated by tabs: the file, the exit code, words of the message, sizes of n, the
--input options, and the --constant options with a leading "=". Conversion checks the result at two sizes, and with two
runs if there is state, so exit code 0 means that it equals libtorch's. Without torch it writes only a file `skipped`.
"""
from maker import folder
from semantics import (  # noqa: F401
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
from semantics.case import lines

(folder / "cases.txt").write_text("".join(line + "\n" for line in lines))
