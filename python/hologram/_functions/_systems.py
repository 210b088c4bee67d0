# SPDX-License-Identifier: Apache-2.0
"""Systems of linear equations, as those of torch.linalg. Functions with ``_ex`` report matrices without a solution instead of
failing, and return NaNs for them."""

import math

import numpy as np

from .. import _rows
from ._create import full_like_
from ._factors import lu_solve
from ._matrices import _identity, _require_square, _turned
from ._pools import require_eager
from ._shapes import narrow, ravel, squeeze, unsqueeze
from ._sizes import dtype_of, product, shape_of
from ._table import torch_function

_EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def _batched(name, a, b):
    """Both with the batch dims they broadcast to."""
    if dtype_of(a) != dtype_of(b):
        raise ValueError(f"{name}: A is {dtype_of(a)}, B {dtype_of(b)}; expected one dtype")
    shapes = [list(shape_of(each)) for each in (a, b)]
    if shapes[0][:-2] == shapes[1][:-2]:
        return a, b
    batch = list(np.broadcast_shapes(*(each[:-2] for each in shapes)))
    return tuple(_rows.expand(each, batch + shape[-2:]) for each, shape in zip((a, b), shapes))


def _is_vector(a, b):
    return len(shape_of(b)) == 1 or tuple(shape_of(b)) == tuple(shape_of(a)[:-1])


def _columns(name, a, b, left):
    """B as columns to solve for, and how to turn the solution back."""
    _require_square(name, a)
    is_vector = _is_vector(a, b)
    if is_vector and not left:
        raise ValueError(f"{name}: B is {list(shape_of(b))}; expected matrices, as left=False solves X A = B")
    b = unsqueeze(b, -1) if is_vector else b if left else _turned(b)
    if len(shape_of(b)) < 2 or shape_of(b)[-2] != shape_of(a)[-1]:
        raise ValueError(f"{name}: A is {list(shape_of(a))}, B {list(shape_of(b if left else _turned(b)))}; the sizes differ")
    return b, (lambda x: squeeze(x, -1)) if is_vector else (lambda x: x) if left else _turned


@torch_function()
def solve(A, B, *, left=True):
    """Solves A X = B, or X A = B without ``left``, for square matrices. B is a matrix, or a vector for each A."""
    b, back = _columns("solve", A, B, left)
    return back(_rows.solve(*_batched("solve", A if left else _turned(A), b)))


@torch_function()
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """Solves A X = B, or X A = B without ``left``, with one triangle of A."""
    _require_square("solve_triangular", A)
    if len(shape_of(B)) < 2 or shape_of(B)[-2 if left else -1] != shape_of(A)[-1]:
        raise ValueError(f"solve_triangular: A is {list(shape_of(A))}, B {list(shape_of(B))}; the sizes differ")
    a, b = (A, B) if left else (_turned(A), _turned(B))
    x = _rows.solve_triangular(*_batched("solve_triangular", a, b), upper=bool(upper) == bool(left), unitriangular=bool(unitriangular))
    return x if left else _turned(x)


# -- Factors and solutions that report errors -----------------------------------------------------


def _checked(name, info, check_errors, *results):
    if check_errors:
        require_eager(name, "checks a matrix now", info)
        most = np.max(np.asarray(_rows.cast(info, "int64").tolist()), initial=0)
        if most:
            raise ValueError(f"{name}: a matrix has no solution or factor: info is {most}")
    return (*results, info)


def _first(is_wrong):
    """Per row, the index of the first true element, from 1, or 0: int32."""
    n = shape_of(is_wrong)[-1]
    places = _rows.where(is_wrong, np.arange(1, n + 1), n + 1)
    least = _rows.amin(places, [-1]) if n else _rows.sum(places, [-1])
    return _rows.cast(_rows.where(_rows.le(least, n), least, 0), "int32")


def _zero_pivots(lu):
    return _rows.eq(_rows.diagonal(lu, 0, -2, -1), 0)


@torch_function()
def lu_factor_ex(A, *, pivot=True, check_errors=False):
    """As lu_factor, and the index of the first zero on the diagonal of U, from 1, or 0."""
    if not pivot:
        raise ValueError("lu_factor_ex: pivot=False is not supported, expected True")
    both, pivots, _ = _rows.lu(A)
    return _checked("lu_factor_ex", _first(_zero_pivots(both)), check_errors, both, pivots)


def _solved_ex(a, b):
    both, pivots, _ = _rows.lu(a)
    info = _first(_zero_pivots(both))
    is_singular = unsqueeze(unsqueeze(_rows.ne(info, 0), -1), -1)
    return _rows.where(is_singular, math.nan, lu_solve(_rows.where(is_singular, _identity(a), both), pivots, b)), info


@torch_function()
def solve_ex(A, B, *, left=True, check_errors=False):
    """As solve, and per matrix the index of the first zero pivot, from 1, or 0."""
    b, back = _columns("solve_ex", A, B, left)
    x, _ = _solved_ex(*_batched("solve_ex", A if left else _turned(A), b))
    return _checked("solve_ex", _first(_zero_pivots(_rows.lu(A if left else _turned(A))[0])), check_errors, back(x))


@torch_function()
def inv_ex(A, *, check_errors=False):
    """As inv, and per matrix the index of the first zero pivot, from 1, or 0."""
    _require_square("inv_ex", A)
    x, info = _solved_ex(A, _identity(A))
    return _checked("inv_ex", info, check_errors, x)


def _leading(a, k):
    return narrow(narrow(a, -2, 0, k), -1, 0, k)


def _is_definite(a):
    try:
        _rows.cholesky(a)
    except ValueError as error:
        if "positive definite" not in str(error):
            raise
        return False
    return True


def _failing_minors(lower):
    """Per matrix of [count, n, n], of which the lower triangle counts, the order of the first minor that is not positive, or 0."""
    count, n, _ = shape_of(lower)
    info = np.zeros(count, np.int32)
    if count * n and not _is_definite(lower):
        for i in range(count):
            matrix = _rows.reshape(narrow(lower, 0, i, 1), [n, n])
            info[i] = next((k for k in range(1, n + 1) if not _is_definite(_leading(matrix, k))), 0)
    return info


@torch_function()
def cholesky_ex(input, *, upper=False, check_errors=False):
    """As cholesky, and per matrix the order of the first leading minor that is not positive definite, or 0."""
    require_eager("cholesky_ex", "looks at the matrices now", input)
    _require_square("cholesky_ex", input)
    lower, shape = _turned(input) if upper else input, list(shape_of(input))
    failing = _failing_minors(_rows.reshape(_rows.detach(lower), [product(shape[:-2]), *shape[-2:]])).reshape(shape[:-2])
    info = _rows.add(_rows.cast(_rows.sum(full_like_(_rows.detach(input), 0, "int32"), [-2, -1]), "int32"), failing)
    is_wrong = (failing != 0)[..., None, None]
    made = _rows.cholesky(_rows.where(is_wrong, _identity(lower), lower) if failing.any() else lower)
    made = _rows.where(is_wrong, math.nan, made) if failing.any() else made
    return _checked("cholesky_ex", info, check_errors, _turned(made) if upper else made)


# -- Symmetric indefinite matrices ----------------------------------------------------------------


@torch_function()
def ldl_factor(A, *, hermitian=False):
    """A = L D L^T of symmetric matrices in one matrix, and LAPACK's pivots."""
    return _rows.ldl_factor(A)


@torch_function()
def ldl_factor_ex(A, *, hermitian=False, check_errors=False):
    """As ldl_factor, and zeros: singular matrices are an error here too."""
    both, pivots = _rows.ldl_factor(A)
    return both, pivots, _rows.cast(_rows.sum(_rows.ne(pivots, pivots), [-1]), "int32")


@torch_function()
def ldl_solve(LD, pivots, B, *, hermitian=False):
    """Solves A X = B from the results of ldl_factor."""
    shape = list(shape_of(LD))
    if len(shape) < 2 or len(shape_of(B)) < 2 or shape_of(B)[-2] != shape[-1]:
        raise ValueError(f"ldl_solve: LD is {shape}, B {list(shape_of(B))}; the sizes differ")
    LD, B = _batched("ldl_solve", LD, B)
    batch = list(shape_of(LD))[:-2]
    return _rows.ldl_solve(LD, B, pivots if shape[:-2] == batch else _rows.expand(pivots, [*batch, shape[-1]]))


# -- Least squares --------------------------------------------------------------------------------


def bound_of(x, values, atol, rtol):
    """Up to which size singular values count as 0, [..., 1]: the larger one of atol and rtol times the largest value."""
    rows, columns = shape_of(x)[-2:]
    if rtol is None:
        is_default = atol is None or isinstance(atol, (int, float)) and not atol > 0
        rtol = _EPSILON[dtype_of(x)] * max(rows, columns)
        if not is_default:  # a tensor decides per matrix
            rtol = 0.0 if isinstance(atol, (int, float)) else _rows.where(_rows.gt(atol, 0), 0.0, rtol)
    most = _rows.amax(values, [-1], True) if shape_of(values)[-1] else _rows.sum(values, [-1], True)

    def fit(bound):
        return float(bound) if isinstance(bound, (int, float)) else unsqueeze(_rows.cast(bound, dtype_of(x)), -1)

    relative = _rows.mul(most, fit(rtol))
    return relative if atol is None else _rows.maximum(relative, fit(atol))


def still(x):
    """x without a gradient."""
    return x.detach() if getattr(x, "requires_grad", False) else _rows.detach(x)


def symmetric(x):
    """The symmetric matrices that the lower triangles stand for."""
    return _rows.add(_rows.tril(x), _turned(_rows.tril(x, -1)))


@torch_function()
def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudoinverse. Singular values up to atol or rtol (rcond) times the largest one count as 0."""
    if rcond is not None and (atol is not None or rtol is not None):
        raise TypeError("pinv() takes rcond, or atol and rtol")
    values = _rows.svdvals(symmetric(still(A)) if hermitian else still(A))
    return _rows.pinv(A, bound_of(A, values, atol, rtol if rcond is None else rcond), hermitian=bool(hermitian))


@torch_function()
def lstsq(A, B, rcond=None, *, driver=None):
    """The X of least norm among those with the least |A X - B|: X, the squared residuals, the ranks and the singular values. As in
    torch, ``driver`` decides which of the last three are empty."""
    if driver not in (None, "gelsy", "gels", "gelsd", "gelss"):
        raise ValueError(f"lstsq: driver is {driver!r}, expected 'gels', 'gelsy', 'gelsd' or 'gelss'")
    if len(shape_of(A)) < 2:
        raise ValueError(f"lstsq: A is {list(shape_of(A))}, expected matrices")
    driver, is_vector, (rows, columns) = driver or "gelsy", _is_vector(A, B), shape_of(A)[-2:]
    b = unsqueeze(B, -1) if is_vector else B
    if len(shape_of(b)) < 2 or shape_of(b)[-2] != rows:
        raise ValueError(f"lstsq: A is {list(shape_of(A))}, B {list(shape_of(B))}; the numbers of rows differ")
    a, b = _batched("lstsq", A, b)
    values = _rows.svdvals(still(a))
    bound = bound_of(a, values, None, 0.0 if driver == "gels" else rcond)
    x = _rows.matmul(_rows.pinv(a, bound), b)
    rank = _rows.sum(_rows.gt(values, bound), [-1])
    none = narrow(ravel(values), 0, 0, 0)
    residuals = none
    if rows > columns and driver != "gelsy":
        require_eager("lstsq", "compares the ranks now", a, b)
        if driver == "gels" or _rows.all(_rows.eq(rank, columns)).item():
            residuals = _rows.sum(_rows.square(_rows.sub(_rows.matmul(a, x), b)), [-2])
    rank = _rows.cast(none, "int64") if driver == "gels" else rank
    return squeeze(x, -1) if is_vector else x, residuals, rank, values if driver in ("gelsd", "gelss") else none
