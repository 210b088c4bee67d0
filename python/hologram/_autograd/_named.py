# SPDX-License-Identifier: Apache-2.0
"""Programs of named blocks in torch's autograd."""

import torch
from torch.autograd.function import once_differentiable

from .. import _core


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, program, parameters, data, *tensors):
        ctx.program, ctx.parameters, ctx.data = program, parameters, data
        names = [*parameters, *data]
        given = dict(zip(names, tensors))
        found = program.evaluate_({name: given[name] for name in parameters}, {name: given[name] for name in data})
        ctx.outputs = list(found)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        results = tuple(_core.share(each, "torch") for each in found.values())
        ctx.mark_non_differentiable(*(each for each in results if not each.is_floating_point()))
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        names = [*ctx.parameters, *ctx.data]
        given = dict(zip(names, ctx.saved_tensors))
        seeds = {name: gradient for name, gradient in zip(ctx.outputs, gradients) if gradient is not None}
        _, found = ctx.program.evaluate_(
            {name: given[name] for name in ctx.parameters}, {name: given[name] for name in ctx.data}, seeds
        )
        return (None, None, None, *(
            _core.share(found[name], "torch") if needed and name in found else None
            for name, needed in zip(names, ctx.needs_input_grad[3:])
        ))  # fmt: skip


def evaluate(program, parameters, data):
    """The outputs by name, in autograd."""
    trained = {name for name, _, _, is_trainable in program.parameters if is_trainable} | set(program.gradients_of)
    for name, value in {**parameters, **data}.items():
        if isinstance(value, torch.Tensor) and value.requires_grad and name not in trained:
            reason = "is frozen" if name in parameters else "is data; name it in compile(gradients_of=...)"
            raise ValueError(f"'{name}' requires a gradient, but {reason}, or detach() it")
    tensors = [_core.share(each, "torch") if not isinstance(each, torch.Tensor) else each for each in (*parameters.values(), *data.values())]
    results = _Call.apply(program, list(parameters), list(data), *tensors)
    return dict(zip(program.outputs, results))
