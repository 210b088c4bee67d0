# SPDX-License-Identifier: Apache-2.0
"""LU factors, and equations of tensors, as those of torch.linalg."""

import numpy as np

from .. import _rows
from ._matrices import _inverse, _turned, mm
from ._shapes import narrow, permute, to_shape, unsqueeze
from ._sizes import dims_of, dtype_of, product, shape_of
from ._table import define, torch_function

define("inv", "The inverses of square matrices.", lambda A: _inverse(A))


@torch_function()
def lu_factor(A, *, pivot=True):
    """L (without its diagonal of ones) and U in one matrix, and the successive exchanges of rows, from 1."""
    if not pivot:
        raise ValueError("lu_factor: pivot=False is not supported, expected True")
    both, pivots, _ = _rows.lu(A)
    return both, pivots


def _require_pivots(name, pivots):
    if dtype_of(pivots) != "int32":
        raise ValueError(f"{name}: pivots is {dtype_of(pivots)}{list(shape_of(pivots))}, expected int32 as lu_factor() returns them")


@torch_function()
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """P, L and U of the results of ``lu_factor``; parts that are not asked for are empty."""
    _require_pivots("lu_unpack", LU_pivots)
    rows, columns = shape_of(LU_data)[-2:]
    dtype, least = dtype_of(LU_data), min(rows, columns)
    permutation = lower = upper = _rows.full([0], 0.0, dtype)
    if unpack_pivots:
        order = _rows.lu_rows(LU_pivots, rows)
        permutation = _rows.cast(_rows.eq(unsqueeze(order, -2), np.arange(rows)[:, None]), dtype)
    if unpack_data:
        lower = _rows.add(_rows.tril(narrow(LU_data, -1, 0, least), -1), _rows.eye(rows, least, dtype))
        upper = _rows.triu(narrow(LU_data, -2, 0, least), 0)
    return permutation, lower, upper


@torch_function()
def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """Solves A X = B, or X A = B without ``left``, from the results of ``lu_factor``; with ``adjoint`` for A^T."""
    _require_pivots("lu_solve", pivots)
    shape, n = shape_of(LU), shape_of(LU)[-1] if shape_of(LU) else 0
    if len(shape) < 2 or shape[-2] != n or len(shape_of(B)) < 2 or shape_of(B)[-2 if left else -1] != n:
        raise ValueError(f"lu_solve: LU is {list(shape)}, B {list(shape_of(B))}; expected square matrices and {'rows' if left else 'columns'} of B of their size")
    if dtype_of(LU) != dtype_of(B):
        raise ValueError(f"lu_solve: LU is {dtype_of(LU)}, B {dtype_of(B)}; expected one dtype")
    x = B if left else _turned(B)
    batch = list(np.broadcast_shapes(shape[:-2], shape_of(x)[:-2]))
    LU, x = (_rows.expand(each, batch + list(shape_of(each)[-2:])) for each in (LU, x))
    order = _rows.expand(_rows.lu_rows(pivots, n), batch + [n])

    def reordered(x, rows):
        return _rows.gather(x, _rows.expand(unsqueeze(rows, -1), list(shape_of(x))), -2)

    if left != adjoint:
        y = _rows.solve_triangular(LU, reordered(x, order), upper=False, unitriangular=True)
        x = _rows.solve_triangular(LU, y, upper=True)
    else:
        y = _rows.solve_triangular(_turned(LU), x, upper=False)
        y = _rows.solve_triangular(_turned(LU), y, upper=True, unitriangular=True)
        x = reordered(y, _rows.sort(order, -1)[1])
    return x if left else _turned(x)


@torch_function()
def multi_dot(tensors):
    """The product of matrices; the first and the last one may be vectors."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise ValueError(f"multi_dot: expected at least 2 tensors, {len(tensors)} are given")
    first, last = len(shape_of(tensors[0])) == 1, len(shape_of(tensors[-1])) == 1
    if first:
        tensors[0] = unsqueeze(tensors[0], 0)
    if last:
        tensors[-1] = unsqueeze(tensors[-1], 1)
    made = tensors[0]
    for each in tensors[1:]:
        made = mm(made, each)
    rows, columns = shape_of(made)
    return to_shape(made, ([] if first else [rows]) + ([] if last else [columns]))


@torch_function()
def tensorinv(input, ind=2):
    """The inverse of the matrix whose rows are the first ``ind`` dims, with the dims exchanged."""
    shape = list(shape_of(input))
    if ind < 1 or product(shape[:ind]) != product(shape[ind:]):
        raise ValueError(f"tensorinv: input is {shape}, ind {ind}; expected ind > 0 and as many elements in the first {ind} dims as in the others")
    n = product(shape[:ind])
    return to_shape(_inverse(to_shape(input, [n, n])), shape[ind:] + shape[:ind])


@torch_function()
def tensorsolve(input, other, dims=None):
    """Solves tensordot(input, X, X.ndim) = other; ``dims`` of input go to its end first."""
    if dims is not None:
        rank = len(shape_of(input))
        moved = dims_of(list(dims), rank)
        input = permute(input, [d for d in range(rank) if d not in moved] + moved)
    rest = list(shape_of(input))[len(shape_of(other)) :]
    if product(rest) != product(shape_of(other)):
        raise ValueError(f"tensorsolve: input is {list(shape_of(input))}, other {list(shape_of(other))}; expected {product(shape_of(other))} elements in the last dims of input, as in other")
    n = product(rest)
    return to_shape(_rows.solve(to_shape(input, [n, n]), to_shape(other, [n, 1])), rest)


@torch_function()
def vander(x, N=None, increasing=False):
    """The powers of the elements of vectors along a new last dim: x^(N-1) ... x^0, or in increasing order as torch.linalg.vander."""
    if not shape_of(x) or N is not None and N < 0:
        raise ValueError(f"vander: x is {list(shape_of(x))}, N {N}; expected vectors and N from 0")
    n = shape_of(x)[-1] if N is None else N
    if dtype_of(x) in ("bool", "uint8", "int8", "int16", "int32"):
        x = _rows.cast(x, "int64")
    powers = list(range(n)) if increasing else list(range(n - 1, -1, -1))
    return _rows.cast(_rows.pow(unsqueeze(x, -1), np.array(powers, "int64")), dtype_of(x))


def _pinverse(input, rcond):
    _, values, _ = _rows.svd(input)
    empty = 0 in shape_of(values)[-1:]
    bound = _rows.full([1], 0.0, dtype_of(input)) if empty else _rows.mul(_rows.amax(values, [-1], True), float(rcond))
    return _rows.pinv(input, bound)


define("pinverse", "The pseudoinverse; singular values up to rcond times the largest count as 0.", lambda input, rcond=1e-15: _pinverse(input, rcond))
