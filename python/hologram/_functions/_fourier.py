# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms, as those of torch.fft."""

import math
import operator

import numpy as np

from .. import _rows
from ._elements import as_float, conj
from ._shapes import narrow, roll, select, unsqueeze
from ._sizes import at_rank, dims_of, dtype_of, is_complex, shape_of
from ._table import define

_NORMS = {None: "none", "backward": "none", "ortho": "sqrt", "forward": "n"}
_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _norm_of(name, norm, inverse=False):
    if norm not in _NORMS:
        raise ValueError(f"{name}: norm is {norm!r}, expected 'backward', 'ortho' or 'forward'")
    return _NORMS[_OPPOSITE[norm] if inverse else norm]


def _require_kind(name, input, allow_complex=True):
    dtype = dtype_of(input)
    if dtype in ("float16", "bfloat16"):
        raise ValueError(f"{name}: input is {dtype}, expected float32, float64 or their complex numbers")
    if is_complex(input) and not allow_complex:
        raise ValueError(f"{name}: input is {dtype}, expected real numbers")


def _pairs(name, input):
    """The real and imaginary parts in a last dim."""
    _require_kind(name, input)
    if is_complex(input):
        return _rows.view_as_real(input)
    x = unsqueeze(as_float(input), -1)
    return _rows.pad(x, [0] * (2 * len(shape_of(x)) - 1) + [1])


def _axis(name, input, dim):
    if not shape_of(input):
        raise ValueError(f"{name}: the input is a scalar, expected at least one dim")
    return at_rank(dim, len(shape_of(input)))


def _resized(name, x, axis, n):
    """The first n elements along a dim, with zeros after them if it has fewer."""
    size = shape_of(x)[axis]
    if n is not None:
        n = operator.index(n)
    if (size if n is None else n) in (0, -1) or n is not None and n < 1:
        raise ValueError(f"{name}: the transform has {size if n is None else n} elements along dim {axis}, expected at least 1")
    if n is None or n == size:
        return x
    if isinstance(size, str):
        raise ValueError(f"{name}: n is {n}, but the size {size} of dim {axis} is open; expected n=None")
    if n < size:
        return narrow(x, axis, 0, n)
    pads = [0] * (2 * len(shape_of(x)))
    pads[2 * axis + 1] = n - size
    return _rows.pad(x, pads)


def _complex(pairs):
    return _rows.view_as_complex(_rows.contiguous(pairs))


def _transformed(name, input, n, dim, norm, inverse=False):
    axis = _axis(name, input, dim)
    x = _resized(name, _pairs(name, input), axis, n)
    return _complex(_rows.fft(x, axis, inverse=inverse, norm=_norm_of(name, norm, inverse)))


def _half(name, input, n, dim, norm):
    """The first n/2 + 1 numbers of the transform of real ones."""
    _require_kind(name, input, allow_complex=False)
    axis = _axis(name, input, dim)
    y = _rows.fft(_resized(name, _pairs(name, input), axis, n), axis, norm=_norm_of(name, norm))
    size = shape_of(y)[axis]
    if isinstance(size, str):
        raise ValueError(f"{name}: the size {size} of dim {axis} is open; expected n")
    return _complex(narrow(y, axis, 0, size // 2 + 1))


def _whole(name, input, n, dim, norm):
    """The real inverse transform of the first n/2 + 1 numbers; number k of the others is the conjugate of number n - k."""
    axis = _axis(name, input, dim)
    size = shape_of(input)[axis]
    if n is None and isinstance(size, str):
        raise ValueError(f"{name}: the size {size} of dim {axis} is open; expected n")
    n = 2 * (size - 1) if n is None else operator.index(n)
    if n < 1:
        raise ValueError(f"{name}: the transform has {n} elements along dim {axis}, expected at least 1")
    x = _resized(name, _pairs(name, input), axis, n // 2 + 1)
    others = _rows.index_select(x, np.arange(n - n // 2 - 1, 0, -1), axis)
    x = _rows.concat(x, _rows.mul(others, np.array([1, -1], dtype_of(others))), dim=axis)
    return select(_rows.fft(_rows.contiguous(x), axis, inverse=True, norm=_norm_of(name, norm, True)), -1, 0)


def _sizes_and_dims(name, input, s, dim):
    """[(dim, size or None)] of a transform along several dims."""
    rank = len(shape_of(input))
    if isinstance(s, int):
        s = [s]
    if dim is None:
        if s is not None and len(s) > rank:
            raise ValueError(f"{name}: s has {len(s)} sizes, the input {rank} dims")
        dims = list(range(rank if s is None else len(s))) if s is None else list(range(rank - len(s), rank))
    else:
        dims = dims_of(dim, rank) if rank or isinstance(dim, int) or len(dim) else []
        if not rank and (isinstance(dim, int) or len(dim)):
            raise ValueError(f"{name}: the input is a scalar, dim is {dim}")
        if s is not None and len(s) != len(dims):
            raise ValueError(f"{name}: s has {len(s)} sizes for {len(dims)} dims")
    return list(zip(dims, [None if n == -1 else n for n in s] if s is not None else [None] * len(dims)))


def _require_some(name, pairs):
    if not pairs:
        raise ValueError(f"{name}: expected at least one dim")
    return pairs


def _along(name, x, pairs, norm, inverse=False):
    """Transforms along several dims."""
    _norm_of(name, norm)
    if not pairs:
        return x if is_complex(x) else _complex(_pairs(name, x))
    for axis, n in pairs:
        x = _transformed(name, x, n, axis, norm, inverse)
    return x


def _fftn(name, input, s, dim, norm, inverse=False):
    return _along(name, input, _sizes_and_dims(name, input, s, dim), norm, inverse)


def _rfftn(name, input, s, dim, norm):
    *first, (axis, n) = _require_some(name, _sizes_and_dims(name, input, s, dim))
    x = _half(name, input, n, axis, norm)
    return _along(name, x, first, norm) if first else x


def _irfftn(name, input, s, dim, norm):
    *first, (axis, n) = _require_some(name, _sizes_and_dims(name, input, s, dim))
    return _whole(name, _along(name, input, first, norm, True) if first else input, n, axis, norm)


def _hfftn(name, input, s, dim, norm):
    *first, (axis, n) = _require_some(name, _sizes_and_dims(name, input, s, dim))
    x = _along(name, input, first, norm) if first else input
    return _whole(name, conj(x), n, axis, _opposite(name, norm))


def _ihfftn(name, input, s, dim, norm):
    *first, (axis, n) = _require_some(name, _sizes_and_dims(name, input, s, dim))
    x = conj(_half(name, input, n, axis, _opposite(name, norm)))
    return _along(name, x, first, norm, True) if first else x


def _opposite(name, norm):
    _norm_of(name, norm)
    return _OPPOSITE[norm]


define("fft", "The Fourier transform of n numbers along a dim.",
       lambda input, n=None, dim=-1, norm=None: _transformed("fft", input, n, dim, norm))  # fmt: skip
define("ifft", "The inverse of ``fft``.",
       lambda input, n=None, dim=-1, norm=None: _transformed("ifft", input, n, dim, norm, True))  # fmt: skip
define("rfft", "The first n/2 + 1 numbers of the transform of n real ones.",
       lambda input, n=None, dim=-1, norm=None: _half("rfft", input, n, dim, norm))  # fmt: skip
define("irfft", "The inverse of ``rfft``: n real numbers, by default an even n.",
       lambda input, n=None, dim=-1, norm=None: _whole("irfft", input, n, dim, norm))  # fmt: skip
define("hfft", "The n real numbers whose inverse transform starts with the input.",
       lambda input, n=None, dim=-1, norm=None: _hfftn("hfft", input, n, _axis("hfft", input, dim), norm))  # fmt: skip
define("ihfft", "The first n/2 + 1 numbers of the inverse transform of n real ones.",
       lambda input, n=None, dim=-1, norm=None: _ihfftn("ihfft", input, n, _axis("ihfft", input, dim), norm))  # fmt: skip
for _name, _function, _doc in (
    ("fft", _fftn, "``fft``"), ("ifft", lambda *args: _fftn(*args, True), "``ifft``"), ("rfft", _rfftn, "``rfft`` along the last of the dims, ``fft``"),
    ("irfft", _irfftn, "``irfft`` along the last of the dims, ``ifft``"), ("hfft", _hfftn, "``hfft`` along the last of the dims, ``fft``"),
    ("ihfft", _ihfftn, "``ihfft`` along the last of the dims, ``ifft``"),
):  # fmt: skip
    def _bound(name, function):
        return (lambda input, s=None, dim=(-2, -1), norm=None: function(f"{name}2", input, s, dim, norm),
                lambda input, s=None, dim=None, norm=None: function(f"{name}n", input, s, dim, norm))  # fmt: skip

    for _letter, _made in zip("2n", _bound(_name, _function)):
        define(f"{_name}{_letter}", f"{_doc} along {'two' if _letter == '2' else 'all'}{' other' if 'last' in _doc else ''} dims, or those given.", _made)


def _shifted(name, input, dim, inverse):
    dims = list(range(len(shape_of(input)))) if dim is None else dims_of(dim, len(shape_of(input)))
    sizes = [shape_of(input)[d] for d in dims]
    if any(isinstance(n, str) for n in sizes):
        raise ValueError(f"{name}: the sizes {sizes} are open")
    if not dims:
        raise ValueError(f"{name}: dim is {dim}, the input {list(shape_of(input))}; expected at least one dim")
    shifts = [-(n // 2) if inverse else n // 2 for n in sizes]
    if is_complex(input):
        return _complex(roll(_rows.view_as_real(input), shifts, dims))
    return roll(input, shifts, dims)


def _frequencies(name, n, d, dtype, is_half):
    n, kind = operator.index(n), str(dtype or "float32").removeprefix("torch.")
    if n < 0:
        raise ValueError(f"{name}: n is {n}, expected a number from 0")
    if not kind.startswith(("float", "bfloat")):
        raise ValueError(f"{name}: dtype is {kind}, expected floats")
    whole = np.arange(n // 2 + 1 if is_half else n, dtype="float64")
    if not is_half:
        whole[(n + 1) // 2 :] -= n
    factor = 1.0 / (n * d) if n * d else math.inf
    return _rows.mul(_rows.cast(whole, kind), factor)


define("fftshift", "Moves frequency 0 to the middle of dims.", lambda input, dim=None: _shifted("fftshift", input, dim, False))
define("ifftshift", "The inverse of ``fftshift``.", lambda input, dim=None: _shifted("ifftshift", input, dim, True))
define("fftfreq", "The frequencies of ``fft`` of n samples at a distance of d.",
       lambda n, d=1.0, *, dtype=None: _frequencies("fftfreq", n, d, dtype, False))  # fmt: skip
define("rfftfreq", "The frequencies of ``rfft`` of n samples at a distance of d.",
       lambda n, d=1.0, *, dtype=None: _frequencies("rfftfreq", n, d, dtype, True))  # fmt: skip
