# SPDX-License-Identifier: Apache-2.0
"""Code shared by the layers."""

import functools

import numpy as np
import torch

from .. import _core
from .. import _rows as ops
from .._autograd._device import as_hologram, as_torch


def takes_hologram(forward):
    """A layer's ``forward`` that also takes numpy arrays, and hologram tensors: the results of these are such tensors."""

    @functools.wraps(forward)
    def run(self, *args, **kwargs):
        for each in args:
            if type(each) in _OTHERS:
                break
        else:
            if not kwargs or not any(type(each) in _OTHERS for each in kwargs.values()):
                return forward(self, *args, **kwargs)
        result = forward(self, *map(_tracked, args), **{name: _tracked(each) for name, each in kwargs.items()})
        if not any(type(each) is _core.Tensor for each in (*args, *kwargs.values())):
            return result
        return tuple(map(as_hologram, result)) if isinstance(result, tuple) else as_hologram(result)

    if not (forward.__doc__ and forward.__module__.startswith("hologram.")):
        run.__doc__ = "The layer's result, of torch tensors or numpy arrays a torch tensor, of hologram tensors such a tensor."
    return run


_OTHERS = {_core.Tensor, np.ndarray}


def _tracked(value):
    if isinstance(value, tuple):  # the states of an LSTM
        return tuple(map(_tracked, value))
    if type(value) is np.ndarray:  # torch knows neither negative strides nor arrays that are read only
        is_fit = value.flags.writeable and min(value.strides, default=0) >= 0
        return torch.from_numpy(value if is_fit else value.copy())
    return as_torch(value) if type(value) is _core.Tensor else value


def autocast(dtype, *tensors):
    """The tensors as torch.autocast passes them to an op: in ``dtype``, or in their own if that is None."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu") if dtype is None else dtype
    return tuple(
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors
    )


def in_float32(function, input):
    """Runs an op with 16-bit input and float32 weights in float32, like torch."""
    if input.dtype not in (torch.float16, torch.bfloat16):
        return function(input)
    results = function(input.float())
    if isinstance(results, tuple):
        return (results[0].to(input.dtype), *results[1:])
    return results.to(input.dtype)


def elementwise(layer, input, function):
    """``function(input)``, written to the input if the layer is ``inplace``. The op then reads a copy, which its backward pass may
    read again."""
    if not layer.inplace:
        return function(input)
    y = function(input.clone())
    if y.dtype != input.dtype:
        raise RuntimeError(f"{type(layer).__name__}: the result is {y.dtype}, the input that it is written to {input.dtype}")
    return input.copy_(y)


def require_floats(layer, *tensors):
    """Rejects integer inputs, as torch does."""
    for each in tensors:
        if not each.is_floating_point():
            raise TypeError(f"{type(layer).__name__}: the input is {each.dtype}, not a float")


def require_held(layer, dtype, *numbers):
    """Requires that an integer dtype can hold the given integers of a layer."""
    if dtype == torch.bool:
        raise TypeError(f"{type(layer).__name__}: the input is bool")
    for each in numbers:
        if not torch.iinfo(dtype).min <= each <= torch.iinfo(dtype).max:
            raise ValueError(f"{type(layer).__name__}: {each} is nothing that {dtype} holds")
    return [int(each) for each in numbers]


def listed(value, count):
    """One number for all dims, or one per dim, as a list."""
    return [value] * count if isinstance(value, int) else list(value)


def batched(layer, input, dims, function):
    """Applies ``function`` to [n, c, spatial...], also if the input lacks n."""
    if input.dim() not in (dims + 1, dims + 2):
        raise ValueError(f"{type(layer).__name__}: expected {dims + 1} or {dims + 2} dims, got {tuple(input.shape)}")
    alone = input.dim() == dims + 1
    y = function(input.unsqueeze(0) if alone else input)
    results = y if isinstance(y, tuple) else (y,)
    if 0 in results[0].shape[-dims:] and 0 not in input.shape[-dims:]:
        raise ValueError(f"{type(layer).__name__}: no window lies in the input, which is {tuple(input.shape)}")
    results = tuple(each.squeeze(0) for each in results) if alone else results
    return results if isinstance(y, tuple) else results[0]


def padded(x, pads, mode="constant", value=0.0):
    """Pads x in torch's order: begin and end of the last dim, then of the one before it."""
    dims = x.dim() - len(pads) // 2
    order = [0] * (2 * dims)
    for i in reversed(range(0, len(pads), 2)):
        order += pads[i : i + 2]
    return ops.pad(x, order, mode=mode, value=value)


def reduced(loss, reduction):
    if reduction == "none":
        return loss
    dims = list(range(loss.dim()))
    return ops.mean(loss, dims) if reduction == "mean" else ops.sum(loss, dims)
