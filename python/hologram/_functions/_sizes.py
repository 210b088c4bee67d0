# SPDX-License-Identifier: Apache-2.0
"""Sizes, dims and dtypes of any kind of tensor. Open sizes of a graph's values are text."""

import operator

import numpy as np

from .. import _rows


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


def at_rank(dim, rank, name="dim"):
    """A dim from 0 to rank - 1; one of rank 0 counts as a dim of size 1."""
    dim = operator.index(dim)
    least = max(rank, 1)
    if not -least <= dim < least:
        raise IndexError(f"{name} is {dim}, expected {-least} to {least - 1}")
    return dim + least if dim < 0 else dim


def dims_of(dim, rank):
    """One dim or several as a list from 0 to rank - 1; repeated dims are rejected."""
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
