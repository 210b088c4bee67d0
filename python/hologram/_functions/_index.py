# SPDX-License-Identifier: Apache-2.0
"""Functions that look up, choose and replace elements."""

import operator

import numpy as np

from .. import _rows
from ._create import full_
from ._sizes import at_rank, common_dtype, dtype_of, element_of, product, shape_of
from ._shapes import bounded, ravel, select, to_shape, unbind
from ._table import define, torch_function


def _is_number(value):
    return isinstance(value, (bool, int, float))


@torch_function()
def where(condition, input=None, other=None):
    """``input`` where the condition holds, elsewhere ``other``; without them, as ``nonzero(condition, as_tuple=True)``."""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where: input and other are given together")
    return _rows.where(condition, input, other)


@torch_function()
def nonzero(input, *, as_tuple=False):
    """Indices of elements that are not zero, as rows, or as a tuple of one tensor per dim."""
    found = _rows.nonzero(input)
    if not as_tuple:
        return found
    if not shape_of(input):
        return nonzero(to_shape(input, [1]), as_tuple=True)
    return unbind(found, 1)


@torch_function()
def masked_fill(input, mask, value):
    """The input, with ``value`` where the mask holds."""
    dtype = dtype_of(input)
    return _rows.where(mask, element_of(value, dtype) if _is_number(value) else _rows.cast(value, dtype), input)


@torch_function()
def masked_select(input, mask):
    """The elements where the mask holds, in one dim."""
    shape = np.broadcast_shapes(shape_of(input), shape_of(mask))
    found = _rows.nonzero(ravel(_rows.expand(mask, list(shape))))
    rows = _rows.slice(found, 1, 0, 1)
    return _rows.index(ravel(_rows.expand(input, list(shape))), [_flat(rows)])


def _flat(rows):
    return _rows.max(rows, 1)[0] if 0 not in shape_of(rows) else _rows.sum(rows, [1])


@torch_function()
def scatter(input, dim, index, src, *, reduce=None):
    """A copy of the input in which elements of src stand where index says; ``reduce`` is None, "add" or "multiply"."""
    words = {None: "none", "add": "add", "multiply": "prod"}
    if reduce not in words:
        raise ValueError(f"scatter: reduce is {reduce!r}, expected 'add' or 'multiply'")
    return _scattered(input, dim, index, src, words[reduce], True)


def _scattered(input, dim, index, src, reduce, include_self):
    if _is_number(src):
        src = full_(list(shape_of(index)), src, dtype_of(input))
    shape, sizes = shape_of(src), shape_of(index)
    if shape != sizes:
        if len(shape) != len(sizes) or any(a < b for a, b in zip(shape, sizes)):
            raise ValueError(f"scatter: src is {list(shape)}, index {list(sizes)}")
        for d, n in enumerate(sizes):
            src = _rows.slice(src, d, 0, n)
    index = _rows.cast(index, "int64") if dtype_of(index) == "int32" else index
    if not sizes and len(shape_of(input)) == 1:
        index, src = to_shape(index, [1]), to_shape(src, [1])
    return _rows.scatter(input, index, src, dim=at_rank(dim, len(shape_of(input))), reduce=reduce, include_self=include_self)


@torch_function()
def scatter_add(input, dim, index, src):
    """A copy of the input to which elements of src are added where index says."""
    return _scattered(input, dim, index, src, "add", True)


@torch_function()
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """Joins elements of src by "sum", "prod", "mean", "amax" or "amin" where index says."""
    return _scattered(input, dim, index, src, "add" if reduce == "sum" else reduce, include_self)


def _lines(index):
    """Indices along a dim as int64 in one dim."""
    index = _rows.cast(index, "int64") if dtype_of(index) == "int32" else index
    return index if shape_of(index) else to_shape(index, [1])


def _from_start(index, size):
    """Indices of which negative ones count from the end."""
    return index if isinstance(size, str) else _rows.where(_rows.lt(index, 0), _rows.add(index, size), index)


@torch_function()
def gather(input, dim, index, *, sparse_grad=False):
    """Elements by index along a dim. sparse_grad is ignored."""
    index = _rows.cast(index, "int64") if dtype_of(index) == "int32" else index
    if len(shape_of(input)) + len(shape_of(index)) == 1:  # one of them has no dims
        return to_shape(_rows.gather(ravel(input), ravel(index), dim=at_rank(dim, 1)), shape_of(index))
    return _rows.gather(input, index, dim=dim)


@torch_function()
def index_select(input, dim, index):
    """Slices by index along a dim."""
    if not shape_of(input):
        return to_shape(_rows.index_select(to_shape(input, [1]), _lines(index), dim=at_rank(dim, 1)), [])
    return _rows.index_select(input, _lines(index), dim=dim)


@torch_function()
def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """Joins slices of source by "prod", "mean", "amax" or "amin" where index says."""
    return _rows.index_reduce(input, _lines(index), source, dim=dim, reduce=reduce, include_self=include_self)


@torch_function()
def masked_scatter(input, mask, source):
    """The input, with elements of source in order where the mask holds."""
    if shape_of(input) != shape_of(mask):
        shape = list(np.broadcast_shapes(shape_of(input), shape_of(mask)))
        input, mask = (each if list(shape_of(each)) == shape else _rows.expand(each, shape) for each in (input, mask))
    return _rows.masked_scatter(input, mask, source)


@torch_function()
def bincount(input, weights=None, minlength=0):
    """How often each number from 0 occurs, or the sums of its weights."""
    if dtype_of(input).startswith(("int", "uint")):
        input = _rows.cast(input, "int64")
    if weights is not None and dtype_of(weights) not in ("float32", "float64"):
        weights = _rows.cast(weights, "float64")
    return _rows.bincount(input, weights, minlength=minlength)


@torch_function()
def index_add(input, dim, index, source, *, alpha=1):
    """A copy of the input to which slices of source times alpha are added where index says."""
    return _rows.index_reduce(input, _lines(index), source if alpha == 1 else _rows.mul(source, alpha), dim=dim, reduce="add")


@torch_function()
def take_along_dim(input, indices, dim=None):
    """Elements by index along a dim; of all elements without ``dim``."""
    if dim is None:
        return _rows.gather(ravel(input), ravel(indices), dim=0)
    d = at_rank(dim, len(shape_of(input)))
    shared = list(np.broadcast_shapes(*(tuple(1 if i == d else n for i, n in enumerate(shape_of(x))) for x in (input, indices))))
    wide = [[shape_of(x)[i] if i == d else n for i, n in enumerate(shared)] for x in (input, indices)]
    return _rows.gather(_rows.expand(input, wide[0]), _from_start(_rows.expand(indices, wide[1]), shape_of(input)[d]), dim=d)


def _alike(a, b):
    """Both in their common dtype."""
    if dtype_of(a) == dtype_of(b):
        return a, b
    dtype = common_dtype(a, b)
    return tuple(each if _is_number(each) or dtype_of(each) == dtype else _rows.cast(each, dtype) for each in (a, b))


@torch_function()
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None):
    """Where values would go in a sorted sequence."""
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}, expected 'left' or 'right'")
    if side == "left" and right:
        raise ValueError("searchsorted: side is 'left' and right is True")
    found = _rows.searchsorted(*_alike(sorted_sequence, input), right=right or side == "right")
    return _rows.cast(found, "int32") if out_int32 else found


@torch_function()
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The bucket between boundaries of each value."""
    found = _rows.searchsorted(*_alike(boundaries, input), right=right)
    return _rows.cast(found, "int32") if out_int32 else found


@torch_function()
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is among test_elements."""
    found = _rows.isin(*_alike(elements, test_elements))
    return _rows.logical_not(found) if invert else found


@torch_function()
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight by index. max_norm and sparse gradients are rejected."""
    if max_norm is not None or sparse:
        raise ValueError("embedding: max_norm= and sparse= are supported by hg.nn.Embedding")
    row = -1 if padding_idx is None else at_rank(padding_idx, shape_of(weight)[0], "padding_idx")
    return _rows.embedding(weight, input, padding_idx=row, scale_grad_by_freq=scale_grad_by_freq)


@torch_function()
def one_hot(tensor, num_classes=-1):
    """One-hot rows of class numbers."""
    return _rows.one_hot(tensor, num_classes)


@torch_function()
def index_put(input, indices, values, accumulate=False):
    """A copy of the input in which ``values`` replace, or are added to, the elements that a tuple of indices chooses."""
    places, shape = [], shape_of(input)
    for each in indices:
        for index in _indices(each, shape[len(places) :]):
            places.append(_positive(index, shape[len(places)]))
    if not any(isinstance(n, str) for each in (input, values, *places) for n in shape_of(each)):
        sizes = (*np.broadcast_shapes(*map(shape_of, places)), *shape[len(places) :])
        values = values if shape_of(values) == sizes else _rows.expand(values, list(sizes))
    return _rows.index_put(input, values, places, accumulate=accumulate)


@torch_function()
def index_fill(input, dim, index, value):
    """A copy of the input whose slices by index are one number."""
    if not _is_number(value) and shape_of(value):
        raise ValueError(f"index_fill: value is {list(shape_of(value))}, expected a number or a tensor without dims")
    d = at_rank(dim, len(shape_of(input)))
    sizes = [(shape_of(index)[0] if shape_of(index) else 1) if i == d else n for i, n in enumerate(shape_of(input))]
    source = full_(sizes, value, dtype_of(input)) if _is_number(value) else _rows.expand(_rows.cast(value, dtype_of(input)), sizes)
    return index_copy(input, dim, _from_start(index, shape_of(input)[d] if shape_of(input) else 1), source)


@torch_function()
def index_copy(input, dim, index, source):
    """A copy of the input whose slices by index are those of source."""
    if len(shape_of(index)) > 1:
        raise ValueError(f"index_copy: index is {list(shape_of(index))}, expected 1 dim")
    if dtype_of(input) != dtype_of(source):
        raise ValueError(f"index_copy: input is {dtype_of(input)}, source {dtype_of(source)}; expected one dtype")
    index = index if shape_of(index) else to_shape(index, [1])
    if not shape_of(input):
        return to_shape(_rows.index_reduce(to_shape(input, [1]), index, ravel(source), dim=0), [])
    return _rows.index_reduce(input, index, source, dim=at_rank(dim, len(shape_of(input))))


@torch_function()
def take(input, index):
    """Elements by their place among all."""
    return _rows.index(ravel(input), [_positive(index, product(shape_of(input)))])


@torch_function()
def put(input, index, source, accumulate=False):
    """A copy of the input in which elements of source replace, or are added to, those by their place among all."""
    places = _positive(ravel(index), product(shape_of(input)))
    return to_shape(_rows.index_put(ravel(input), ravel(source), [places], accumulate=accumulate), shape_of(input))


@torch_function()
def unravel_index(indices, shape):
    """The place in each dim of elements by their place among all, as a tuple."""
    if not dtype_of(indices).startswith(("int", "uint")):
        raise TypeError(f"unravel_index: the indices are {dtype_of(indices)}, expected integers")
    sizes, made, indices = list(shape) if isinstance(shape, (tuple, list)) else [shape], [], _rows.cast(indices, "int64")
    for n in reversed(sizes):
        made.append(_rows.remainder(indices, n))
        indices = _rows.floor_divide(indices, n)
    return tuple(reversed(made))


define("argwhere", "Indices of elements that are not zero, as rows.", lambda input: _rows.nonzero(input))


def item_of(x, key):
    """x[key]: integers, slices, None, ..., tensors of integers, and masks."""
    keys = list(key) if isinstance(key, tuple) else [key]
    rank = sum(_used(each) for each in keys)
    if sum(each is Ellipsis for each in keys) > 1:
        raise IndexError("an index has at most one ...")
    if rank > len(shape_of(x)):
        raise IndexError(f"{rank} indices are given for a tensor of {len(shape_of(x))} dims")
    free = len(shape_of(x)) - rank
    at = next((i for i, each in enumerate(keys) if each is Ellipsis), None)
    if at is None:
        keys += [slice(None)] * free
    else:
        keys[at : at + 1] = [slice(None)] * free
    d, tensors, new = 0, [], []
    for each in keys:
        if each is None:
            new.append(len(tensors))
            tensors.append(None)
            shape = shape_of(x)
            x = to_shape(x, [*shape[:d], 1, *shape[d:]])
            d += 1
        elif isinstance(each, slice):
            if each.step is not None and each.step <= 0:
                raise ValueError(f"the step of a slice is {each.step}, expected at least 1; flip() reverses")
            if each != slice(None):
                x = bounded(x, d, each.start, each.stop, 1 if each.step is None else each.step)
            tensors.append(None)
            d += 1
        elif isinstance(each, (bool, np.bool_)):
            raise IndexError("True and False are no indices; use unsqueeze()")
        elif _is_integer(each):
            x = select(x, d, operator.index(each))
        else:
            for index in _indices(each, shape_of(x)[d:]):
                tensors.append(index)
                d += 1
    if not any(each is not None for each in tensors):
        return x
    while tensors[-1] is None:
        tensors.pop()
    given = [i for i, each in enumerate(tensors) if each is not None]
    tensors = [_positive(each, shape_of(x)[i]) if each is not None else None for i, each in enumerate(tensors)]
    if len(given) == len(tensors):
        return _rows.index(x, tensors)
    # The indexed dims go first; numpy and torch put them in place of neighbors.
    rank = len(shape_of(x))
    rest = [i for i in range(rank) if i not in given]
    made = _rows.index(_rows.permute(x, given + rest), [tensors[i] for i in given])
    width = len(shape_of(made)) - len(rest)
    if given != list(range(given[0], given[-1] + 1)) or given[0] == 0:
        return made
    before = given[0]
    order = [*range(width, width + before), *range(width), *range(width + before, width + len(rest))]
    return _rows.permute(made, order)


def _is_integer(each):
    return isinstance(each, int) or isinstance(each, np.integer)


def _is_mask(each):
    return dtype_of(each) in ("bool", "uint8") and not _is_integer(each)


def _used(each):
    if each is None or each is Ellipsis:
        return 0
    if isinstance(each, slice) or _is_integer(each):
        return 1
    return len(shape_of(each)) if _is_mask(each) else 1


def _indices(each, sizes):
    if isinstance(each, (list, tuple)):
        each = np.asarray(each, None if each else np.int64)
    if not _is_mask(each):
        if not dtype_of(each).startswith("int"):
            raise IndexError(f"an index is an integer, a slice, None, ... or a tensor of integers or bool, not {dtype_of(each)}")
        return [_rows.cast(each, "int64")]
    shape = shape_of(each)
    if shape != tuple(sizes[: len(shape)]):
        raise IndexError(f"the mask is {list(shape)}, the dims it chooses from are {list(sizes[:len(shape)])}")
    if isinstance(each, np.ndarray):
        return [np.asarray(i) for i in np.nonzero(each)]
    found = _rows.nonzero(each)
    return [_flat(_rows.slice(found, 1, i, i + 1)) for i in range(len(shape))]


def _positive(index, size):
    if isinstance(index, np.ndarray):
        if not isinstance(size, str) and index.size and not (-size <= index.min() and index.max() < size):
            raise IndexError(f"an index of [{index.min()}, {index.max()}] is out of range for {size} elements")
        return np.where(index < 0, index + size, index) if not isinstance(size, str) else index
    return index

