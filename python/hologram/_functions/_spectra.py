# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues, singular values and what follows from them, as those of torch.linalg."""

import math

from .. import _rows
from ._matrices import _require_square, _turned
from ._norms import matrix_norm
from ._shapes import select
from ._sizes import dtype_of, is_complex, shape_of
from ._systems import bound_of, inv_ex, still, symmetric
from ._table import define, torch_function


def _uses_upper(name, UPLO):
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ValueError(f"{name}: UPLO is {UPLO!r}, expected 'L' or 'U'")
    return UPLO.upper() == "U"


@torch_function()
def eigh(A, UPLO="L"):
    """Eigenvalues in ascending order and eigenvectors of symmetric matrices, of which one triangle is read."""
    return _rows.eigh(A, _uses_upper("eigh", UPLO))


@torch_function()
def eigvalsh(A, UPLO="L"):
    """Eigenvalues of symmetric matrices in ascending order."""
    return _rows.eigh(A, _uses_upper("eigvalsh", UPLO))[0]


def _spectrum(row, A):
    made = row(_rows.view_as_real(A), True) if is_complex(A) else row(A)
    return tuple(map(_rows.view_as_complex, made)) if isinstance(made, (tuple, list)) else _rows.view_as_complex(made)


define("eig", "Eigenvalues and eigenvectors of square matrices, which are complex.", lambda A: _spectrum(_rows.eig, A))
define("eigvals", "Eigenvalues of square matrices, which are complex.", lambda A: _spectrum(_rows.eigvals, A))


@torch_function()
def svdvals(A, *, driver=None):
    """The singular values in descending order."""
    if driver is not None:
        raise ValueError(f"svdvals: driver is {driver!r}, which is for CUDA; expected None")
    return _rows.svd(A)[1]


@torch_function()
def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """The number of singular values above tol, or above atol and rtol times the largest one."""
    if len(shape_of(A)) < 2:
        raise ValueError(f"matrix_rank: the input is {list(shape_of(A))}, expected matrices")
    if tol is not None and (atol is not None or rtol is not None):
        raise TypeError("matrix_rank() takes tol, or atol and rtol")
    if hermitian:
        _require_square("matrix_rank", A)
    x = still(A)
    values = _rows.svdvals(symmetric(x) if hermitian else x)
    bound = bound_of(x, values, atol if tol is None else tol, rtol if tol is None else 0.0)
    return _rows.sum(_rows.gt(values, bound), [-1])


@torch_function()
def cond(A, p=None):
    """The condition number by a matrix norm; None is 2. Infinite for singular matrices."""
    if len(shape_of(A)) < 2:
        raise ValueError(f"cond: the input is {list(shape_of(A))}, expected matrices")
    if p is None or not isinstance(p, str) and abs(p) == 2:
        if 0 in shape_of(A)[-2:]:
            return _rows.sum(A, [-2, -1])
        values = _rows.svd(A)[1]
        ends = select(values, -1, 0), select(values, -1, -1)
        return _rows.div(*(reversed(ends) if p == -2 else ends))
    _require_square("cond", A)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise ValueError(f"cond: p is {p!r}, expected None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    if shape_of(A)[-1] == 0:
        return _rows.sum(A, [-2, -1])
    inverse, info = inv_ex(A)
    product = _rows.mul(matrix_norm(A, p), matrix_norm(inverse if p != "nuc" else _rows.where(_rows.isnan(inverse), 0.0, inverse), p))
    return _rows.where(_rows.ne(info, 0), math.inf, product)


# -- Householder reflections ----------------------------------------------------------------------


def _reflectors(name, input, tau):
    """V with ones on its diagonal and zeros above, and T: the product of the reflections 1 - tau v v^T is 1 - V T V^T (Schreiber, Van
    Loan 1989)."""
    if len(shape_of(input)) < 2 or len(shape_of(tau)) != len(shape_of(input)) - 1 or tuple(shape_of(tau)[:-1]) != tuple(shape_of(input)[:-2]):
        raise ValueError(f"{name}: input is {list(shape_of(input))}, tau {list(shape_of(tau))}; expected matrices, and a vector for each")
    rows, columns, count = *shape_of(input)[-2:], shape_of(tau)[-1]
    if not count <= columns <= rows:
        raise ValueError(f"{name}: input is {list(shape_of(input))}, tau {list(shape_of(tau))}; expected rows >= columns >= elements of tau")
    if dtype_of(input) != dtype_of(tau):
        raise ValueError(f"{name}: input is {dtype_of(input)}, tau {dtype_of(tau)}; expected one dtype")
    v = _rows.add(_rows.tril(_rows.slice(input, dim=-1, start=0, end=count), -1), _rows.eye(rows, count, dtype_of(input)))
    scale = _rows.mul(_rows.eye(count, count, dtype_of(input)), _rows.reshape(tau, [*shape_of(tau), 1]))
    inner = _rows.add(_rows.matmul(scale, _rows.triu(_rows.matmul(_turned(v), v), 1)), _rows.eye(count, count, dtype_of(input)))
    return v, _rows.solve_triangular(inner, scale, upper=True, unitriangular=True)


@torch_function("orgqr")
def householder_product(input, tau):
    """The first columns of the product of Householder reflections, whose vectors are below the diagonal of the input."""
    v, t = _reflectors("householder_product", input, tau)
    rows, columns = shape_of(input)[-2:]
    first = _turned(_rows.slice(v, dim=-2, start=0, end=columns))
    return _rows.sub(_rows.eye(rows, columns, dtype_of(input)), _rows.matmul(v, _rows.matmul(t, first)))


@torch_function()
def ormqr(input, tau, other, left=True, transpose=False):
    """The product Q of Householder reflections times other, or other times Q without ``left``; with ``transpose`` of Q^T."""
    v, t = _reflectors("ormqr", input, tau)
    if len(shape_of(other)) != len(shape_of(input)) or shape_of(other)[-2 if left else -1] != shape_of(input)[-2]:
        raise ValueError(f"ormqr: input is {list(shape_of(input))}, other {list(shape_of(other))}; the sizes differ")
    t = _turned(t) if transpose else t
    if left:
        return _rows.sub(other, _rows.matmul(v, _rows.matmul(t, _rows.matmul(_turned(v), other))))
    return _rows.sub(other, _rows.matmul(_rows.matmul(_rows.matmul(other, v), t), _turned(v)))
