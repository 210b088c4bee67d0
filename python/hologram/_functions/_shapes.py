# SPDX-License-Identifier: Apache-2.0
"""Functions that move, join and cut tensors."""

import operator

from .. import _rows
from ._sizes import at_rank, dims_of, dtype_of, plus, product, resolved, shape_of, sizes_from
from ._table import define, torch_function


def to_shape(x, sizes):
    return _rows.reshape(x, list(sizes))


@torch_function()
def reshape(input, *shape):
    """The elements in another shape; one size may be -1."""
    return to_shape(input, resolved(shape_of(input), sizes_from(shape)))


@torch_function()
def view(input, *shape):
    """As reshape."""
    return reshape(input, *shape)


@torch_function()
def view_as(input, other):
    """As reshape to the shape of ``other``."""
    return to_shape(input, shape_of(other))


@torch_function()
def reshape_as(input, other):
    """As reshape to the shape of ``other``."""
    return to_shape(input, shape_of(other))


@torch_function()
def flatten(input, start_dim=0, end_dim=-1):
    """Joins the dims from start_dim to end_dim."""
    shape = shape_of(input)
    if not shape:
        return to_shape(input, [1])
    start, end = at_rank(start_dim, len(shape), "start_dim"), at_rank(end_dim, len(shape), "end_dim")
    if start > end:
        raise ValueError(f"flatten: start_dim is {start_dim}, after end_dim {end_dim}")
    return to_shape(input, [*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]])


@torch_function()
def ravel(input):
    """The elements in one dim."""
    return to_shape(input, [product(shape_of(input))])


@torch_function()
def unflatten(input, dim, sizes):
    """Splits a dim into several; one size may be -1."""
    shape = shape_of(input)
    d = at_rank(dim, len(shape))
    return to_shape(input, [*shape[:d], *resolved(shape[d : d + 1], sizes_from([sizes])), *shape[d + 1 :]])


@torch_function()
def permute(input, *dims):
    """The dims in another order."""
    dims, rank = sizes_from(dims), len(shape_of(input))
    if len(dims) != rank:
        raise ValueError(f"permute: {len(dims)} dims are given, the input has {rank}")
    return _rows.permute(input, dims_of(dims, rank))


@torch_function("swapdims")
def transpose(input, dim0, dim1):
    """Swaps two dims."""
    rank = len(shape_of(input))
    order = list(range(rank))
    a, b = at_rank(dim0, rank, "dim0"), at_rank(dim1, rank, "dim1")
    if rank:
        order[a], order[b] = b, a
    return _rows.permute(input, order)


@torch_function()
def swapaxes(input, axis0, axis1):
    """Swaps two dims."""
    return transpose(input, axis0, axis1)


@torch_function()
def t(input):
    """The transpose of a matrix; other tensors of lower rank as they are."""
    rank = len(shape_of(input))
    if rank > 2:
        raise ValueError(f"t: the input has {rank} dims, at most 2 are expected")
    return _rows.permute(input, list(range(rank))[::-1])


@torch_function("moveaxis")
def movedim(input, source, destination):
    """Moves dims to other places; the rest keeps its order."""
    rank = len(shape_of(input))
    source, destination = dims_of(source, rank), dims_of(destination, rank)
    if len(source) != len(destination):
        raise ValueError(f"movedim: {len(source)} dims move to {len(destination)} places")
    order = [None] * rank
    for a, b in zip(source, destination):
        order[b] = a
    rest = iter([d for d in range(rank) if d not in source])
    return _rows.permute(input, [next(rest) if d is None else d for d in order])


@torch_function()
def squeeze(input, dim=None):
    """Removes dims of size 1: all, or those of ``dim`` that have it."""
    shape = shape_of(input)
    dims = range(len(shape)) if dim is None else dims_of(dim, len(shape))
    kept = [n for d, n in enumerate(shape) if d not in dims or n != 1]
    if any(isinstance(shape[d], str) for d in dims):
        raise ValueError(f"squeeze: the input is {list(shape)}; an open size cannot be removed")
    return to_shape(input, kept)


@torch_function()
def unsqueeze(input, dim):
    """Inserts a dim of size 1."""
    shape = shape_of(input)
    d = at_rank(dim, len(shape) + 1)
    return to_shape(input, [*shape[:d], 1, *shape[d:]])


@torch_function()
def expand(input, *sizes):
    """Repeats dims of size 1 up to ``sizes``; -1 keeps a size."""
    sizes, shape = sizes_from(sizes), shape_of(input)
    missing = len(sizes) - len(shape)
    if missing < 0:
        raise ValueError(f"expand: {len(sizes)} sizes are given for an input of {len(shape)} dims")
    if -1 in sizes[:missing]:
        raise ValueError(f"expand: -1 among the {missing} new dims of {sizes}")
    return _rows.expand(input, [shape[d - missing] if n == -1 else n for d, n in enumerate(sizes)])


@torch_function()
def broadcast_to(input, size):
    """As expand."""
    return expand(input, size)


@torch_function()
def expand_as(input, other):
    """As expand to the shape of ``other``."""
    return expand(input, shape_of(other))


@torch_function()
def repeat(input, *repeats):
    """Copies of the input side by side, ``repeats`` of them along each dim."""
    repeats, shape = sizes_from(repeats), shape_of(input)
    if len(repeats) < len(shape):
        raise ValueError(f"repeat: {len(repeats)} numbers are given for {len(shape)} dims")
    return _rows.repeat(to_shape(input, [1] * (len(repeats) - len(shape)) + list(shape)), repeats)


@torch_function()
def tile(input, dims):
    """As repeat; missing numbers are 1."""
    dims = sizes_from([dims])
    return repeat(input, [1] * (len(shape_of(input)) - len(dims)) + dims)


@torch_function()
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    """Each slice along ``dim`` as often as ``repeats`` says, a number or a tensor of them; of all elements without ``dim``."""
    if dim is None:
        input, dim = ravel(input), 0
    d = at_rank(dim, len(shape_of(input)))
    size = shape_of(input)[d]
    if isinstance(repeats, int):
        if repeats < 0:
            raise ValueError(f"repeat_interleave: repeats is {repeats}")
        shape = shape_of(input)
        wide = to_shape(input, [*shape[: d + 1], 1, *shape[d + 1 :]])
        wide = _rows.expand(wide, [*shape[: d + 1], repeats, *shape[d + 1 :]])
        return to_shape(wide, [*shape[:d], product([size, repeats]), *shape[d + 1 :]])
    counts = shape_of(repeats)
    if counts in ((), (1,)):
        repeats = _rows.expand(to_shape(repeats, [1]), [size])
    elif counts != (size,):
        raise ValueError(f"repeat_interleave: repeats is {list(counts)}, dim {dim} has {size} elements")
    return _rows.index_select(input, _rows.repeat_interleave(repeats), d)


@torch_function()
def flip(input, *dims):
    """Reverses the order along dims."""
    return _rows.flip(input, dims_of(sizes_from(dims), len(shape_of(input))))


@torch_function()
def fliplr(input):
    """Reverses the second dim."""
    return flip(input, 1)


@torch_function()
def flipud(input):
    """Reverses the first dim."""
    return flip(input, 0)


@torch_function()
def roll(input, shifts, dims=None):
    """Shifts elements along dims, around the end; of all elements without ``dims``."""
    shifts = sizes_from([shifts]) if isinstance(shifts, (tuple, list)) else [operator.index(shifts)]
    shape = shape_of(input)
    if dims is None or dims == () or dims == []:
        if len(shifts) != 1:
            raise ValueError(f"roll: {len(shifts)} shifts are given without dims")
        return to_shape(_rows.roll(ravel(input), shifts, [0]), shape)
    dims = [at_rank(each, len(shape)) for each in (dims if isinstance(dims, (tuple, list)) else [dims])]
    return _rows.roll(input, shifts, dims)


@torch_function("concat", "concatenate")
def cat(tensors, dim=0):
    """Joins tensors along a dim."""
    tensors = list(tensors)
    if not tensors:
        raise ValueError("cat: expected at least one tensor")
    full = [each for each in tensors if shape_of(each) != (0,)] or tensors[:1]  # as torch skips empty ones of rank 1
    rank = len(shape_of(full[0]))
    if rank == 0:
        raise ValueError("cat: a tensor of rank 0 has no dim to join")
    d = at_rank(dim, rank)
    if len(full) < len(tensors) and rank > 1:
        return _rows.concat(full, d)
    return _rows.concat(tensors, d)


@torch_function()
def stack(tensors, dim=0):
    """Joins tensors of one shape along a new dim."""
    tensors = list(tensors)
    if not tensors:
        raise ValueError("stack: expected at least one tensor")
    shapes = {shape_of(each) for each in tensors}
    if len(shapes) > 1:
        raise ValueError(f"stack: expected tensors of one shape, got {sorted(map(list, shapes), key=str)}")
    return _rows.concat([unsqueeze(each, dim) for each in tensors], at_rank(dim, len(shape_of(tensors[0])) + 1))


def _at_least(rank):
    def widened(x):
        n, shape = len(shape_of(x)), shape_of(x)
        return x if n >= rank else to_shape(x, [*[1] * (rank - n - (rank == 3 and n > 0)), *shape, *[1] * (rank == 3 and n > 0)])

    def function(*tensors):
        made = [widened(each) for each in sizes_or_tensors(tensors)]
        return made[0] if len(made) == 1 and not (tensors and isinstance(tensors[0], (tuple, list))) else tuple(made)

    define(f"atleast_{rank}d", f"Tensors of lower rank as rank {rank}.", function)
    return widened


_at_least(1)
_as_matrix, _as_cube = _at_least(2), _at_least(3)


def sizes_or_tensors(tensors):
    return tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


@torch_function()
def hstack(tensors):
    """Joins along dim 1, or dim 0 of tensors of rank 1."""
    made = [each if shape_of(each) else to_shape(each, [1]) for each in tensors]
    return cat(made, min(1, len(shape_of(made[0])) - 1))


define("vstack", "Joins along dim 0; tensors of rank 1 are rows.", lambda tensors: cat([_as_matrix(each) for each in tensors]), "row_stack")
define("dstack", "Joins along dim 2; tensors of lower rank have one layer.", lambda tensors: cat([_as_cube(each) for each in tensors], 2))
define("column_stack", "Joins along dim 1; tensors of rank 1 are columns.", lambda tensors: cat(
       [each if len(shape_of(each)) > 1 else to_shape(each, [product(shape_of(each)), 1]) for each in tensors], 1))  # fmt: skip


def part(x, dim, start, end, step=1):
    return _rows.slice(x, dim, start, end, step)


def bounded(x, dim, start, end, step=1):
    """The slice start:end:step as Python cuts lists."""
    size = shape_of(x)[dim]
    if isinstance(size, str):
        start = 0 if start is None else plus(size, start) if start < 0 else start
        end = size if end is None else plus(size, end) if end < 0 else end
        return part(x, dim, start, end, step)
    start, end, step = slice(start, end, step).indices(size)
    return part(x, dim, start, max(start, end), step)


@torch_function()
def narrow(input, dim, start, length):
    """``length`` elements from ``start`` along a dim."""
    shape = shape_of(input)
    d = at_rank(dim, len(shape))
    begin = plus(shape[d], start) if start < 0 else start
    return part(input, d, begin, plus(begin, length))


@torch_function()
def select(input, dim, index):
    """One slice along a dim, which is removed."""
    shape = shape_of(input)
    if not shape:
        raise IndexError("select: a tensor of rank 0 has no slices")
    d = at_rank(dim, len(shape))
    if not isinstance(shape[d], str) and not -shape[d] <= index < shape[d]:
        raise IndexError(f"select: index {index} is out of range for dim {dim} with size {shape[d]}")
    begin = plus(shape[d], index) if index < 0 else index
    return to_shape(part(input, d, begin, plus(begin, 1)), [*shape[:d], *shape[d + 1 :]])


def _cut(input, d, sizes):
    out, start = [], 0
    for n in sizes:
        out.append(part(input, d, start, start + n))
        start += n
    return tuple(out)


def _known_size(name, input, dim):
    shape = shape_of(input)
    if not shape:
        raise ValueError(f"{name}: a tensor of rank 0 has no dim to cut")
    d = at_rank(dim, len(shape))
    if isinstance(shape[d], str):
        raise ValueError(f"{name}: dim {dim} has the open size {shape[d]}, which decides the number of results")
    return d, shape[d]


@torch_function()
def split(tensor, split_size_or_sections, dim=0):
    """Pieces of one size, the last one may be smaller, or of the sizes in a list, as a tuple."""
    d, size = _known_size("split", tensor, dim)
    given = split_size_or_sections
    if isinstance(given, (tuple, list)):
        if sum(given) != size:
            raise ValueError(f"split: the sizes {list(given)} add up to {sum(given)}, dim {dim} has {size}")
        return _cut(tensor, d, given)
    if given < 0 or given == 0 and size:
        raise ValueError(f"split: the size of pieces is {given}, expected at least 1")
    if size == 0:
        return (tensor,)
    return _cut(tensor, d, [min(given, size - at) for at in range(0, size, given)])


define("split_with_sizes", "Pieces of the sizes in a list, as a tuple.", lambda input, split_sizes, dim=0: split(input, list(split_sizes), dim),
       "unsafe_split_with_sizes")  # fmt: skip
define("unsafe_split", "As split.", lambda tensor, split_size, dim=0: split(tensor, split_size, dim))


@torch_function()
def tensor_split(input, indices_or_sections, dim=0):
    """Pieces of nearly equal size, or cut at the indices in a list, as a tuple."""
    d, size = _known_size("tensor_split", input, dim)
    given = indices_or_sections
    if isinstance(given, int):
        if given < 1:
            raise ValueError(f"tensor_split: the number of pieces is {given}, expected at least 1")
        cuts = [i * (size // given) + min(i, size % given) for i in range(1, given)]
    else:
        cuts = [operator.index(each) for each in given]
    return tuple(bounded(input, d, start, end) for start, end in zip([0, *cuts], [*cuts, size]))


def _split_along(name, dim, least):
    def function(input, indices_or_sections):
        rank = len(shape_of(input))
        if rank < least:
            raise ValueError(f"{name}: expected at least {least} dims, got {list(shape_of(input))}")
        d, given = (0 if rank == 1 else dim), indices_or_sections
        size = shape_of(input)[d]
        if isinstance(given, int) and (given < 1 or not isinstance(size, str) and size % given):
            raise ValueError(f"{name}: dim {d} has {size} elements, which {given} does not divide")
        return tensor_split(input, given, d)

    define(name, f"Pieces along dim {dim}, of one size or cut at the indices in a list, as a tuple.", function)


for _name, _dim, _least in (("hsplit", 1, 1), ("vsplit", 0, 2), ("dsplit", 2, 3)):
    _split_along(_name, _dim, _least)


@torch_function("unsafe_chunk")
def chunk(input, chunks, dim=0):
    """At most ``chunks`` pieces of equal size, the last one may be smaller, as a tuple."""
    d, size = _known_size("chunk", input, dim)
    if chunks < 1:
        raise ValueError(f"chunk: chunks is {chunks}, expected at least 1")
    if size == 0:
        return tuple(part(input, d, 0, 0) for _ in range(chunks))
    return split(input, -(-size // chunks), d)


@torch_function()
def unbind(input, dim=0):
    """All slices along a dim, which is removed, as a tuple."""
    d, size = _known_size("unbind", input, dim)
    return tuple(select(input, d, i) for i in range(size))


@torch_function()
def as_strided(input, size, stride, storage_offset=None):
    """Elements by offset and strides in the elements of the input, in order."""
    return _rows.as_strided(input, size, stride, storage_offset or 0)


@torch_function()
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of the input in which ``src`` replaces the elements of as_strided()."""
    return _rows.as_strided_scatter(input, src, size, stride, storage_offset or 0)


@torch_function()
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """A copy of the input whose slice is ``src``."""
    d = at_rank(dim, len(shape_of(input)))
    size = shape_of(input)[d]
    if isinstance(size, str):
        raise ValueError(f"slice_scatter: dim {dim} has the open size {size}")
    begin, last, step = slice(start, end, step).indices(size)
    return _rows.slice_scatter(input, src, d, begin, max(begin, last), step)


@torch_function()
def select_scatter(input, src, dim, index):
    """A copy of the input whose slice ``index`` is ``src``."""
    shape = shape_of(input)
    d = at_rank(dim, len(shape))
    if not -shape[d] <= index < shape[d]:
        raise IndexError(f"select_scatter: index {index} is out of range for dim {dim} with size {shape[d]}")
    begin = index + shape[d] if index < 0 else index
    return _rows.slice_scatter(input, unsqueeze(src, d), d, begin, begin + 1, 1)


@torch_function()
def pixel_shuffle(input, upscale_factor):
    """Moves channels to space (Shi et al. 2016)."""
    *front, c, h, w = shape_of(input)
    r = upscale_factor
    wide = to_shape(input, [*front, c // (r * r), r, r, h, w])
    n = len(front)
    moved = _rows.permute(wide, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return to_shape(moved, [*front, c // (r * r), product([h, r]), product([w, r])])


@torch_function()
def pixel_unshuffle(input, downscale_factor):
    """The inverse of pixel_shuffle."""
    *front, c, h, w = shape_of(input)
    r = downscale_factor
    wide = to_shape(input, [*front, c, h // r, r, w // r, r])
    n = len(front)
    return to_shape(_rows.permute(wide, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), [*front, c * r * r, h // r, w // r])


@torch_function()
def rot90(input, k=1, dims=(0, 1)):
    """Turns by 90 degrees, k times, from the first dim to the second."""
    a, b = dims_of(dims, len(shape_of(input)))
    return [lambda: input, lambda: flip(swapaxes(input, a, b), a), lambda: flip(input, a, b), lambda: flip(swapaxes(input, a, b), b)][k % 4]()


@torch_function()
def meshgrid(*tensors, indexing=None):
    """The coordinates of a grid, as a tuple; ``indexing`` is "ij" or "xy"."""
    tensors = [each if shape_of(each) else to_shape(each, [1]) for each in sizes_or_tensors(tensors)]
    if indexing not in (None, "ij", "xy"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}, expected 'ij' or 'xy'")
    if any(len(shape_of(each)) != 1 for each in tensors):
        raise ValueError(f"meshgrid: expected tensors of at most 1 dim, got {[list(shape_of(each)) for each in tensors]}")
    is_turned = indexing == "xy" and len(tensors) > 1
    if is_turned:
        tensors[:2] = tensors[1::-1]
    sizes = [shape_of(each)[0] for each in tensors]
    made = [_rows.expand(to_shape(x, [n if i == d else 1 for i, n in enumerate(sizes)]), sizes) for d, x in enumerate(tensors)]
    return tuple(made[1::-1] + made[2:] if is_turned else made)


@torch_function()
def cartesian_prod(*tensors):
    """All combinations of one element of each tensor, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([ravel(each) for each in meshgrid(*tensors)], 1)


@torch_function()
def combinations(input, r=2, with_replacement=False):
    """All combinations of r elements, as rows."""
    import itertools

    import numpy as np

    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if len(shape_of(input)) != 1:
        raise ValueError(f"combinations: expected 1 dim, got {list(shape_of(input))}")
    if r == 0:
        return part(input, 0, 0, 0)
    places = np.array(list(chosen(range(shape_of(input)[0]), r)), np.int64).reshape(-1, r)
    return to_shape(_rows.index_select(input, places.reshape(-1), 0), places.shape)


@torch_function()
def block_diag(*tensors):
    """A matrix of blocks on its diagonal, zero elsewhere."""
    if not tensors:
        return _rows.full([1, 0], 0.0, "float32")
    blocks = [_as_matrix(each) for each in tensors]
    rows, before, width = [], 0, sum(shape_of(each)[1] for each in blocks)
    for each in blocks:
        size = shape_of(each)[1]
        rows.append(_rows.pad(each, [0, 0, before, width - before - size]))
        before += size
    return cat(rows)


@torch_function()
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices with the last dim on their diagonals."""
    shape = shape_of(input)
    a, b = at_rank(dim1, len(shape) + 1, "dim1"), at_rank(dim2, len(shape) + 1, "dim2")
    if a == b:
        raise ValueError(f"diag_embed: dim1 and dim2 are both {a}")
    n = shape[-1] + abs(offset)
    sizes = [n if d in (a, b) else None for d in range(len(shape) + 1)]
    rest = iter(shape[:-1])
    zeros = _rows.expand(_rows.cast(to_shape(_rows.full([1], 0.0, "float32"), [1] * len(sizes)), dtype_of(input)),
                         [next(rest) if each is None else each for each in sizes])  # fmt: skip
    return _rows.diagonal_scatter(zeros, input, offset, a, b)


@torch_function()
def diag(input, diagonal=0):
    """A matrix with the input on its diagonal, or the diagonal of a matrix."""
    rank = len(shape_of(input))
    if rank not in (1, 2):
        raise ValueError(f"diag: expected 1 or 2 dims, got {list(shape_of(input))}")
    return diag_embed(input, diagonal) if rank == 1 else _rows.diagonal(input, diagonal)


define("diagflat", "A matrix with all elements on its diagonal.", lambda input, offset=0: diag_embed(ravel(input), offset))
define("broadcast_shapes", "The shape of the result of tensors of these shapes.", lambda *shapes: _shared(shapes))


def _shared(shapes):
    import numpy as np

    return np.broadcast_shapes(*shapes)
