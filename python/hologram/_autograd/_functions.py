# SPDX-License-Identifier: Apache-2.0
"""Functions of tensors that the library computes, in torch's autograd: to any order, in both modes, and under torch.func.

A Program is such a function. It runs at once, and is also an expression of Vars whose derivatives are again expressions. The
derivatives of a Program are therefore Programs.
"""

import contextlib

import numpy as np
import torch
from torch.autograd import forward_ad

from .. import _core
from ._device import DeviceTensor, there


def kept(value):
    """An operand in its current state: torch tracks changes of its own tensors; numpy arrays are copied."""
    return _core.copy(value, "torch") if isinstance(value, np.ndarray) else value


class Program:
    """A function of tensors that returns a tuple of tensors; ``build`` is the same function of Vars."""

    random = ""  # where it draws random numbers: what does

    def build(self, variables):
        raise NotImplementedError

    def run(self, tensors):
        """The results, computed now."""
        found = _core.evaluate(self.build([_core.Var(each) for each in there(tensors)]))
        return tuple(each if type(each) is DeviceTensor else _core.share(each, "torch") for each in found)

    def gradients(self, wanted, seeded, tensors):
        """The gradients that Pullback describes, computed now."""
        return Program.run(Pullback(self, wanted, seeded), tensors)


class Pullback(Program):
    """The gradients of the arguments ``wanted``; the gradients of the results ``seeded`` follow the program's arguments."""

    def __init__(self, of, wanted, seeded):
        self.of, self.wanted, self.seeded = of, wanted, seeded

    def build(self, variables):
        count = len(variables) - len(self.seeded)
        results = self.of.build(variables[:count])
        return _core.vjp([results[k] for k in self.seeded], [variables[i] for i in self.wanted], variables[count:])

    def run(self, tensors):
        return self.of.gradients(self.wanted, self.seeded, tensors)


class Pushforward(Program):
    """How the results ``wanted`` change along directions of the arguments ``moved``; the directions follow the arguments."""

    def __init__(self, of, moved, wanted):
        self.of, self.moved, self.wanted = of, moved, wanted

    def build(self, variables):
        count = len(variables) - len(self.moved)
        results = self.of.build(variables[:count])
        return _core.jvp([results[k] for k in self.wanted], [variables[i] for i in self.moved], variables[count:])


@contextlib.contextmanager
def untraced():
    """Active while a function of autograd runs, which torch.jit.trace records as one node."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


def _run(program, tensors):
    for i, each in enumerate(tensors):
        if each._is_zerotensor():  # a tangent, which may have no memory
            tensors[i] = torch.zeros(each.shape, dtype=each.dtype)
    if torch._C._get_tracing_state() is None:
        return program.run(tensors)
    with untraced():
        return program.run(tensors)


def call(program, tensors):
    """The results of a program, in autograd if that tracks one of the tensors."""
    return followed(program, tensors) if _core.is_followed(tensors) else _run(program, tensors)


def followed(program, tensors):
    """The results of a program in autograd, which tracks one of the tensors."""
    if program.random:
        raise RuntimeError(f"{program.random} draws anew whenever it runs, and a derivative runs it again: use hg.nn.Dropout, "
                           "or torch.no_grad()")  # fmt: skip
    function = _Transformed if torch._C._are_functorch_transforms_active() else _Call
    return function.apply(program, *tensors)


def _has_gradient(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def require_single(gradients):
    """Raises for the gradients of is_grads_batched, which represent several and have no memory."""
    if any(each is not None and torch._C._functorch.is_legacy_batchedtensor(each) for each in gradients):
        raise RuntimeError(
            "several gradients at once (is_grads_batched, or vectorize=True of a jacobian) do not pass through here: "
            "take torch.func.vmap of torch.func.vjp, or one after the other"
        )


def _keep(ctx, inputs, results):
    ctx.program, *tensors = inputs
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.set_materialize_grads(False)
    ctx.count = len(results)
    ctx.differentiable = [k for k, each in enumerate(results) if _has_gradient(each)]
    if len(ctx.differentiable) < len(results):
        ctx.mark_non_differentiable(*(each for each in results if not _has_gradient(each)))


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, program, *tensors):
        results = _run(program, list(tensors))
        _keep(ctx, (program, *tensors), results)
        return results

    @staticmethod
    def backward(ctx, *gradients):
        require_single(gradients)
        out = [None] * len(ctx.needs_input_grad)
        seeded = [k for k in ctx.differentiable if gradients[k] is not None]
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        if seeded:
            tensors = [*ctx.saved_tensors, *(gradients[k] for k in seeded)]
            for i, gradient in zip(wanted, call(Pullback(ctx.program, wanted, seeded), tensors)):
                out[1 + i] = gradient
        return tuple(out)

    @staticmethod
    def jvp(ctx, _, *tangents):
        out = [None] * ctx.count
        moved = [i for i, each in enumerate(tangents) if each is not None]
        tensors = [*ctx.saved_tensors, *(tangents[i] for i in moved)]
        with forward_ad._set_fwd_grad_enabled(True):  # torch has it off here, and would lose tangents of tangents
            tensors = [forward_ad.unpack_dual(each).primal for each in tensors]
            if ctx.differentiable:
                for k, tangent in zip(ctx.differentiable, call(Pushforward(ctx.program, moved, ctx.differentiable), tensors)):
                    out[k] = tangent
        return tuple(out)


class _Transformed(_Call):
    """The same for torch.func; torch calls it more slowly."""

    @staticmethod
    def forward(program, *tensors):
        return _run(program, list(tensors))

    setup_context = staticmethod(_keep)

    @staticmethod
    def vmap(info, dims, program, *tensors):
        samples = [
            call(program, [x if dim is None else x.select(dim, i) for x, dim in zip(tensors, dims[1:])])
            for i in range(info.batch_size)
        ]
        if samples:
            return tuple(torch.stack(each) for each in zip(*samples)), (0,) * len(samples[0])
        # Of no samples: what one of zeros has the form of.
        one = [x if dim is None else x.new_zeros([n for d, n in enumerate(x.shape) if d != dim]) for x, dim in zip(tensors, dims[1:])]
        return tuple(each.new_empty(0, *each.shape) for each in program.run(one)), 0
