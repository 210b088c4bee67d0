# SPDX-License-Identifier: Apache-2.0
"""Short-time Fourier transforms."""

import numpy as np

from .. import _rows
from ._shapes import narrow, select, to_shape, transpose
from ._sizes import dtype_of, is_complex, is_float, shape_of
from ._table import torch_function


def _window(name, n_fft, hop_length, win_length, window, like):
    """(hop, window of n_fft numbers, with zeros on both sides)"""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if n_fft < 1 or hop < 1 or not 0 < length <= n_fft:
        raise ValueError(f"{name}: n_fft is {n_fft}, hop_length {hop}, win_length {length}; expected n_fft and hop_length from 1, win_length from 1 to n_fft")
    if window is None:
        window = np.ones(length, {"complex64": "float32", "complex128": "float64"}.get(dtype_of(like), dtype_of(like)))
    elif tuple(shape_of(window)) != (length,) or is_complex(window):
        raise ValueError(f"{name}: window is {dtype_of(window)}{list(shape_of(window))}, expected real numbers [{length}], which is win_length")
    left = (n_fft - length) // 2
    return hop, _rows.pad(window, [left, n_fft - length - left])


def _padded(length, more, mode):
    """The elements of a signal with ``more`` ones on both sides."""
    kinds = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in kinds:
        raise ValueError(f"stft: pad_mode is {mode!r}, expected one of constant, {', '.join(kinds)}")
    if length < {"reflect": more + 1, "replicate": 1, "circular": more}[mode]:
        raise ValueError(f"stft: the input has {length} elements, but pad_mode {mode!r} repeats {more} of them, half of n_fft")
    return np.pad(np.arange(length), more, kinds[mode])


@torch_function()
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None,
         return_complex=None, align_to_window=None):  # fmt: skip
    """The Fourier transforms of overlapping windows of a signal [length] or [batch, length]: [..., frequencies, frames]."""
    shape, is_real = list(shape_of(input)), is_float(input)
    if len(shape) not in (1, 2) or not (is_real or is_complex(input)):
        raise ValueError(f"stft: input is {dtype_of(input)}{shape}, expected floats or complex numbers [length] or [batch, length]")
    if return_complex is None and is_real:
        raise ValueError("stft: return_complex is missing; expected True, or False for real and imaginary parts in a last dim")
    if align_to_window:
        raise ValueError("stft: align_to_window is not supported")
    onesided = is_real if onesided is None else onesided
    if onesided and not is_real:
        raise ValueError("stft: onesided is True, but the transform of complex numbers has two sides")
    hop, window = _window("stft", n_fft, hop_length, win_length, window, input)
    parts = 1 if is_real else 2
    x = to_shape(input if is_real else _rows.view_as_real(input), [*([1] if len(shape) == 1 else []), *shape, parts])
    if center and pad_mode == "constant":
        x = _rows.pad(x, [0, 0, n_fft // 2, n_fft // 2, 0, 0])
        center = False
    elements = _padded(shape_of(x)[1], n_fft // 2, pad_mode) if center else np.arange(shape_of(x)[1])
    if len(elements) < n_fft:
        raise ValueError(f"stft: the input has {len(elements)} elements with its padding, expected at least n_fft, which is {n_fft}")
    places = np.lib.stride_tricks.sliding_window_view(elements, n_fft)[::hop]
    x = to_shape(_rows.index_select(x, np.ascontiguousarray(places).ravel(), 1), [shape_of(x)[0], *places.shape, parts])
    x = _rows.mul(x, to_shape(window, [n_fft, 1]))
    if is_real:
        x = _rows.pad(x, [0] * 7 + [1])
    y = _rows.fft(x, 2, norm="sqrt" if normalized else "none")  # [batch, frames, frequencies, 2]
    y = _rows.contiguous(transpose(narrow(y, 2, 0, n_fft // 2 + 1) if onesided else y, 1, 2))
    if len(shape) == 1:
        y = to_shape(y, list(shape_of(y))[1:])
    return y if return_complex is False else _rows.view_as_complex(y)


@torch_function()
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None,
          return_complex=False):  # fmt: skip
    """The signal whose ``stft`` is closest to the input, [frequencies, frames] or [batch, frequencies, frames]."""
    shape, sides = list(shape_of(input)), n_fft // 2 + 1
    if not is_complex(input) or len(shape) not in (2, 3) or 0 in shape:
        raise ValueError(f"istft: input is {dtype_of(input)}{shape}, expected complex numbers [frequencies, frames] or [batch, frequencies, frames]")
    hop, window = _window("istft", n_fft, hop_length, win_length, window, input)
    if hop > (n_fft if win_length is None else win_length):
        raise ValueError(f"istft: hop_length is {hop}, expected at most win_length, which is {n_fft if win_length is None else win_length}")
    onesided = shape[-2] != n_fft if onesided is None else onesided
    if shape[-2] != (sides if onesided else n_fft):
        raise ValueError(f"istft: the input has {shape[-2]} frequencies, expected {sides if onesided else n_fft} for n_fft {n_fft} and onesided={onesided}")
    if onesided and return_complex:
        raise ValueError("istft: return_complex=True needs the frequencies of both sides, onesided=False")
    batch, frames = shape[0] if len(shape) == 3 else 1, shape[-1]
    x = transpose(to_shape(_rows.view_as_real(input), [batch, *shape[-2:], 2]), 1, 2)  # [batch, frames, frequencies, 2]
    if not return_complex:  # as in PyTorch, number k of the others is the conjugate of number n - k
        x = narrow(x, 2, 0, sides)
        others = _rows.index_select(x, np.arange(n_fft - sides, 0, -1), 2)
        x = _rows.concat(x, _rows.mul(others, np.array([1, -1], dtype_of(others))), dim=2)
    x = _rows.fft(_rows.contiguous(x), 2, inverse=True, norm="sqrt" if normalized else "n")
    whole = n_fft + hop * (frames - 1)
    places = (np.arange(frames)[:, None] * hop + np.arange(n_fft)).ravel()
    kind = dtype_of(x)
    squares = to_shape(_rows.expand(_rows.square(window), [frames, n_fft]), [frames * n_fft])
    weights = _rows.index_reduce(np.zeros(whole, kind), places, _rows.cast(squares, kind), dim=0, reduce="add")
    x = to_shape(_rows.mul(x, to_shape(window, [n_fft, 1])), [batch, frames * n_fft, 2])
    y = _rows.index_reduce(np.zeros((batch, whole, 2), kind), places, x, dim=1, reduce="add")
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    kept = max(min(end, whole) - start, 0)
    weights = narrow(weights, 0, start, kept)
    least = _rows.amin(weights, []).item() if kept and not _rows.is_expression(weights) else 1
    if not least > 1e-11:
        raise ValueError(f"istft: the sum of the squared windows is {least} at an element, expected more than 1e-11")
    y = _rows.div(narrow(y, 1, start, kept), to_shape(weights, [kept, 1]))
    if end > whole:
        y = _rows.pad(y, [0, 0, 0, end - whole, 0, 0])
    y = y if len(shape) == 3 else select(y, 0, 0)
    return _rows.view_as_complex(_rows.contiguous(y)) if return_complex else select(y, -1, 0)
