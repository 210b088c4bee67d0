# SPDX-License-Identifier: Apache-2.0
"""Kernels in torch's autograd."""

import torch

from .. import _core
from ._backward import kept, once_differentiable


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernel, named, shape, names, *tensors):
        ctx.kernel, ctx.shape, ctx.names = kernel, shape, names
        ctx.others = {name: value for name, value in named.items() if name not in names}
        ctx.order = list(named)
        ctx.save_for_backward(*tensors)
        return _core.kernel_call(kernel, named, None, shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        given = dict(zip(ctx.names, ctx.saved_tensors))
        given.update(ctx.others)
        named = {name: given[name] for name in ctx.order}
        wanted = [name for name, needed in zip(ctx.names, ctx.needs_input_grad[4:]) if needed]
        found = dict(zip(wanted, _core.kernel_gradients(ctx.kernel, named, wanted, list(gradients), ctx.shape)))
        return (None, None, None, None, *(found.get(name) for name in ctx.names))


def apply(kernel, named, shape):
    for name, value in named.items():
        if isinstance(value, dict) and any(getattr(each, "requires_grad", False) for each in value.values()):
            raise ValueError(f"kernel '{kernel.name}': members of a struct take no part in autograd; detach '{name}'")
    named = {name: kept(value) for name, value in named.items()}
    names = [name for name, value in named.items() if isinstance(value, torch.Tensor)]
    return _Call.apply(kernel, named, shape, names, *(named[name] for name in names))
