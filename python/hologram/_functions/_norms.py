# SPDX-License-Identifier: Apache-2.0
"""Norms of vectors and matrices, as those of torch.linalg."""

import math

from .. import _rows
from ._elements import conj
from ._shapes import permute, select, stack
from ._sizes import at_rank, cast_to, dims_of, dtype_of, is_complex, is_float, shape_of
from ._table import torch_function


def _sizes_of(x):
    """The absolute values of complex numbers; x otherwise, of which norms take the absolute values."""
    return _rows.norm(_rows.view_as_real(x), 2.0, [-1], False) if is_complex(x) else x


def _floats(name, x, dtype):
    x = cast_to(x, None if dtype is None else str(dtype).removeprefix("torch."))
    if not is_float(x) and not is_complex(x):
        raise ValueError(f"{name}: the input is {dtype_of(x)}, expected floats")
    return _sizes_of(x)


@torch_function()
def vector_norm(input, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The norm of the elements along dims, as vectors."""
    x, rank = _floats("vector_norm", input, dtype), len(shape_of(input))
    dims = list(range(rank)) if dim is None or not isinstance(dim, int) and not len(dim) else dims_of(dim, rank)
    if any(shape_of(x)[d] == 0 for d in dims) and (ord < 0 or ord == math.inf):
        raise ValueError(f"vector_norm: there is no element along dims {dims}, and no norm of order {ord}")
    return _rows.norm(x, float(ord), dims, keepdim)


@torch_function()
def matrix_norm(input, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """The norm of matrices: 'fro', 'nuc', or one of +-1, +-2, +-inf."""
    if not isinstance(ord, str) and abs(ord) not in (1, 2, math.inf) or isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise ValueError(f"matrix_norm: ord is {ord!r}, expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    rank = len(shape_of(input))
    if rank < 2 or len(dim) != 2:
        raise ValueError(f"matrix_norm: the input is {list(shape_of(input))}, dim {dim}; expected a matrix along two dims")
    if is_complex(input) and ord in ("nuc", 2, -2):
        raise ValueError(f"matrix_norm: ord {ord!r} of complex numbers is not supported")
    if dtype_of(input) in ("float16", "bfloat16") and ord in ("nuc", 2, -2):
        raise ValueError(f"matrix_norm: ord {ord!r} of {dtype_of(input)} is not supported, expected float32 or float64")
    x, (rows, columns) = _floats("matrix_norm", input, dtype), dims_of(list(dim), rank)
    if ord == "fro":
        return _rows.norm(x, 2.0, [rows, columns], keepdim)
    if abs(ord) == 2 if ord != "nuc" else True:
        others = [d for d in range(rank) if d not in (rows, columns)]
        _, values, _ = _rows.svd(permute(x, others + [rows, columns]))
        values = _rows.sum(values, [-1]) if ord == "nuc" else (_rows.amax if ord > 0 else _rows.amin)(values, [-1])
        if not keepdim:
            return values
        return _rows.reshape(values, [1 if d in (rows, columns) else n for d, n in enumerate(shape_of(x))])
    summed, left = (rows, columns) if abs(ord) == 1 else (columns, rows)
    y = _rows.sum(_rows.abs(x), [summed], True)
    y = (_rows.amax if ord > 0 else _rows.amin)(y, [left], True)
    return y if keepdim else _rows.reshape(y, [n for d, n in enumerate(shape_of(y)) if d not in (rows, columns)])


@torch_function()
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm of the elements along dims; 'nuc': of the matrices along two dims."""
    if p == "nuc":
        return nuclear_norm(cast_to(input, dtype), (0, 1) if dim is None and len(shape_of(input)) == 2 else dim or (-2, -1), keepdim)
    if isinstance(p, str) and p != "fro":
        raise ValueError(f"norm: p is {p!r}, expected a number, 'fro' or 'nuc'")
    dims = [] if dim is None else dims_of(dim, len(shape_of(input)))
    return _rows.norm(cast_to(input, dtype), 2.0 if p == "fro" else float(p), dims, keepdim)


@torch_function()
def renorm(input, p, dim, maxnorm):
    """Scales the slices along a dim whose p-norm exceeds maxnorm down to it."""
    rank = len(shape_of(input))
    if rank < 2 or not p > 0 or not maxnorm >= 0 or not (is_float(input) or is_complex(input)):
        raise ValueError(f"renorm: input is {dtype_of(input)}{list(shape_of(input))}, p {p}, maxnorm {maxnorm}; expected floats of at least 2 dims, p > 0 and maxnorm >= 0")
    kept = at_rank(dim, rank)
    sizes = _rows.norm(_sizes_of(input), float(p), [d for d in range(rank) if d != kept], True)
    factor = _rows.where(_rows.gt(sizes, float(maxnorm)), _rows.div(float(maxnorm), _rows.add(sizes, 1e-7)), 1.0)
    return _rows.mul(input, factor)


@torch_function()
def vecdot(x, y, *, dim=-1):
    """Sums of products along a dim, x conjugated."""
    if dtype_of(x) != dtype_of(y):
        raise ValueError(f"vecdot: x is {dtype_of(x)}, y {dtype_of(y)}; expected one dtype")
    if not is_float(x) and not is_complex(x):
        raise ValueError(f"vecdot: x is {dtype_of(x)}, expected floats or complex numbers")
    if not is_complex(x):
        return _rows.sum(_rows.mul(x, y), [dim])
    d = at_rank(dim, max(len(shape_of(x)), len(shape_of(y))))
    a, b = _rows.view_as_real(conj(x)), _rows.view_as_real(y)
    (ar, ai), (br, bi) = ([select(each, -1, k) for k in (0, 1)] for each in (a, b))
    parts = _rows.sub(_rows.mul(ar, br), _rows.mul(ai, bi)), _rows.add(_rows.mul(ar, bi), _rows.mul(ai, br))
    return _rows.view_as_complex(stack([_rows.sum(each, [d]) for each in parts], -1))


@torch_function()
def frobenius_norm(input, dim, keepdim=False):
    """The square root of the sum of squares along one or two dims, or all without dims."""
    return vector_norm(input, 2, dim, keepdim)


@torch_function()
def nuclear_norm(input, dim=(-2, -1), keepdim=False):
    """The sum of the singular values."""
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = (-2, -1), dim
    elif dim == (-2, -1) and len(shape_of(input)) != 2:
        raise ValueError(f"nuclear_norm: the input is {list(shape_of(input))}, expected a matrix, or dim=")
    return matrix_norm(input, "nuc", dim, keepdim)


@torch_function()
def norm_except_dim(v, pow=2, dim=0):
    """The norm along all dims but one; -1: of all elements."""
    rank = len(shape_of(v))
    if dim == -1:
        return _rows.norm(v, float(pow))
    kept = at_rank(dim, rank)
    return _rows.norm(v, float(pow), [d for d in range(rank) if d != kept], True)
