# SPDX-License-Identifier: Apache-2.0
"""Functions that look up, choose and replace elements."""

import operator

import numpy as np

from .. import _rows
from ._create import full_
from ._sizes import at_rank, dtype_of, element_of, product, shape_of
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
    return _rows.scatter(input, index, src, dim=at_rank(dim, len(shape_of(input))), reduce=reduce, include_self=include_self)


@torch_function()
def scatter_add(input, dim, index, src):
    """A copy of the input to which elements of src are added where index says."""
    return _scattered(input, dim, index, src, "add", True)


@torch_function()
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """Joins elements of src by "sum", "prod", "mean", "amax" or "amin" where index says."""
    return _scattered(input, dim, index, src, "add" if reduce == "sum" else reduce, include_self)


@torch_function()
def index_add(input, dim, index, source, *, alpha=1):
    """A copy of the input to which slices of source times alpha are added where index says."""
    return _rows.index_reduce(input, index, source if alpha == 1 else _rows.mul(source, alpha), dim=dim, reduce="add")


@torch_function()
def take_along_dim(input, indices, dim=None):
    """Elements by index along a dim; of all elements without ``dim``."""
    if dim is None:
        return _rows.gather(ravel(input), ravel(indices), dim=0)
    d = at_rank(dim, len(shape_of(input)))
    shared = list(np.broadcast_shapes(*(tuple(1 if i == d else n for i, n in enumerate(shape_of(x))) for x in (input, indices))))
    wide = [[shape_of(x)[i] if i == d else n for i, n in enumerate(shared)] for x in (input, indices)]
    return _rows.gather(_rows.expand(input, wide[0]), _rows.expand(indices, wide[1]), dim=d)


@torch_function()
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None):
    """Where values would go in a sorted sequence."""
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}, expected 'left' or 'right'")
    if side == "left" and right:
        raise ValueError("searchsorted: side is 'left' and right is True")
    found = _rows.searchsorted(sorted_sequence, input, right=right or side == "right")
    return _rows.cast(found, "int32") if out_int32 else found


@torch_function()
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The bucket between boundaries of each value."""
    found = _rows.searchsorted(boundaries, input, right=right)
    return _rows.cast(found, "int32") if out_int32 else found


@torch_function()
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is among test_elements."""
    found = _rows.isin(elements, test_elements)
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
    places = [_positive(index, shape_of(input)[i]) for i, index in enumerate(indices)]
    return _rows.index_put(input, values, places, accumulate=accumulate)


@torch_function()
def index_fill(input, dim, index, value):
    """A copy of the input whose slices by index are one number."""
    if not _is_number(value) and shape_of(value):
        raise ValueError(f"index_fill: value is {list(shape_of(value))}, expected a number or a tensor without dims")
    d = at_rank(dim, len(shape_of(input)))
    sizes = [(shape_of(index)[0] if shape_of(index) else 1) if i == d else n for i, n in enumerate(shape_of(input))]
    source = full_(sizes, value, dtype_of(input)) if _is_number(value) else _rows.expand(_rows.cast(value, dtype_of(input)), sizes)
    return index_copy(input, dim, index, source)


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
    sizes, made = list(shape) if isinstance(shape, (tuple, list)) else [shape], []
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

