# SPDX-License-Identifier: Apache-2.0
"""Pools of torch.nn.functional that are made of several rows."""

import math

import numpy as np

from .. import _core, _rows
from ._layers import batched, listed
from ._shapes import to_shape
from ._sizes import dtype_of, product, shape_of
from ._table import functions, torch_function


def require_eager(name, what, *tensors):
    """Raises for expressions, which would keep what is computed once now."""
    if any(isinstance(each, (_core.Var, _core.Value)) for each in tensors):
        raise TypeError(f"{name}() {what}, which an expression would keep for all its runs; call it on arrays or tensors")


def lp_pool_of(x, p, kernel, options, cast=lambda power: power):
    """(sum of x^p)^(1/p) of each window, computed through the mean as in torch, including the signs of odd powers. relu makes
    the gradient of a window of zeros 0. ``cast`` is applied to the powers."""
    if math.isinf(p):
        largest = _rows.max_pool(_rows.abs(x) if p > 0 else _rows.neg(_rows.abs(x)), kernel, **options)
        return largest if p > 0 else _rows.neg(largest)
    mean = _rows.avg_pool(cast(_rows.pow(x, p)), kernel, **options)
    return _rows.pow(_rows.mul(_rows.mul(_rows.sign(mean), _rows.relu(_rows.abs(mean))), math.prod(kernel)), 1 / p)


def _lp_pools(dims):
    def lp_pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        kernel, p = listed(kernel_size, dims, "kernel_size"), float(norm_type)
        options = {"stride": kernel if stride is None else listed(stride, dims, "stride"), "ceil_mode": ceil_mode}

        return batched(f"lp_pool{dims}d", input, dims, lambda x: lp_pool_of(x, p, kernel, options))

    def max_unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        name = f"max_unpool{dims}d"
        kernel, pads = listed(kernel_size, dims, "kernel_size"), listed(padding, dims, "padding")
        step = kernel if stride is None else listed(stride, dims, "stride")
        if dtype_of(indices) != "int64" or shape_of(indices) != shape_of(input):
            raise ValueError(f"{name}: the indices are {dtype_of(indices)}{list(shape_of(indices))}, not int64{list(shape_of(input))}")
        usual = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(shape_of(input)[-dims:], step, kernel, pads)]
        sizes = usual if output_size is None else list(output_size)[-dims:]
        if len(sizes) != dims or any(not u - s < n < u + s for n, u, s in zip(sizes, usual, step)):
            raise ValueError(f"{name}: output_size is {sizes}, expected within {step} of {usual}")
        count = math.prod(sizes)

        def unpool(x):
            lead, inner = list(shape_of(x)[:2]), product(shape_of(x)[2:])
            flat, where = (_rows.reshape(each, [*lead, inner]) for each in (x, indices))
            # Zeros of the kind of x, whatever its elements.
            blank = functions["zeros_like"](functions["sum"](flat, 2, True))
            blank = _rows.expand(blank, [*lead, count])
            return to_shape(_rows.scatter(blank, where, flat, dim=2), [*lead, *sizes])

        return batched(name, input, dims, unpool)

    words = {"lp_pool": (lp_pool, "(sum of x^p)^(1/p) of each window."),
             "max_unpool": (max_unpool, "Puts the maxima of max_pool back to their places; other elements are 0.")}  # fmt: skip
    for word, (function, text) in words.items():
        function.__name__, function.__doc__ = f"{word}{dims}d", text
        torch_function()(function)


def _starts(u, size, kernel, out):
    """The starts of the windows of one dim, [n, c, out]: floor((i + u) a) - floor(u a) with a = (size - kernel) / (out - 1); the
    last window is at the end. Graham 2014. u: [n, c]"""
    last = np.full((*u.shape, 1), size - kernel, np.int64)
    if out == 1:
        return last
    step, u = u.dtype.type(size - kernel) / u.dtype.type(out - 1), u[..., None]
    starts = ((np.arange(out - 1).astype(u.dtype) + u) * step).astype(np.int64) - (u * step).astype(np.int64)
    return np.concatenate([starts, last], -1)


def _fractional(dims):
    name = f"fractional_max_pool{dims}d"

    def with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        require_eager(name, "draws the places of its windows", input)
        kernel, sizes = listed(kernel_size, dims, "kernel_size"), shape_of(input)[-dims:]
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name}: either output_size or output_ratio is given")
        if output_ratio is not None:
            ratios = listed(output_ratio, dims, "output_ratio")
            if not all(0 < each < 1 for each in ratios):
                raise ValueError(f"{name}: output_ratio is {ratios}, expected between 0 and 1")
        out = listed(output_size, dims, "output_size") if output_size is not None else [int(n * r) for n, r in zip(sizes, ratios)]
        spare = 0 if dims == 3 else -1  # torch's, each its own
        if any(m < 1 or k < 1 or m + k + spare > n for n, k, m in zip(sizes, kernel, out)):
            raise ValueError(f"{name}: {out} windows of {kernel} do not fit into {list(sizes)}")
        given = _random_samples

        def pool(x):
            lead = list(shape_of(x)[:2])
            samples = np.asarray(_rows.rand([*lead, dims], dtype_of(x)) if given is None else given)
            if list(samples.shape) != [*lead, dims] or str(samples.dtype) != dtype_of(x):
                raise ValueError(f"{name}: the random samples are {samples.dtype}{list(samples.shape)}, not {dtype_of(x)}{[*lead, dims]}")
            # places[n, c, out..., kernel...] of the elements of each window in the flat input
            places = np.zeros([1] * (2 + 2 * dims), np.int64)
            for d in range(dims):
                starts = _starts(samples[:, :, dims - 1 - d if dims == 2 else d], sizes[d], kernel[d], out[d])
                starts = starts.reshape(*lead, *(out[d] if e == d else 1 for e in range(2 * dims)))
                steps = np.arange(kernel[d]).reshape([kernel[d] if e == 2 + dims + d else 1 for e in range(2 + 2 * dims)])
                places = places * sizes[d] + starts + steps
            windows = places.reshape(*lead, *out, math.prod(kernel))
            flat = _rows.gather(_rows.reshape(x, [*lead, math.prod(sizes)]), windows.reshape(*lead, math.prod(out) * math.prod(kernel)), 2)
            y, chosen = _rows.max(_rows.reshape(flat, list(windows.shape)), -1, keepdim=True)
            picked = _rows.gather(windows, chosen, windows.ndim - 1)
            return to_shape(y, [*lead, *out]), to_shape(picked, [*lead, *out])

        return batched(name, input, dims, pool)

    def fractional_max_pool(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        found = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return found if return_indices else found[0]

    text = "The maxima of windows whose places are drawn. Graham 2014."
    with_indices.__name__, with_indices.__doc__ = f"{name}_with_indices", text
    fractional_max_pool.__name__, fractional_max_pool.__doc__ = name, text
    torch_function()(with_indices)
    torch_function()(fractional_max_pool)


for _count in (1, 2, 3):
    _lp_pools(_count)
for _count in (2, 3):
    _fractional(_count)
