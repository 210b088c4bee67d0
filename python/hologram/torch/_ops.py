# SPDX-License-Identifier: Apache-2.0
"""Single ops in torch's autograd: their gradients are lazy expressions, whose plans are kept."""

import torch

from .. import _core
from ..ops import _executor
from ._backward import kept, once_differentiable


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, inputs, attributes, places, *tensors):
        ctx.call = (name, inputs, attributes, places)
        ctx.save_for_backward(*tensors)
        values = list(inputs)
        for place, tensor in zip(places, tensors):
            values[place] = tensor.detach()
        results = _core.eager_call(_executor(), name, values, attributes, None)
        ctx.mark_non_differentiable(
            *(r for r in (results if isinstance(results, tuple) else (results,)) if not r.is_floating_point())
        )
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        name, inputs, attributes, places = ctx.call
        values = list(inputs)
        leaves = []
        for place, tensor in zip(places, ctx.saved_tensors):
            leaf = _core.Var(tensor)
            leaves.append(leaf)
            values[place] = leaf
        results = _core.lazy_call(name, values, attributes)
        results = results if isinstance(results, tuple) else (results,)
        pairs = [(y, dy) for y, dy in zip(results, gradients) if dy is not None and dy.is_floating_point()]
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[4:]) if needed]
        found = _core.vjp([y for y, _ in pairs], [leaves[i] for i in wanted], [_core.Var(dy) for _, dy in pairs])
        found = dict(zip(wanted, (_core.share(v, "torch") for v in _core.evaluate(found))))
        return (None, None, None, None, *(found.get(i) for i in range(len(places))))


def call_with_gradient(name, inputs, attributes, out):
    if out is not None:
        raise ValueError(f"{name}: out= takes no part in autograd; use torch.no_grad()")
    places = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    rest = [None if i in places else kept(value) for i, value in enumerate(inputs)]
    return _Call.apply(name, rest, attributes, places, *(inputs[i] for i in places))
