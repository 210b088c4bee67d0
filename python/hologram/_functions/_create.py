# SPDX-License-Identifier: Apache-2.0
"""Functions that make tensors. They return numpy arrays, or what the executor of ``with hg.Executor(...)`` returns."""

import math

from .. import _core, _rows
from ._sizes import dtype_of, element_of, shape_of, sizes_from
from ._table import torch_function


def _is_whole(value):
    return not isinstance(value, float) and dtype_of(value).startswith(("int", "uint", "bool"))


@torch_function()
def zeros(*size, dtype=None):
    """Zeros, float32 unless ``dtype`` says otherwise."""
    return _rows.full(sizes_from(size), 0.0, dtype or "float32")


@torch_function()
def ones(*size, dtype=None):
    """Ones, float32 unless ``dtype`` says otherwise."""
    return _rows.full(sizes_from(size), 1.0, dtype or "float32")


def full_(sizes, value, dtype):
    if dtype is None:
        dtype = "bool" if isinstance(value, bool) else "int64" if _is_whole(value) else "float32"
    dtype = _core.dtype_name(dtype)
    value = element_of(int(value) if _is_whole(value) else float(value), dtype)
    if dtype == "int64" and abs(value) > 2**53:  # the row's value is a double
        half = value // 2
        return _rows.add(_rows.expand(_rows.arange(start=half, end=half + 1), sizes), value - half)
    return _rows.full(sizes, float(value), dtype)


@torch_function()
def full(size, fill_value, *, dtype=None):
    """One number; its dtype is float32, int64 or bool, as the number's, unless ``dtype`` says otherwise."""
    return full_(sizes_from([size] if not isinstance(size, int) else [size]), fill_value, dtype)


@torch_function()
def zeros_like(input, *, dtype=None):
    """Zeros of the shape and dtype of the input."""
    return full_like_(input, 0, dtype)


@torch_function()
def ones_like(input, *, dtype=None):
    """Ones of the shape and dtype of the input."""
    return full_like_(input, 1, dtype)


@torch_function()
def full_like(input, fill_value, *, dtype=None):
    """One number, of the shape and dtype of the input."""
    return full_like_(input, fill_value, dtype)


def full_like_(x, value, dtype):
    # Selects between equal values, so that the result has the input's kind (array, Var, ...) whatever its elements.
    filled = full_([1], value, dtype or dtype_of(x))
    size = shape_of(x)
    picked = _rows.where(_rows.isnan(x) if dtype_of(x).startswith(("float", "bfloat")) else _rows.ne(x, x), filled, filled)
    return picked if shape_of(picked) == size else _rows.reshape(picked, list(size))


@torch_function()
def rand(*size, dtype=None):
    """Uniform numbers in [0, 1)."""
    return _rows.rand(sizes_from(size), dtype or "float32")


@torch_function()
def randn(*size, dtype=None):
    """Normal numbers of mean 0 and variance 1."""
    return _rows.randn(sizes_from(size), dtype or "float32")


@torch_function()
def arange(start=0, end=None, step=1, *, dtype=None):
    """Numbers from start up to, without, end; ``arange(end)`` starts at 0. int64 if all are integers, otherwise float32."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ValueError("arange: step is 0")
    if (end - start) * step < 0:
        raise ValueError(f"arange: step is {step}, which leads away from {end} at {start}")
    if all(_is_whole(each) for each in (start, end, step)):
        return _rows.arange(start=int(start), end=int(end), step=int(step), dtype=dtype or "int64")
    count = math.ceil((float(end) - float(start)) / float(step))
    made = _rows.arange(start=0, end=count, dtype="float64")
    made = _rows.add(_rows.mul(made, float(step)), float(start))
    return _rows.cast(made, dtype or "float32")


@torch_function()
def linspace(start, end, steps, *, dtype=None):
    """``steps`` numbers from start to end, in equal steps."""
    return _rows.linspace(start=float(start), end=float(end), steps=steps, dtype=dtype or "float32")


@torch_function()
def eye(n, m=None, *, dtype=None):
    """Ones on the diagonal of an n by m matrix, n by n without m."""
    return _rows.eye(n, n if m is None else m, dtype or "float32")
