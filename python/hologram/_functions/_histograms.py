# SPDX-License-Identifier: Apache-2.0
"""torch.histogram and torch.histogramdd."""

import builtins
import math

import numpy as np

from .. import _rows
from ._pools import require_eager
from ._shapes import ravel, select
from ._sizes import dtype_of, product, shape_of
from ._table import torch_function


def _ends(name, x, given):
    """The least and the largest edge: those given, or of all elements."""
    if given is not None:
        low, high = (float(each) for each in given)
    elif product(shape_of(x)) == 0:
        low, high = 0.0, 1.0
    else:
        low, high = _rows.amin(x, []).item(), _rows.amax(x, []).item()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{name}: the range is {low} to {high}, expected finite numbers")
    if low > high:
        raise ValueError(f"{name}: the range is {low} to {high}, expected the least number first")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _edges(name, x, bins, given):
    if isinstance(bins, int):
        if bins < 1:
            raise ValueError(f"{name}: bins is {bins}, expected at least 1")
        low, high = _ends(name, x, given)
        return _rows.cast(_rows.linspace(start=low, end=high, steps=bins + 1, dtype=dtype_of(x)), dtype_of(x))
    if len(shape_of(bins)) != 1 or shape_of(bins)[0] < 2 or dtype_of(bins) != dtype_of(x):
        raise ValueError(f"{name}: bins are {dtype_of(bins)}{list(shape_of(bins))}, expected at least two edges in {dtype_of(x)}")
    return bins


def _places(x, edges):
    """The bin of each element, and whether it has one. The last edge belongs to its bin."""
    first, last, count = select(edges, 0, 0), select(edges, 0, -1), shape_of(edges)[0] - 1
    inside = _rows.logical_and(_rows.ge(x, first), _rows.le(x, last))
    return _rows.clamp(_rows.sub(_rows.searchsorted(edges, x, right=True), 1), 0, count - 1), inside


def _histogram(name, columns, bins, ranges, weight, density):
    require_eager(name, "reads the elements now", *columns)
    dtype = dtype_of(columns[0])
    if dtype not in ("float32", "float64"):
        raise ValueError(f"{name}: the input is {dtype}, expected float32 or float64")
    columns = [_rows.detach(each) for each in columns]
    edges = [_edges(name, x, each, span) for x, each, span in zip(columns, bins, ranges)]
    place, inside, counts = None, None, [shape_of(each)[0] - 1 for each in edges]
    for x, each, count in zip(columns, edges, counts):
        at, is_inside = _places(x, each)
        place = at if place is None else _rows.add(_rows.mul(place, count), at)
        inside = is_inside if inside is None else _rows.logical_and(inside, is_inside)
    weight = _rows.where(inside, 1.0 if weight is None else ravel(_rows.detach(weight)), 0.0)
    made = _rows.bincount(place, _rows.cast(weight, "float64"), minlength=math.prod(counts))
    made = _rows.reshape(made, counts)
    if density:
        for d, each in enumerate(edges):
            wide = _rows.cast(each, "float64")
            gaps = _rows.sub(_rows.slice(wide, dim=0, start=1, end=counts[d] + 1), _rows.slice(wide, dim=0, start=0, end=counts[d]))
            made = _rows.div(made, _rows.reshape(gaps, [counts[d], *[1] * (len(counts) - 1 - d)]))
        made = _rows.div(made, _rows.sum(weight, []))
    # As an array or a tensor of the input's kind.
    return _rows.cast(made, dtype), edges


def _require_weight(name, weight, shape, dtype):
    if weight is not None and (tuple(shape_of(weight)) != tuple(shape) or dtype_of(weight) != dtype):
        raise ValueError(f"{name}: weight is {dtype_of(weight)}{list(shape_of(weight))}, expected {dtype}{list(shape)}")


@torch_function()
def histogram(input, bins=100, *, range=None, weight=None, density=False):
    """How many elements, or which sum of weights, each bin has, and the edges. ``bins`` is a number, or the edges in ascending order."""
    _require_weight("histogram", weight, shape_of(input), dtype_of(input))
    if range is not None and not isinstance(bins, int):
        raise TypeError("histogram() takes range with a number of bins only")
    made, edges = _histogram("histogram", [ravel(input)], [bins], [range], weight, density)
    return made, edges[0]


@torch_function()
def histogramdd(input, bins, range=None, weight=None, density=False):
    """The histogram of points [..., dims], with bins along each dim: a number, numbers or edges; and the list of edges."""
    shape = shape_of(input)
    if len(shape) < 2:
        raise ValueError(f"histogramdd: the input is {list(shape)}, expected points along its last dim")
    dims = shape[-1]
    bins = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(bins) != dims or range is not None and len(range) != 2 * dims:
        raise ValueError(f"histogramdd: the points have {dims} dims; {len(bins)} bins and a range of {0 if range is None else len(range)} numbers are given")
    _require_weight("histogramdd", weight, shape[:-1], dtype_of(input))
    ranges = [None if range is None else range[2 * d : 2 * d + 2] for d in builtins.range(dims)]
    columns = [ravel(select(input, -1, d)) for d in builtins.range(dims)]
    made, edges = _histogram("histogramdd", columns, bins, ranges, weight, density)
    return made, tuple(edges)
