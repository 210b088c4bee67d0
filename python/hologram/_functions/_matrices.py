# SPDX-License-Identifier: Apache-2.0
"""Products and decompositions of matrices."""

from .. import _rows
from ._shapes import to_shape
from ._sizes import product, shape_of
from ._table import torch_function


def _require_ranks(name, *pairs):
    for word, x, rank in pairs:
        if len(shape_of(x)) != rank:
            raise ValueError(f"{name}: {word} is {list(shape_of(x))}, expected {rank} dims")


def _plus(input, made, beta, alpha):
    made = made if alpha == 1 else _rows.mul(made, alpha)
    return made if beta == 0 else _rows.add(input if beta == 1 else _rows.mul(input, beta), made)


@torch_function()
def mm(input, mat2):
    """The product of two matrices."""
    _require_ranks("mm", ("input", input, 2), ("mat2", mat2, 2))
    return _rows.matmul(input, mat2)


@torch_function()
def bmm(input, mat2):
    """The products of two stacks of matrices."""
    _require_ranks("bmm", ("input", input, 3), ("mat2", mat2, 3))
    if shape_of(input)[0] != shape_of(mat2)[0]:
        raise ValueError(f"bmm: input is {list(shape_of(input))}, mat2 {list(shape_of(mat2))}; the first sizes differ")
    return _rows.matmul(input, mat2)


@torch_function()
def mv(input, vec):
    """The product of a matrix and a vector."""
    _require_ranks("mv", ("input", input, 2), ("vec", vec, 1))
    return _rows.matmul(input, vec)


@torch_function()
def dot(input, tensor):
    """The sum of products of two vectors."""
    _require_ranks("dot", ("input", input, 1), ("tensor", tensor, 1))
    return _rows.matmul(input, tensor)


@torch_function("ger")
def outer(input, vec2):
    """The outer product of two vectors."""
    _require_ranks("outer", ("input", input, 1), ("vec2", vec2, 1))
    return _rows.mul(to_shape(input, [*shape_of(input), 1]), vec2)


@torch_function()
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    return _plus(input, mm(mat1, mat2), beta, alpha)


@torch_function()
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec)."""
    return _plus(input, mv(mat, vec), beta, alpha)


@torch_function()
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * (batch1 @ batch2)."""
    return _plus(input, bmm(batch1, batch2), beta, alpha)


@torch_function()
def qr(input, some=True):
    """The reduced QR decomposition."""
    if not some:
        raise ValueError("qr: some=False is not supported; the library computes the reduced form")
    return _rows.qr(input)


@torch_function()
def svd(input, some=True, compute_uv=True):
    """The reduced singular value decomposition: U, S and V, as torch.svd."""
    if not some or not compute_uv:
        raise ValueError("svd: some=False and compute_uv=False are not supported")
    u, s, vh = _rows.svd(input)
    rank = len(shape_of(vh))
    return u, s, _rows.permute(vh, [*range(rank - 2), rank - 1, rank - 2])


@torch_function()
def trace(input):
    """The sum of the diagonal of a matrix."""
    _require_ranks("trace", ("input", input, 2))
    return _rows.sum(_rows.diagonal(input))


@torch_function()
def bilinear(input1, input2, weight, bias=None):
    """x1^T A x2 + b for each output."""
    out, a, b = shape_of(weight)
    left = _rows.matmul(input1, _rows.reshape(_rows.permute(weight, [1, 0, 2]), [a, product([out, b])]))
    left = to_shape(left, [*shape_of(input1)[:-1], out, b])
    made = _rows.sum(_rows.mul(left, to_shape(input2, [*shape_of(input2)[:-1], 1, b])), [-1])
    return made if bias is None else _rows.add(made, bias)
