# SPDX-License-Identifier: Apache-2.0
"""Statistics, differences and integrals along dims."""

from .. import _rows as r
from ._create import full_like_
from ._elements import as_float
from ._reduce import amax, amin, mean as _mean, std as _std, sum as _sum, var as _var
from ._shapes import bounded, cat, movedim, narrow, ravel, select, to_shape, unsqueeze
from ._sizes import at_rank, cast_to, dims_of, dtype_of, is_float, shape_of
from ._table import define, functions


def _aminmax(input, dim, keepdim):
    dims = () if dim is None else (dim,)
    return amin(input, dims, keepdim), amax(input, dims, keepdim)


def _without_nans(input, dtype):
    x = cast_to(input, dtype)
    return r.where(r.isnan(x), 0.0, x) if is_float(x) else x


def _nanmean(input, dim, keepdim, dtype):
    x = cast_to(input, dtype)
    if not is_float(x):
        raise ValueError(f"nanmean: expected a tensor of floats, not of {dtype_of(x)}")
    count = _sum(r.logical_not(r.isnan(x)), dim, keepdim)
    return r.div(_sum(_without_nans(x, None), dim, keepdim), r.cast(count, dtype_of(x)))


define("aminmax", "The smallest and the largest element, along a dim or of all.",
       lambda input, *, dim=None, keepdim=False: _aminmax(input, dim, keepdim))  # fmt: skip
define("std_mean", "Standard deviation and mean along dims.",
       lambda input, dim=None, unbiased=None, keepdim=False, *, correction=None:
       (_std(input, dim, unbiased, keepdim, correction=correction), _mean(input, None if isinstance(dim, bool) else dim, keepdim)))  # fmt: skip
define("var_mean", "Variance and mean along dims.",
       lambda input, dim=None, unbiased=None, keepdim=False, *, correction=None:
       (_var(input, dim, unbiased, keepdim, correction=correction), _mean(input, None if isinstance(dim, bool) else dim, keepdim)))  # fmt: skip
define("nansum", "The sum of the elements that are not NaN.",
       lambda input, dim=None, keepdim=False, *, dtype=None: _sum(_without_nans(input, dtype), dim, keepdim))  # fmt: skip
define("nanmean", "The mean of the elements that are not NaN.",
       lambda input, dim=None, keepdim=False, *, dtype=None: _nanmean(input, dim, keepdim, dtype))  # fmt: skip
define("dist", "The p-norm of the difference.", lambda input, other, p=2: r.norm(ravel(r.sub(input, other)), float(p), [0]))


# -- Quantiles ------------------------------------------------------------------------------------


def _quantile(name, input, q, dim, keepdim, interpolation, skips_nan):
    shape, kinds = shape_of(input), ("linear", "lower", "higher", "nearest", "midpoint")
    if dtype_of(input) not in ("float32", "float64"):
        raise ValueError(f"{name}: expected float32 or float64, the input is {dtype_of(input)}")
    if interpolation not in kinds:
        raise ValueError(f"{name}: interpolation is {interpolation!r}, expected {', '.join(kinds)}")
    one = isinstance(q, (int, float)) or not shape_of(q)
    if isinstance(q, (int, float)):
        if not 0 <= q <= 1:
            raise ValueError(f"{name}: q is {q}, expected a number from 0 to 1")
    elif dtype_of(q) != dtype_of(input):
        raise ValueError(f"{name}: q is {dtype_of(q)}, the input {dtype_of(input)}; expected one dtype")
    if 0 in shape:
        raise ValueError(f"{name}: the input {list(shape)} has no elements")
    d = 0 if dim is None else at_rank(dim, len(shape))
    x = ravel(input) if dim is None or not shape else movedim(input, d, -1)
    s = r.sort(x, -1, False)[0]
    is_there = r.logical_not(r.isnan(s))
    count = r.cast(r.sum(is_there, [-1], True), dtype_of(s))
    size = shape_of(s)[-1]
    last = r.clamp(r.sub(count, 1.0), 0.0, None) if skips_nan else float(size - 1)
    place = r.mul(last, q) if one else r.mul(r.mul(r.add(r.mul(count, 0.0), 1.0), last), q)  # [..., q]
    if one:
        place = r.add(r.mul(count, 0.0), place)
    if not skips_nan:  # NaNs are the last elements
        place = r.where(r.lt(count, float(size)), float(size - 1), place)

    def at(p):
        return r.gather(s, r.cast(p, "int64"), dim=-1)

    if interpolation in ("linear", "midpoint"):
        below = r.floor(place)
        weight = r.sub(place, below) if interpolation == "linear" else r.mul(r.cast(r.ne(place, below), dtype_of(s)), 0.5)
        made = r.lerp(at(below), at(r.ceil(place)), weight)
    else:
        made = at({"lower": r.floor, "higher": r.ceil, "nearest": r.round}[interpolation](place))
    made = movedim(made, -1, 0)
    if keepdim:
        kept = [1] * len(shape) if dim is None else [1 if i == d else n for i, n in enumerate(shape)]
        made = to_shape(made, [shape_of(made)[0], *kept])
    return select(made, 0, 0) if one else made


for _name, _doc, _skips in (("quantile", "Quantiles along a dim", False), ("nanquantile", "Quantiles of what is not NaN along a dim", True)):
    define(_name, f"{_doc}, of all elements without ``dim``; q is a number or a tensor of them.",
           lambda input, q, dim=None, keepdim=False, *, interpolation="linear", _of=(_name, _skips): _quantile(_of[0], input, q, dim, keepdim, interpolation, _of[1]))  # fmt: skip


# -- Covariance and histograms --------------------------------------------------------------------


def _cov(input, correction, fweights, aweights):
    if len(shape_of(input)) > 2:
        raise ValueError(f"cov: expected at most 2 dims, the input is {list(shape_of(input))}")
    x = as_float(input)
    x = x if len(shape_of(x)) == 2 else to_shape(x, [1, shape_of(ravel(x))[0]])
    weights = None
    for each in (fweights, aweights):
        if each is not None:
            weights = r.cast(each, dtype_of(x)) if weights is None else r.mul(weights, r.cast(each, dtype_of(x)))
    if weights is None:
        total, centered = float(shape_of(x)[1]), r.sub(x, r.mean(x, [1], True))
        scaled, norm = centered, max(total - correction, 0.0)
    else:
        total = r.sum(weights)
        centered = r.sub(x, r.div(r.sum(r.mul(x, weights), [1], True), total))
        scaled = r.mul(centered, weights)
        if aweights is None or correction == 0:
            norm = r.sub(total, float(correction))
        else:
            squared = r.sum(r.mul(weights, r.cast(aweights, dtype_of(x))))
            norm = r.sub(total, r.mul(r.div(squared, total), float(correction)))
        norm = r.clamp(norm, 0.0, None)
    made = r.div(r.matmul(scaled, r.permute(centered, [1, 0])), norm)
    return made if len(shape_of(input)) == 2 else to_shape(made, [])


def _corrcoef(input):
    c = functions["cov"](input)
    if not shape_of(c):
        return r.div(c, c)
    spread = r.sqrt(r.diagonal(c))
    return r.clamp(r.div(r.div(c, unsqueeze(spread, 1)), spread), -1.0, 1.0)


define("cov", "The covariances of the rows; columns are observations.",
       lambda input, *, correction=1, fweights=None, aweights=None: _cov(input, correction, fweights, aweights))  # fmt: skip
define("corrcoef", "The correlation coefficients of the rows.", lambda input: _corrcoef(input))


# -- Differences and integrals --------------------------------------------------------------------


def _diff(input, n, dim, prepend, append):
    if n < 0:
        raise ValueError(f"diff: n is {n}, expected at least 0")
    if not shape_of(input):
        raise ValueError("diff: expected at least 1 dim")
    d = at_rank(dim, len(shape_of(input)))
    joined = [each for each in (prepend, input, append) if each is not None]
    x = input if n == 0 or len(joined) == 1 else cat(joined, d)
    for _ in range(n):
        if shape_of(x)[d] == 0:
            return x
        later, sooner = bounded(x, d, 1, None), bounded(x, d, None, -1)
        x = r.logical_xor(later, sooner) if dtype_of(x) == "bool" else r.sub(later, sooner)
    return x


def _areas(name, y, x, dx, dim):
    if x is not None and dx is not None:
        raise TypeError(f"{name}: x= and dx= are not given together")
    rank = len(shape_of(y))
    if rank == 0:
        raise ValueError(f"{name}: expected at least 1 dim")
    d = at_rank(dim, rank)
    both = r.add(bounded(y, d, None, -1), bounded(y, d, 1, None))
    if x is None:
        return r.mul(both, (1 if dx is None else dx) / 2), d
    if len(shape_of(x)) == 1:
        x = to_shape(x, [shape_of(x)[0], *[1] * (rank - 1 - d)])
    at = len(shape_of(x)) - rank + d
    return r.mul(r.mul(both, r.sub(bounded(x, at, 1, None), bounded(x, at, None, -1))), 0.5), d


def _trapezoid(name, y, x, dx, dim):
    areas, d = _areas(name, y, x, dx, dim)
    return r.sum(areas, [d])


def _gradient(input, spacing, dim, edge_order):
    rank = len(shape_of(input))
    dims = list(range(rank)) if dim is None else dims_of(dim, rank)
    spacings = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is {edge_order}, expected 1 or 2")
    if len(spacings) != len(dims):
        raise ValueError(f"gradient: {len(spacings)} spacings are given for {len(dims)} dims")
    return tuple(_slope(as_float(input), d, h, edge_order) for d, h in zip(dims, spacings))


def _slope(x, d, h, edge_order):
    n = shape_of(x)[d]
    if n <= edge_order:
        raise ValueError(f"gradient: dim {d} has {n} elements, expected more than edge_order {edge_order}")
    if isinstance(h, (int, float)):
        gaps = full_like_(narrow(x, d, 0, n - 1), float(h), None)
    else:  # coordinates
        gaps = to_shape(r.cast(functions["diff"](h), dtype_of(x)), [n - 1, *[1] * (len(shape_of(x)) - 1 - d)])
        gaps = r.expand(gaps, [*shape_of(x)[:d], n - 1, *shape_of(x)[d + 1 :]])
    slopes = r.div(functions["diff"](x, 1, d), gaps)
    inner, first, last = [], narrow(slopes, d, 0, 1), narrow(slopes, d, n - 2, 1)
    if n > 2:
        (before, after), (a, b) = ((bounded(each, d, None, -1), bounded(each, d, 1, None)) for each in (slopes, gaps))
        inner = [r.div(r.add(r.mul(before, b), r.mul(after, a)), r.add(a, b))]
    if edge_order == 2:  # the slope of the parabola through three points, at its end
        bend = r.div(r.sub(after, before), r.add(a, b))
        first = r.sub(first, r.mul(narrow(bend, d, 0, 1), narrow(gaps, d, 0, 1)))
        last = r.add(last, r.mul(narrow(bend, d, n - 3, 1), narrow(gaps, d, n - 2, 1)))
    return cat([first, *inner, last], d)


define("diff", "The n-th differences of neighbors along a dim.",
       lambda input, n=1, dim=-1, prepend=None, append=None: _diff(input, n, dim, prepend, append))  # fmt: skip
define("trapezoid", "The integral along a dim by the trapezoidal rule.",
       lambda y, x=None, *, dx=None, dim=-1: _trapezoid("trapezoid", y, x, dx, dim), "trapz")  # fmt: skip
define("cumulative_trapezoid", "The integrals up to each element but the first, by the trapezoidal rule.",
       lambda y, x=None, *, dx=None, dim=-1: (lambda made: r.cumsum(made[0], made[1]))(_areas("cumulative_trapezoid", y, x, dx, dim)))  # fmt: skip
define("gradient", "Derivatives along dims by central differences, as a tuple.",
       lambda input, *, spacing=1, dim=None, edge_order=1: _gradient(input, spacing, dim, edge_order))  # fmt: skip
