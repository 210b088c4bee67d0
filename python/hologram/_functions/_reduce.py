# SPDX-License-Identifier: Apache-2.0
"""Reductions, sums along dims, sorting, and arithmetic that needs more than one op."""

import functools

from .. import _core, _rows
from ._sizes import cast_to, common_dtype, dims_of, dtype_of, element_of, is_complex, is_float, shape_of
from ._shapes import ravel, sizes_or_tensors, to_shape
from ._table import torch_function


def _dims(x, dim):
    """The row's dims: none means all."""
    return [] if dim is None else dims_of(dim, len(shape_of(x)))


def _reduced(row, x, dim, keepdim):
    if dim is None and not keepdim:  # the usual call, without other arguments
        return row(x)
    return row(x, _dims(x, dim), keepdim)


def _summed(row, x, dtype, reduce):
    """What ``reduce`` makes of x as ``dtype``. Rows reduce integers as int64; the result wraps to the dtype that is asked for."""
    if dtype is None:
        return reduce(x)
    dtype = _core.dtype_name(dtype)
    if dtype == "bool" and row.startswith("cum"):
        raise ValueError(f"{row}: dtype is bool, expected numbers")
    made = reduce(_rows.cast(x, dtype))
    if dtype == "bool":
        return _rows.ne(made, 0)
    return made if dtype_of(made) == dtype else _rows.cast(made, dtype)


@torch_function(row="sum")
def sum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum along dims, of all elements without ``dim``."""
    return _summed("sum", input, dtype, lambda x: _reduced(_rows.sum, x, dim, keepdim))


@torch_function(row="mean")
def mean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean along dims, of all elements without ``dim``."""
    return _reduced(_rows.mean, cast_to(input, dtype), dim, keepdim)


@torch_function(row="prod")
def prod(input, dim=None, keepdim=False, *, dtype=None):
    """The product along a dim, of all elements without ``dim``."""
    return _summed("prod", input, dtype, lambda x: _reduced(_rows.prod, x, dim, keepdim))


def _decided(row, x, dim, keepdim):
    if isinstance(dim, (tuple, list)) and not dim:  # no dim is reduced
        is_true = _rows.ne(x, 0)
        return _rows.cast(is_true, "uint8") if dtype_of(x) == "uint8" else is_true
    return _reduced(row, x, dim, keepdim)


@torch_function(row="all")
def all(input, dim=None, keepdim=False):
    """Whether all elements along dims are true."""
    return _decided(_rows.all, input, dim, keepdim)


@torch_function(row="any")
def any(input, dim=None, keepdim=False):
    """Whether any element along dims is true."""
    return _decided(_rows.any, input, dim, keepdim)


@torch_function()
def amax(input, dim=(), keepdim=False):
    """The largest element along dims."""
    return _reduced(_rows.amax, input, dim, keepdim)


@torch_function()
def amin(input, dim=(), keepdim=False):
    """The smallest element along dims."""
    return _reduced(_rows.amin, input, dim, keepdim)


@torch_function()
def count_nonzero(input, dim=None):
    """The number of elements that are not zero."""
    return _rows.sum(_rows.ne(input, 0), _dims(input, dim))


@torch_function()
def argmax(input, dim=None, keepdim=False):
    """The index of the largest element along a dim, of all elements without ``dim``."""
    return _arg(_rows.argmax, input, dim, keepdim)


@torch_function()
def argmin(input, dim=None, keepdim=False):
    """The index of the smallest element along a dim, of all elements without ``dim``."""
    return _arg(_rows.argmin, input, dim, keepdim)


def _arg(row, x, dim, keepdim):
    if dim is not None:
        return row(x, dim=dim, keepdim=keepdim)
    found = row(ravel(x), dim=0)
    return to_shape(found, [1] * len(shape_of(x))) if keepdim else found


def _extreme(row, whole, pair, input, dim, keepdim):
    if dim is None:
        return whole(input)  # equal elements share the gradient
    if isinstance(dim, int) and not isinstance(dim, bool):
        return row(input, dim=dim, keepdim=keepdim)
    return pair(input, dim)


@torch_function()
def max(input, dim=None, keepdim=False):
    """The largest element; along a dim, values and indices; with a tensor in place of ``dim``, as maximum."""
    return _extreme(_rows.max, amax, _rows.maximum, input, dim, keepdim)


@torch_function()
def min(input, dim=None, keepdim=False):
    """The smallest element; along a dim, values and indices; with a tensor in place of ``dim``, as minimum."""
    return _extreme(_rows.min, amin, _rows.minimum, input, dim, keepdim)


@torch_function()
def median(input, dim=None, keepdim=False):
    """The median; along a dim, values and indices."""
    return _rows.median(input, dim=None)[0] if dim is None else _rows.median(input, dim=dim, keepdim=keepdim)


@torch_function()
def nanmedian(input, dim=None, keepdim=False):
    """The median without NaNs; along a dim, values and indices."""
    return _rows.nanmedian(input, dim=None)[0] if dim is None else _rows.nanmedian(input, dim=dim, keepdim=keepdim)


def _spread(row, x, dim, unbiased, keepdim, correction):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError("unbiased= and correction= are not given together")
    correction = correction if correction is not None else 1 if unbiased is None or unbiased else 0
    return row(x, _dims(x, dim), float(correction), keepdim)


@torch_function()
def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The standard deviation along dims; divides by n - correction, which is 1 by default."""
    return _spread(_rows.std, input, dim, unbiased, keepdim, correction)


@torch_function()
def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The variance along dims; divides by n - correction, which is 1 by default."""
    return _spread(_rows.var, input, dim, unbiased, keepdim, correction)


@torch_function()
def logsumexp(input, dim, keepdim=False):
    """log sum exp along dims."""
    return _rows.logsumexp(input, _dims(input, dim), keepdim)


@torch_function()
def cumsum(input, dim, *, dtype=None):
    """Sums from the first element up to each one."""
    return _summed("cumsum", input, dtype, lambda x: _rows.cumsum(x, dim))


@torch_function()
def cumprod(input, dim, *, dtype=None):
    """Products from the first element up to each one."""
    return _summed("cumprod", input, dtype, lambda x: _rows.cumprod(x, dim))


@torch_function()
def sort(input, dim=-1, descending=False, stable=False):
    """Sorted values and their indices; equal elements keep their order."""
    return _rows.sort(input, dim, descending)


@torch_function()
def argsort(input, dim=-1, descending=False, stable=False):
    """The indices of sort()."""
    return _rows.sort(input, dim, descending)[1]


@torch_function()
def msort(input):
    """The values sorted along dim 0."""
    return _rows.sort(input, 0, False)[0]


@torch_function()
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or slices along dim, in order."""
    made = _rows.unique(input, dim=dim)
    return _chosen(made, return_inverse, return_counts)


@torch_function()
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements without equal neighbors."""
    return _chosen(_rows.unique(input, dim=dim, consecutive=True), return_inverse, return_counts)


def _chosen(made, return_inverse, return_counts):
    out = [made[0]] + [made[1]] * return_inverse + [made[2]] * return_counts
    return out[0] if len(out) == 1 else tuple(out)


def _scaled(x, factor, *others, of_products=False):
    """x times a factor, in the dtype of the result of x and ``others``. Beside integers, the factor of a sum is an integer, and that
    of products loses its fraction."""
    if factor == 1 and not isinstance(factor, bool):
        return x
    dtype = common_dtype(x, *others)
    is_whole = dtype.startswith(("int", "uint", "bool"))
    if not of_products and ((is_whole and isinstance(factor, float)) or (isinstance(factor, bool) and dtype != "bool")):
        raise ValueError(f"the factor of {dtype} tensors is {factor!r}, expected {'an integer' if is_whole else 'a number'}")
    if not dtype.startswith("complex"):  # products of 16-bit floats are computed in float32
        factor = element_of(factor, "float32" if of_products and dtype.endswith("float16") else dtype)
    if isinstance(x, (bool, int, float)):
        return x * factor
    return _rows.mul(x if dtype_of(x) == dtype else _rows.cast(x, dtype), factor)


@torch_function(row="add")
def add(input, other, *, alpha=1):
    """input + alpha * other."""
    return _rows.add(input, _scaled(other, alpha, input))


@torch_function("subtract", row="sub")
def sub(input, other, *, alpha=1):
    """input - alpha * other."""
    return _rows.sub(input, _scaled(other, alpha, input))


@torch_function()
def rsub(input, other, *, alpha=1):
    """other - alpha * input."""
    return _rows.sub(other, _scaled(input, alpha, other))


@torch_function("divide", row="div")
def div(input, other, *, rounding_mode=None):
    """input / other; rounding_mode is None, "floor" or "trunc"."""
    rows = {None: _rows.div, "floor": _rows.floor_divide, "trunc": _rows.trunc_divide}
    if rounding_mode not in rows:
        raise ValueError(f"div: rounding_mode is {rounding_mode!r}, expected None, 'floor' or 'trunc'")
    if rounding_mode == "trunc" and common_dtype(input, other).endswith("float16"):  # torch rounds the quotient first
        return _rows.trunc(_rows.div(input, other))
    return rows[rounding_mode](input, other)


@torch_function(row="div")
def true_divide(input, other):
    """input / other."""
    return _rows.div(input, other)


@torch_function(row="round")
def round(input, *, decimals=0):
    """Rounds to the nearest even number, with ``decimals`` digits behind the point."""
    return _rows.round(input, decimals)


@torch_function()
def lerp(input, end, weight):
    """input + weight * (end - input)."""
    return _rows.lerp(input, end, weight)


@torch_function()
def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 * tensor2."""
    if common_dtype(input, tensor1, tensor2) == "bool":
        raise ValueError("addcmul: the tensors are bool, expected numbers")
    scaled = _scaled(tensor1, value, input, tensor2, of_products=True)
    return _rows.add(input, _rows.mul(scaled, tensor2))


@torch_function()
def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 / tensor2."""
    if not (is_float(tensor1) or is_float(tensor2) or is_complex(tensor1) or is_complex(tensor2)):
        raise ValueError("addcdiv: both tensors are integers, as in torch one must be a float")
    scaled = _scaled(tensor1, value, input, tensor2, of_products=True)
    return _rows.add(input, _rows.div(scaled, tensor2))


@torch_function()
def clamp_min(input, min):
    """At least ``min``."""
    return _rows.clamp(input, min, None)


@torch_function()
def clamp_max(input, max):
    """At most ``max``."""
    return _rows.clamp(input, None, max)


@torch_function()
def broadcast_tensors(*tensors):
    """The tensors in their common shape, as a tuple."""
    import numpy as np

    tensors = sizes_or_tensors(tensors)
    shape = list(np.broadcast_shapes(*map(shape_of, tensors)))
    return tuple(_rows.expand(each, shape) for each in tensors)


@torch_function()
def numel(input):
    """The number of elements."""
    return functools.reduce(lambda a, b: a * b, shape_of(input), 1)


@torch_function()
def is_floating_point(input):
    """Whether the elements are floats."""
    return is_float(input)


@torch_function()
def normalize(input, p=2.0, dim=1, eps=1e-12):
    """input / max(norm along dim, eps)."""
    return _rows.div(input, _rows.clamp(_rows.norm(input, float(p), _dims(input, dim), True), eps, None))

