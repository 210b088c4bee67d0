# SPDX-License-Identifier: Apache-2.0
"""Products and decompositions of matrices."""

import math
import string

import numpy as np

from .. import _rows
from ._create import full_, full_like_
from ._elements import conj
from ._shapes import narrow, roll, to_shape, transpose, unsqueeze
from ._sizes import at_rank, common_dtype, dims_of, dtype_of, element_of, is_complex, is_float, product, shape_of
from ._table import define, torch_function


def _require_ranks(name, *pairs):
    for word, x, rank in pairs:
        if len(shape_of(x)) != rank:
            raise ValueError(f"{name}: {word} is {list(shape_of(x))}, expected {rank} dims")


def _times(x, factor):
    """x times a factor, in the dtype of x: integers lose the fraction of the factor. Elements that are times 0 are 0, also NaNs."""
    dtype = dtype_of(x)
    if not is_float(x) and not is_complex(x):
        factor = element_of(int(factor), dtype)
    if factor == 0:
        return _rows.where(full_like_(x, False, "bool"), x, full_([], 0, dtype))
    return x if factor == 1 else _rows.mul(x, factor)


def _plus(input, made, beta, alpha):
    made = _rows.cast(made, common_dtype(input, made)) if dtype_of(made) != dtype_of(input) else made
    return _rows.add(_times(input, beta), _times(made, alpha))


def _addr(input, vec1, vec2, beta, alpha):
    made = outer(vec1, vec2)
    dtype = common_dtype(input, made)
    if dtype.startswith(("int", "uint")) and (isinstance(beta, float) or isinstance(alpha, float)):
        raise ValueError(f"addr: the tensors are {dtype}, beta is {beta} and alpha {alpha}; expected integers")
    return _rows.add(_times(input, beta), made if alpha == 1 else _rows.mul(made, bool(alpha) if dtype == "bool" else alpha))


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


def _turned(x):
    return transpose(x, -2, -1)


define("adjoint", "The conjugate transpose of matrices.", lambda input: conj(input, _turned))
define("inner", "Sums of products along the last dims.", lambda input, other: _inner(input, other))
define("vdot", "The sum of products of two vectors, the first one conjugated.", lambda input, other: dot(conj(input), other))
define("addr", "beta * input + alpha * outer(vec1, vec2).",
       lambda input, vec1, vec2, *, beta=1, alpha=1: _addr(input, vec1, vec2, beta, alpha))  # fmt: skip
define("addbmm", "beta * input + alpha * the sum of batch1 @ batch2.",
       lambda input, batch1, batch2, *, beta=1, alpha=1: _plus(input, _rows.cast(_rows.sum(bmm(batch1, batch2), [0]), dtype_of(batch1)), beta, alpha))  # fmt: skip


def _inner(input, other):
    if not shape_of(input) or not shape_of(other):
        return _rows.mul(input, other)
    return tensordot(input, other, ([-1], [-1]))


@torch_function()
def tensordot(a, b, dims=2):
    """Sums of products along the last dims of a and the first ones of b, or along two lists of dims."""
    ranks = [len(shape_of(a)), len(shape_of(b))]
    if isinstance(dims, int):
        if not 0 <= dims <= min(ranks):
            raise ValueError(f"tensordot: dims is {dims}, expected 0 to {min(ranks)}")
        dims = (range(ranks[0] - dims, ranks[0]), range(dims))
    da, db = (dims_of(list(each) if not isinstance(each, int) else each, rank) for each, rank in zip(dims, ranks))
    sizes = [[shape_of(x)[d] for d in ds] for x, ds in ((a, da), (b, db))]
    if sizes[0] != sizes[1]:
        raise ValueError(f"tensordot: the dims have the sizes {sizes[0]} and {sizes[1]}")
    free = [[d for d in range(rank) if d not in ds] for rank, ds in zip(ranks, (da, db))]
    kept = [[shape_of(x)[d] for d in ds] for x, ds in zip((a, b), free)]
    left = to_shape(_rows.permute(a, free[0] + da), [product(kept[0]), product(sizes[0])])
    right = to_shape(_rows.permute(b, db + free[1]), [product(sizes[0]), product(kept[1])])
    return to_shape(_rows.matmul(left, right), [*kept[0], *kept[1]])


@torch_function()
def kron(input, other):
    """The Kronecker product."""
    rank = max(len(shape_of(input)), len(shape_of(other)))
    a, b = ([1] * (rank - len(shape_of(x))) + list(shape_of(x)) for x in (input, other))
    left, right = ([n for size in a for n in (size, 1)], [n for size in b for n in (1, size)])
    return to_shape(_rows.mul(to_shape(input, left), to_shape(other, right)), [product(pair) for pair in zip(a, b)])


@torch_function()
def cross(input, other, dim=None):
    """The cross product of vectors of 3 elements along a dim; without one, the first of size 3."""
    if dim is None:
        dim = next((d for d, n in enumerate(shape_of(input)) if n == 3), None)
        if dim is None:
            raise ValueError(f"cross: no dim of {list(shape_of(input))} has 3 elements")
    d = at_rank(dim, len(shape_of(input)))
    if len(shape_of(input)) != len(shape_of(other)) or shape_of(input)[d] != 3 or shape_of(other)[d] != 3:
        raise ValueError(f"cross: input is {list(shape_of(input))}, other {list(shape_of(other))}; expected 3 elements along dim {d}")
    a, b = (lambda x: roll(x, -1, d)), (lambda x: roll(x, -2, d))
    return _rows.sub(_rows.mul(a(input), b(other)), _rows.mul(b(input), a(other)))


# -- Sums of products by letters ------------------------------------------------------------------


def _letters(equation, shapes):
    """The letters of each operand and of the result; an ellipsis becomes letters of its own."""
    text = equation.replace(" ", "")
    terms, arrow, result = text.partition("->")
    terms = terms.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"einsum: '{equation}' has {len(terms)} operands, {len(shapes)} are given")
    widths, marks = [], [chr(0x100 + i) for i in range(64)]
    for term, shape in zip(terms, shapes):
        widths.append(len(shape) - len(term.replace("...", "")))
        if widths[-1] < 0 or widths[-1] > 0 and "..." not in term:
            raise ValueError(f"einsum: '{term}' of '{equation}' does not fit an operand of {len(shape)} dims")
    wide = max([width for width, term in zip(widths, terms) if "..." in term], default=0)
    terms = [term.replace("...", "".join(marks[wide - width : wide])) for term, width in zip(terms, widths)]
    joined = "".join(terms)
    if not arrow:
        result = "..." + "".join(sorted(each for each in set(joined) if joined.count(each) == 1 and each not in marks))
    result = result.replace("...", "".join(marks[:wide]))
    for each in joined + result:
        if not (each in marks or each.isascii() and each.isalpha()):
            raise ValueError(f"einsum: '{equation}' has '{each}' in place of a letter")
    for each in result:
        if result.count(each) > 1 or each not in joined:
            why = "is twice in the result" if each in joined else "of the result is in no operand"
            raise ValueError(f"einsum: '{each}' {why} of '{equation}'")
    return terms, result


def _word(numbers):
    """A list of numbers from 0 to 51, and of ..., as letters."""
    letters = string.ascii_uppercase + string.ascii_lowercase
    if not isinstance(numbers, (tuple, list)) or not all(each is Ellipsis or isinstance(each, int) and 0 <= each < 52 for each in numbers):
        raise ValueError(f"einsum: expected a list of numbers from 0 to 51 after each operand, not {numbers!r}")
    return "".join("..." if each is Ellipsis else letters[each] for each in numbers)


def _diagonals(x, term):
    """Equal letters of one operand as one."""
    for each in dict.fromkeys(term):
        while term.count(each) > 1:
            a, b = term.index(each), term.rindex(each)
            if shape_of(x)[a] != shape_of(x)[b]:
                raise ValueError(f"einsum: '{each}' stands for {shape_of(x)[a]} and {shape_of(x)[b]} elements")
            x, term = _rows.diagonal(x, 0, a, b), term[:a] + term[a + 1 : b] + term[b + 1 :] + each
    return x, term


def _summed(x, term, kept):
    gone = [d for d, each in enumerate(term) if each not in kept]
    return (_rows.sum(x, gone) if gone else x), "".join(each for each in term if each in kept)


def _contracted(x, term, y, other, kept):
    """The products of two operands as one matrix product, summed over the letters that are not kept."""
    x, term = _summed(x, term, kept | set(other))
    y, other = _summed(y, other, kept | set(term))
    if not set(term) & set(other) - kept:  # no sum
        letters = "".join(dict.fromkeys(term + other))
        return _rows.mul(_placed(x, term, letters), _placed(y, other, letters)), letters
    size = {}
    for tensor, word in ((x, term), (y, other)):
        for each, n in zip(word, shape_of(tensor)):
            if size.get(each, 1) in (1, n):
                size[each] = n
            elif n != 1:
                raise ValueError(f"einsum: '{each}' stands for {size[each]} and {n} elements")
    both = [each for each in term if each in other]
    rows, batch, summed = ([e for e in term if e not in other], [e for e in both if e in kept], [e for e in both if e not in kept])
    columns = [e for e in other if e not in term]

    def form(tensor, word, *groups):
        wide = [size[each] for group in groups for each in group]
        tensor = _rows.permute(tensor, [word.index(each) for group in groups for each in group])
        tensor = tensor if list(shape_of(tensor)) == wide else _rows.expand(tensor, wide)
        return to_shape(tensor, [product([size[each] for each in group]) for group in groups])

    made = _rows.matmul(form(x, term, batch, rows, summed), form(y, other, batch, summed, columns))
    letters = batch + rows + columns
    return to_shape(made, [size[each] for each in letters]), "".join(letters)


def _placed(x, term, letters):
    """The operand with a dim for each letter, of size 1 for those it lacks."""
    x = _rows.permute(x, [term.index(each) for each in letters if each in term])
    sizes = iter(shape_of(x))
    return to_shape(x, [next(sizes) if each in term else 1 for each in letters])


@torch_function()
def einsum(equation, *operands):
    """Sums of products: ``einsum("bij,bjk->bik", x, y)``, or ``einsum(x, [0, 1], y, [1, 2], [0, 2])`` with numbers as letters."""
    if not isinstance(equation, str):
        given = [equation, *operands]
        operands, terms = given[: len(given) // 2 * 2 : 2], [_word(each) for each in given[1::2]]
        equation = ",".join(terms) + (f"->{_word(given[-1])}" if len(given) % 2 else "")
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    if not operands:
        raise ValueError("einsum: expected at least one operand")
    terms, result = _letters(equation, [shape_of(each) for each in operands])
    pairs = [_diagonals(x, term) for x, term in zip(operands, terms)]
    made = pairs.pop(0)
    while pairs:
        kept = set(result).union(*(term for _, term in pairs[1:]))
        made = _contracted(*made, *pairs.pop(0), kept)
    x, term = _summed(*made, set(result))
    return _rows.permute(x, [term.index(each) for each in result])


# -- Inverses and solutions -----------------------------------------------------------------------


def _require_square(name, x):
    shape = shape_of(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"{name}: expected square matrices, got {list(shape)}")


def _identity(x):
    n = shape_of(x)[-1]
    return _rows.expand(_rows.eye(n, n, dtype_of(x)), list(shape_of(x)))


def _inverse(input):
    _require_square("inverse", input)
    return _rows.solve(input, _identity(input))


@torch_function()
def matrix_power(input, n):
    """The product of n equal matrices; of their inverses for n < 0."""
    _require_square("matrix_power", input)
    x, made = (_inverse(input) if n < 0 else input), None
    if n == 0:
        return _rows.add(_times(input, 0), _identity(input))
    n = abs(n)
    while n:
        if n % 2:
            made = x if made is None else _rows.matmul(made, x)
        n //= 2
        x = _rows.matmul(x, x) if n else x
    return made


@torch_function()
def chain_matmul(*matrices):
    """The product of matrices."""
    made = matrices[0]
    for each in matrices[1:]:
        made = mm(made, each)
    return made


@torch_function()
def cholesky_solve(input, input2, upper=False):
    """Solves A x = input for A = L L^T, where input2 is L, or with ``upper`` L^T."""
    lower = _turned(input2) if upper else input2
    y = _rows.solve_triangular(lower, input, upper=False)
    return _rows.solve_triangular(_turned(lower), y, upper=True)


@torch_function()
def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    """Solves A x = input for a triangular A: the solution and A."""
    a, is_upper = (_turned(A), not upper) if transpose else (A, upper)
    return _rows.solve_triangular(a, input, upper=is_upper, unitriangular=unitriangular), A


def _logdet(input):
    sign, size = _rows.slogdet(input)
    return _rows.where(_rows.lt(sign, 0), math.nan, size)


define("inverse", "The inverses of square matrices.", lambda input: _inverse(input))
define("logdet", "The logarithm of determinants; NaN for negative ones.", lambda input: _logdet(input))
define("cholesky_inverse", "The inverse of A = L L^T, where the input is L, or with ``upper`` L^T.",
       lambda input, upper=False: cholesky_solve(_identity(input), input, upper))  # fmt: skip


@torch_function()
def lu(A, *, pivot=True):
    """``A = P L U`` of matrices: a permutation, a unit lower and an upper triangle, as torch.linalg.lu."""
    if not pivot:
        raise ValueError("lu: pivot=False is not supported, expected True")
    rows, columns = shape_of(A)[-2:] if len(shape_of(A)) > 1 else (0, 0)
    both, _, order = _rows.lu(A)
    least = min(rows, columns)
    lower = _rows.add(_rows.tril(narrow(both, -1, 0, least), -1), _rows.eye(rows, least, dtype_of(A)))
    permutation = _rows.cast(_rows.eq(unsqueeze(order, -2), np.arange(rows)[:, None]), dtype_of(A))
    return permutation, lower, _rows.triu(narrow(both, -2, 0, least), 0)
