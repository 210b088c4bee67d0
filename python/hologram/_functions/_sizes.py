# SPDX-License-Identifier: Apache-2.0
"""Sizes, dims and dtypes of any kind of tensor. Open sizes of a graph's values are text."""

import math
import operator
import sys

import numpy as np

from .. import _core, _rows


def shape_of(x):
    """The sizes as a tuple."""
    shape = getattr(x, "shape", None)
    return tuple(shape) if shape is not None else np.shape(x)


def dtype_of(x):
    """The dtype's name, "float32", also of numbers and lists."""
    if isinstance(x, bool):
        return "bool"
    if isinstance(x, (int, float)):
        return "int64" if isinstance(x, int) else "float32"
    dtype = getattr(x, "dtype", None)
    return str(dtype if dtype is not None else np.asarray(x).dtype).removeprefix("torch.")


def is_float(x):
    return dtype_of(x).startswith(("float", "bfloat"))


def is_complex(x):
    return dtype_of(x).startswith("complex")


def cast_to(x, dtype):
    """x as ``dtype``, or unchanged if that is None."""
    return x if dtype is None else _rows.cast(x, dtype)


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def range_of(dtype):
    """The least and the largest finite element of a real dtype."""
    if dtype == "bool":
        return 0, 1
    if dtype.startswith(("int", "uint")):
        bits = int(dtype.lstrip("uint"))
        return (0, 2**bits - 1) if dtype.startswith("uint") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    largest = _LARGEST.get(dtype, sys.float_info.max)
    return -largest, largest


def element_of(value, dtype):
    """The number as an element of ``dtype``, without its fraction in integers. As in PyTorch, one outside the range is an error;
    uint8 takes integers from -255."""
    is_whole = dtype.startswith(("int", "uint"))
    if not isinstance(value, float) and not -(2**63) <= value < 2**64:
        fits = False
    elif dtype == "bool":
        return bool(value)
    elif is_whole:
        least, most = range_of(dtype)
        if dtype == "uint8" and not isinstance(value, float):
            least = -most
        fits = math.isfinite(value) and least <= value <= most
    else:
        fits = not math.isfinite(value) or abs(value) <= _LARGEST.get(dtype, math.inf)
    if not fits:
        raise ValueError(f"the number {value} does not fit a tensor of {dtype}")
    return (int(value) % 256 if dtype == "uint8" else int(value)) if is_whole else float(value)


def common_dtype(*tensors):
    """The dtype of an elementwise result of tensors and numbers."""
    ranks = [-1 if isinstance(each, (bool, int, float)) else len(shape_of(each)) for each in tensors]
    return _core.common_dtype([dtype_of(each) for each in tensors], ranks)


def at_rank(dim, rank, name="dim"):
    """A dim from 0 to rank - 1; one of rank 0 counts as a dim of size 1."""
    dim = operator.index(dim)
    least = max(rank, 1)
    if not -least <= dim < least:
        raise IndexError(f"{name} is {dim}, expected {-least} to {least - 1}")
    return dim + least if dim < 0 else dim


def dims_of(dim, rank):
    """One dim or several as a list from 0 to rank - 1; repeated dims are rejected."""
    if type(dim) is int and -rank <= dim < rank:  # the usual call
        return [dim % rank]
    dims = [at_rank(each, rank) for each in (dim if isinstance(dim, (tuple, list)) else [dim])]
    if len(set(dims)) < len(dims):
        raise ValueError(f"a dim is given twice: {dims}")
    return [each for each in dims if rank]


def product(sizes):
    """The product, as text if a size is open."""
    number, texts = 1, []
    for each in sizes:
        if isinstance(each, str):
            texts.append(f"({each})")
        else:
            number *= int(each)
    if not texts or number == 0:
        return number
    return " * ".join(texts if number == 1 else [*texts, str(number)])


def plus(size, number):
    return f"({size}) + {number}" if isinstance(size, str) else size + number


def sizes_from(sizes, name="size"):
    """Sizes as PyTorch takes them: ``f(2, 3)`` and ``f((2, 3))``."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) or len(sizes) == 1 and hasattr(sizes[0], "__len__") and not isinstance(sizes[0], str):
        sizes = sizes[0]
    out = []
    for each in sizes:
        out.append(each if isinstance(each, str) else operator.index(each))
    return out


def resolved(shape, sizes):
    """``sizes`` with the size that -1 stands for in a tensor of ``shape``."""
    if sizes.count(-1) == 0:
        return sizes
    if sizes.count(-1) > 1:
        raise ValueError(f"only one size may be -1, the sizes are {sizes}")
    rest = [n for n in sizes if n != -1]
    open_sizes = [n for n in shape if isinstance(n, str)]
    left, given = [n for n in shape], list(rest)
    for each in open_sizes:
        if each in given:  # the same open size on both sides
            given.remove(each)
            left.remove(each)
    count, known = product(left), product(given)
    if isinstance(count, str) or isinstance(known, str):
        size = count if known == 1 else f"floordiv({count}, {known})"
    elif known == 0:
        raise ValueError(f"-1 may be any size beside the sizes {rest} of no elements")
    elif count % known:
        raise ValueError(f"shape {list(shape)} does not divide into {sizes}")
    else:
        size = count // known
    return [size if n == -1 else n for n in sizes]
