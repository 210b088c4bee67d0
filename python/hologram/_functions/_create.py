# SPDX-License-Identifier: Apache-2.0
"""Functions that make tensors. They return numpy arrays, or what the executor of ``with hg.Executor(...)`` returns."""

import math

import numpy as np

from .. import _core, _rows
from ._sizes import dtype_of, element_of, shape_of, sizes_from
from ._table import define, torch_function


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
        return _rows.add(_rows.expand(_rows.reshape(_rows.arange(start=half, end=half + 1), []), sizes), value - half)
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


def _has_float64(data):
    if isinstance(data, (tuple, list)):
        return any(map(_has_float64, data))
    return str(getattr(data, "dtype", None)).endswith("float64")


@torch_function("as_tensor", "asarray")
def tensor(data, *, dtype=None):
    """The elements of numbers, nested lists or an array. Numbers of Python are float32, int64 or bool, unless ``dtype`` says
    otherwise."""
    if dtype is None and not hasattr(data, "dtype"):
        is_wide = _has_float64(data)
        data = np.asarray(data)
        dtype = "float32" if data.dtype == np.float64 and not is_wide else None
    made = _rows.contiguous(data if hasattr(data, "dtype") else np.asarray(data))
    return made if dtype is None else _rows.cast(made, dtype)


@torch_function()
def logspace(start, end, steps, base=10.0, *, dtype=None):
    """The powers of ``base`` at ``steps`` exponents from start to end, in equal steps."""
    exponents = _rows.linspace(start=float(start), end=float(end), steps=steps, dtype="float64")
    return _rows.cast(_rows.pow(float(base), exponents), dtype or "float32")


def _indices_of(kept, row, col, offset, dtype):
    places = _rows.permute(_rows.nonzero(kept(_rows.full([row, col], 1.0, "uint8"), offset)), [1, 0])
    return _rows.cast(places, dtype or "int64")


def _scalar(value, dtype):
    if isinstance(value, float) and dtype.endswith("float16"):  # infinite beyond the range, as in PyTorch
        return _rows.full([], value, dtype)
    return full_([], value, dtype)


define("tril_indices", "Rows and columns of the lower triangle of a matrix.",
       lambda row, col, offset=0, *, dtype=None: _indices_of(_rows.tril, row, col, offset, dtype))  # fmt: skip
define("triu_indices", "Rows and columns of the upper triangle of a matrix.",
       lambda row, col, offset=0, *, dtype=None: _indices_of(_rows.triu, row, col, offset, dtype))  # fmt: skip
define("scalar_tensor", "A number as a tensor without dims.", lambda s, *, dtype=None:
       _scalar(s if isinstance(s, (bool, int, float)) else s.item(), _core.dtype_name(dtype or "float32")))  # fmt: skip
define("empty", "Zeros: no element is undefined.", lambda *size, dtype=None: _rows.full(sizes_from(size), 0.0, dtype or "float32"))
define("empty_like", "As zeros_like.", lambda input, *, dtype=None: full_like_(input, 0, dtype))


# -- Windows --------------------------------------------------------------------------------------


def _window(length, periodic, dtype, *cosines):
    """The sum of cosines of 2 pi k n / (length - 1) with alternating signs; a periodic one is a longer one without its end."""
    if length < 0:
        raise ValueError(f"the length of a window is {length}, expected at least 0")
    if length <= 1:
        return _rows.full([length], 1.0, dtype or "float32")
    at = _rows.mul(_rows.arange(start=0, end=length, dtype="float64"), 2 * math.pi / (length if periodic else length - 1))
    made = _rows.full([length], float(cosines[0]), "float64")
    for k, factor in enumerate(cosines[1:], 1):
        made = _rows.add(made, _rows.mul(_rows.cos(_rows.mul(at, float(k))), factor * (-1) ** k))
    return _rows.cast(made, dtype or "float32")


def _place(length, periodic):
    """From -1 at the begin to 1 at the end."""
    count = length if periodic else length - 1
    return _rows.sub(_rows.mul(_rows.arange(start=0, end=length, dtype="float64"), 2 / max(count, 1)), 1.0 if length > 1 else 0.0)


define("hann_window", "Hann's window.",
       lambda window_length, periodic=True, *, dtype=None: _window(window_length, periodic, dtype, 0.5, 0.5))  # fmt: skip
define("hamming_window", "Hamming's window.",
       lambda window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None: _window(window_length, periodic, dtype, alpha, beta))  # fmt: skip
define("blackman_window", "Blackman's window.",
       lambda window_length, periodic=True, *, dtype=None: _window(window_length, periodic, dtype, 0.42, 0.5, 0.08))  # fmt: skip
define("bartlett_window", "A triangle.", lambda window_length, periodic=True, *, dtype=None:
       _rows.cast(_rows.sub(1.0, _rows.abs(_place(window_length, periodic))), dtype or "float32"))  # fmt: skip
define("kaiser_window", "Kaiser's window.", lambda window_length, periodic=True, beta=12.0, *, dtype=None: _rows.cast(_rows.div(
       _rows.bessel_i0(_rows.mul(_rows.sqrt(_rows.clamp(_rows.sub(1.0, _rows.square(_place(window_length, periodic))), 0.0, None)), float(beta))),
       _rows.bessel_i0(_rows.full([1], float(beta), "float64"))), dtype or "float32"))  # fmt: skip
