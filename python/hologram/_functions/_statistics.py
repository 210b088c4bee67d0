# SPDX-License-Identifier: Apache-2.0
"""Statistics, differences and integrals along dims."""

from .. import _rows as r
from ._elements import as_float
from ._reduce import amax, amin, mean as _mean, std as _std, sum as _sum, var as _var
from ._shapes import bounded, cat, movedim, narrow, ravel, select, to_shape, unsqueeze
from ._sizes import at_rank, cast_to, common_dtype, dims_of, dtype_of, is_complex, is_float, product, shape_of
from ._table import define, functions


def _aminmax(input, dim, keepdim):
    dims = () if dim is None else (dim,)
    return amin(input, dims, keepdim), amax(input, dims, keepdim)


def _without_nans(x):
    return r.where(r.isnan(x), 0.0, x) if is_float(x) else x


def _nanmean(input, dim, keepdim, dtype):
    x = cast_to(input, dtype)
    if not is_float(x):
        raise ValueError(f"nanmean: expected a tensor of floats, not of {dtype_of(x)}")
    count = _sum(r.logical_not(r.isnan(x)), dim, keepdim)
    return r.div(_sum(_without_nans(x), dim, keepdim), r.cast(count, dtype_of(x)))


define("aminmax", "The smallest and the largest element, along a dim or of all.",
       lambda input, *, dim=None, keepdim=False: _aminmax(input, dim, keepdim))  # fmt: skip
define("std_mean", "Standard deviation and mean along dims.",
       lambda input, dim=None, unbiased=None, keepdim=False, *, correction=None:
       (_std(input, dim, unbiased, keepdim, correction=correction), _mean(input, None if isinstance(dim, bool) else dim, keepdim)))  # fmt: skip
define("var_mean", "Variance and mean along dims.",
       lambda input, dim=None, unbiased=None, keepdim=False, *, correction=None:
       (_var(input, dim, unbiased, keepdim, correction=correction), _mean(input, None if isinstance(dim, bool) else dim, keepdim)))  # fmt: skip
define("nansum", "The sum of the elements that are not NaN.",
       lambda input, dim=None, keepdim=False, *, dtype=None: _sum(_without_nans(input), dim, keepdim, dtype=dtype))  # fmt: skip
define("nanmean", "The mean of the elements that are not NaN.",
       lambda input, dim=None, keepdim=False, *, dtype=None: _nanmean(input, dim, keepdim, dtype))  # fmt: skip
define("dist", "The p-norm of the difference.", lambda input, other, p=2: r.norm(ravel(r.sub(input, other)), float(p), [0]))


# -- Quantiles ------------------------------------------------------------------------------------


def _quantile(name, input, q, dim, keepdim, interpolation, skips_nan):
    shape, kinds = shape_of(input), ("linear", "lower", "higher", "nearest", "midpoint")
    if dtype_of(input) not in ("float32", "float64"):
        raise ValueError(f"{name}: expected float32 or float64, got {dtype_of(input)}")
    if interpolation not in kinds:
        raise ValueError(f"{name}: interpolation is {interpolation!r}, expected {', '.join(kinds)}")
    one = isinstance(q, (int, float)) or not shape_of(q)
    if isinstance(q, (int, float)):
        if not 0 <= q <= 1:
            raise ValueError(f"{name}: q is {q}, which is out of range; expected a number from 0 to 1")
    elif not r.is_expression(q) and not r.all(r.logical_and(r.ge(q, 0), r.le(q, 1))).item():
        raise ValueError(f"{name}: an element of q is out of range, expected numbers from 0 to 1")
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
        raise ValueError(f"cov: expected at most 2 dims, got {list(shape_of(input))}")
    if dtype_of(input) == "bool":
        raise ValueError("cov: the input is bool, expected numbers")
    x = as_float(input)
    x = x if len(shape_of(x)) == 2 else to_shape(x, [1, shape_of(ravel(x))[0]])
    weights = None
    for word, each, kinds in (("fweights", fweights, ("int", "uint")), ("aweights", aweights, ("float", "bfloat"))):
        if each is not None:
            if len(shape_of(each)) > 1 or product(shape_of(each)) != shape_of(x)[1]:
                raise ValueError(f"cov: {word} is {list(shape_of(each))}, expected one weight for each of {shape_of(x)[1]} observations")
            if not dtype_of(each).startswith(kinds):
                raise ValueError(f"cov: {word} is {dtype_of(each)}, expected {'integers' if word == 'fweights' else 'floats'}")
            if not r.is_expression(each) and r.any(r.lt(each, 0)).item():
                raise ValueError(f"cov: a weight of {word} is negative")
            weights = r.cast(each, dtype_of(x)) if weights is None else r.mul(weights, r.cast(each, dtype_of(x)))
    if weights is None:
        total, centered = float(shape_of(x)[1]), r.sub(x, r.mean(x, [1], True))
        scaled, norm = centered, max(total - correction, 0.0)
    else:
        total = r.sum(weights)
        if not r.is_expression(total) and total.item() == 0:
            raise ValueError("cov: the sum of the weights is 0")
        centered = r.sub(x, r.div(r.sum(r.mul(x, weights), [1], True), total))
        scaled = r.mul(centered, weights)
        if aweights is None or correction == 0:
            norm = r.sub(total, float(correction))
        else:
            squared = r.sum(r.mul(weights, r.cast(aweights, dtype_of(x))))
            norm = r.sub(total, r.mul(r.div(squared, total), float(correction)))
        norm = r.clamp(norm, 0.0, None)
    made = r.div(r.matmul(scaled, r.permute(centered, [1, 0])), norm)
    return to_shape(made, []) if shape_of(x)[0] == 1 else made


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


def _steps(name, y, x, dx, dim):
    """The sums of neighbors along a dim, what to multiply them by, and the dim."""
    if dtype_of(y) == "bool" or (x is not None and dtype_of(x) == "bool"):
        raise ValueError(f"{name}: a tensor is bool, expected numbers")
    if x is not None and dx is not None:
        raise TypeError(f"{name}: x= and dx= are not given together")
    rank = len(shape_of(y))
    if rank == 0:
        raise ValueError(f"{name}: expected at least 1 dim")
    d = at_rank(dim, rank)
    both = r.add(bounded(y, d, None, -1), bounded(y, d, 1, None))
    if x is None:
        return both, (1 if dx is None else dx) / 2, d
    if len(shape_of(x)) == 1:
        x = to_shape(x, [shape_of(x)[0], *[1] * (rank - 1 - d)])
    at = len(shape_of(x)) - rank + d
    return r.mul(both, r.sub(bounded(x, at, 1, None), bounded(x, at, None, -1))), 0.5, d


def _trapezoid(name, y, x, dx, dim):
    sums, factor, d = _steps(name, y, x, dx, dim)
    if shape_of(y)[d] == 0:  # torch keeps the dtype
        return r.cast(r.sum(y, [d]), dtype_of(y))
    if x is None and not is_float(y) and not is_complex(y):  # sums of neighbors may wrap; the sum of all is an int64
        ends = r.add(select(y, d, 0), select(y, d, -1))
        return r.mul(r.sub(r.sum(y, [d]), r.mul(ends, 0.5)), factor * 2)
    return r.sum(r.mul(sums, factor), [d])


def _cumulative_trapezoid(name, y, x, dx, dim):
    sums, factor, d = _steps(name, y, x, dx, dim)
    return r.cumsum(r.mul(sums, factor), d)


def _gradient(input, spacing, dim, edge_order):
    rank = len(shape_of(input))
    dims = list(range(rank)) if dim is None else dims_of(dim, rank)
    spacings = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is {edge_order}, expected 1 or 2")
    if len(spacings) != len(dims):
        raise ValueError(f"gradient: {len(spacings)} spacings are given for {len(dims)} dims")
    if dtype_of(input) == "uint8":
        raise ValueError("gradient: the input is uint8, whose differences are not signed")
    return tuple(_slope(as_float(input), d, h, edge_order) for d, h in zip(dims, spacings))


def _slope(x, d, h, edge_order):
    n = shape_of(x)[d]
    if n <= edge_order:
        raise ValueError(f"gradient: dim {d} has {n} elements, expected more than edge_order {edge_order}")
    if isinstance(h, (int, float)):
        at = [narrow(x, d, i, 1) for i in (0, 1, n - 2, n - 1)]
        if edge_order == 1:
            first, last = r.sub(at[1], at[0]), r.sub(at[3], at[2])
        else:  # the slope of the parabola through three points, at its end
            first = r.sub(r.sub(r.mul(at[1], 2.0), r.mul(at[0], 1.5)), r.mul(narrow(x, d, 2, 1), 0.5))
            last = r.add(r.sub(r.mul(at[3], 1.5), r.mul(at[2], 2.0)), r.mul(narrow(x, d, n - 3, 1), 0.5))
        inner = [r.mul(r.sub(narrow(x, d, 2, n - 2), narrow(x, d, 0, n - 2)), 0.5)] if n > 2 else []
        return r.div(cat([first, *inner, last], d), float(h))
    dtype = common_dtype(x, as_float(h))  # h: coordinates
    x, gaps = r.cast(x, dtype), to_shape(r.cast(functions["diff"](h), dtype), [n - 1, *[1] * (len(shape_of(x)) - 1 - d)])

    def three(start, count, factors):
        """Neighboring elements from start times the factors of the gaps a and b between them."""
        a, b = (narrow(gaps, 0, start + i, count) for i in (0, 1))
        products = [r.mul(narrow(x, d, start + i, count), each) for i, each in enumerate(factors(a, b, r.add(a, b)))]
        return r.add(r.add(products[0], products[1]), products[2])

    def end(a, b, both):
        return r.neg(r.div(r.add(both, a), r.mul(a, both))), r.div(both, r.mul(a, b)), r.neg(r.div(a, r.mul(b, both)))

    if edge_order == 1:
        slopes = r.div(functions["diff"](x, 1, d), gaps)
        first, last = narrow(slopes, d, 0, 1), narrow(slopes, d, n - 2, 1)
    else:
        first = three(0, 1, end)
        last = three(n - 3, 1, lambda a, b, both: [r.neg(each) for each in reversed(end(b, a, both))])
    inner = []
    if n > 2:
        inner = [three(0, n - 2, lambda a, b, both: (r.neg(r.div(b, r.mul(a, both))), r.div(r.sub(b, a), r.mul(a, b)), r.div(a, r.mul(b, both))))]
    return cat([first, *inner, last], d)


define("diff", "The n-th differences of neighbors along a dim.",
       lambda input, n=1, dim=-1, prepend=None, append=None: _diff(input, n, dim, prepend, append))  # fmt: skip
define("trapezoid", "The integral along a dim by the trapezoidal rule.",
       lambda y, x=None, *, dx=None, dim=-1: _trapezoid("trapezoid", y, x, dx, dim), "trapz")  # fmt: skip
define("cumulative_trapezoid", "The integrals up to each element but the first, by the trapezoidal rule.",
       lambda y, x=None, *, dx=None, dim=-1: _cumulative_trapezoid("cumulative_trapezoid", y, x, dx, dim))  # fmt: skip
define("gradient", "Derivatives along dims by central differences, as a tuple.",
       lambda input, *, spacing=1, dim=None, edge_order=1: _gradient(input, spacing, dim, edge_order))  # fmt: skip
