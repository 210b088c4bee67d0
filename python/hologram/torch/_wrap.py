# SPDX-License-Identifier: Apache-2.0
"""A model as a torch.nn.Module; the library runs forward and backward."""

import functools

import torch

from .. import _core
from .._autograd._functions import require_single, untraced
from .._model import Model, require_gradients
from .._tree import leaves_of, unflatten
from ..named import as_model


def run_seeded(session, tensors):
    """The results of a session that draws random numbers; the seed comes from torch's generator (torch.manual_seed)."""
    return session._run_list(tensors, int(torch.empty((), dtype=torch.int64).random_()))


class _Halves:
    """A model in one mode, as a forward and a backward session, with gradients of the given inputs."""

    MOST = 16  # backward sessions for gradients of some outputs alone

    def __init__(self, model, mode, inputs, options):
        parts = _core.split_gradients(model, mode, inputs)
        self.given = model, mode, inputs, options
        # Of each value that the backward session reads: what it is, which of the forward session's inputs, whether for its size.
        self.kept, self.kept_inputs, self.for_size = zip(*parts["kept"]) if parts["kept"] else ((), (), ())
        self.partial = {}
        self.forward = parts["forward"].session_(options)
        self.backward = parts["backward"].session_(options)
        self.states, self.updated, self.trained = parts["states"], parts["updated"], parts["trained"]
        self.inputs, self.outputs, self.moved = parts["inputs"], parts["outputs"], parts["moved"]
        self.notes = parts["notes"]
        self.run = functools.partial(run_seeded, self.forward) if self.forward._draws else self.forward._run_list

    def gradients(self, kept, seeds, forms):
        """Gradients of inputs, then of parameters, from the gradients of outputs. Outputs whose gradient is None are left out, because
        zeros times an infinite derivative are NaN."""
        given = tuple(k for k, each in enumerate(seeds) if each is not None)
        if len(given) < len(seeds):
            if given not in self.partial and len(self.partial) < self.MOST:
                self.partial[given] = self._part(given)
            session, places = self.partial.get(given, (None, ()))
            if session is not None:
                return session._run_list([*(kept[i] for i in places), *(seeds[k] for k in given)])
            seeds = [torch.zeros(shape, dtype=dtype) if each is None else each for each, (shape, dtype) in zip(seeds, forms)]
        return self.backward._run_list([*kept, *seeds])

    def _part(self, given):
        """The backward session for gradients of these outputs alone, and which of the kept values it reads."""
        model, mode, inputs, options = self.given
        parts = _core.split_gradients(model, mode, inputs, [self.outputs[k] for k in given])
        values = [value for value, _, _ in parts["kept"]]
        if not set(values) <= set(self.kept) - {-1}:
            return None, ()
        return parts["backward"].session_(options), [self.kept.index(each) for each in values]

    def all_kept(self, inputs, given):
        """What the backward session reads: inputs of the forward session and the values that it kept."""
        given = iter(given)
        return [next(given) if i < 0 else inputs[i] for i in self.kept_inputs]


NO_SECOND = "gradients of gradients are not supported by wrapped models; the ops of hologram.ops, hologram.nn and kernels have them"


def _seeds(half, gradients):
    return [gradients[i] for i in half.outputs]


def _by_place(half, n_inputs, found, seeded):
    """Gradients for the arguments of the forward session. None if there is none, including arguments that affect no output that is
    ``seeded``: optimizers distinguish that from a zero gradient."""
    out = [None] * (n_inputs + len(half.states))
    found = [each if any(seeded[k] for k in moved) else None for each, moved in zip(found, half.moved)]
    for place, gradient in zip(half.inputs, found):
        out[place] = gradient
    for name, gradient in zip(half.trained, found[len(half.inputs) :]):
        out[n_inputs + half.states.index(name)] = gradient
    return out


def _refuse_forward_mode(*unused):
    raise RuntimeError("forward mode (jvp, jacfwd) is not supported by wrapped models; their ops are there as hologram.ops and hologram.nn")


def _of_samples(function):
    """A function of a batch for torch.func.vmap: applied to each sample."""

    def vmap(info, dims, half, n, *tensors):
        if info.batch_size == 0:
            raise ValueError("a wrapped model under torch.func.vmap needs samples, there are none")
        rows = [
            function.apply(half, n, *(x if d is None else x.select(d, i) for x, d in zip(tensors, dims[2:])))
            for i in range(info.batch_size)
        ]
        return tuple(torch.stack(each) for each in zip(*rows)), (0,) * len(rows[0])

    return staticmethod(vmap)


class _Pullback(torch.autograd.Function):
    """The backward session for its first ``count`` arguments; the others are what those depend on. This class and those below are not
    compiled: if a compiled function calls torch.autograd.grad, dynamo would compile what that calls."""

    @staticmethod
    @torch.compiler.disable
    def forward(half, count, *tensors):
        return tuple(half.backward._run_list(list(tensors[:count])))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *unused):
        raise RuntimeError(NO_SECOND)

    jvp = staticmethod(_refuse_forward_mode)


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, half, counts, sink, *tensors):
        n_outputs, n_inputs = counts
        results = half.run(list(tensors))
        split = n_outputs + len(half.updated)
        sink.extend(results[n_outputs:split])
        ctx.half, ctx.n_inputs = half, n_inputs
        kept = half.all_kept(tensors, results[split:])
        # What is read must be as it was, of which autograd keeps count.
        ctx.save_for_backward(*(None if size else each for each, size in zip(kept, half.for_size)))
        ctx.sizes = {k: each.detach() for k, each in enumerate(kept) if half.for_size[k]}
        outputs = tuple(results[:n_outputs])
        ctx.mark_non_differentiable(*(y for i, y in enumerate(outputs) if i not in half.outputs))
        ctx.set_materialize_grads(False)
        ctx.forms = [(outputs[i].shape, outputs[i].dtype) for i in half.outputs]
        return outputs

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, *gradients):
        require_single(gradients)
        seeds = _seeds(ctx.half, gradients)
        seeded = [each is not None for each in seeds]
        if not any(seeded):
            return (None,) * len(ctx.needs_input_grad)
        kept = [ctx.sizes.get(k, each) for k, each in enumerate(ctx.saved_tensors)]
        with torch.no_grad():
            found = ctx.half.gradients(kept, seeds, ctx.forms)
        if torch.is_grad_enabled():  # also where the seeds need no gradient, as of y.sum(): the inputs may
            found = torch._C._functions.DelayedError(NO_SECOND.encode(), len(found))(*(each.detach().requires_grad_() for each in found))
        needed = ctx.needs_input_grad[3:]
        return (None, None, None, *(g if need else None for g, need in zip(_by_place(ctx.half, ctx.n_inputs, found, seeded), needed)))

    jvp = staticmethod(_refuse_forward_mode)


class _Transformed(torch.autograd.Function):
    """The same for torch.func and torch.jit.trace: everything that the backward session reads is a result."""

    @staticmethod
    def forward(half, n_outputs, *tensors):
        with untraced():
            return tuple(half.run(list(tensors)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.half, n_outputs, *tensors = inputs
        kept = ctx.half.all_kept(tensors, output[n_outputs + len(ctx.half.updated) :])
        ctx.kept, ctx.n_inputs = len(kept), len(tensors) - len(ctx.half.states)
        ctx.save_for_backward(*kept, *tensors)
        ctx.mark_non_differentiable(*(y for i, y in enumerate(output) if i not in ctx.half.outputs))

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, *gradients):
        kept, tensors = ctx.saved_tensors[: ctx.kept], ctx.saved_tensors[ctx.kept :]
        own = [*kept, *_seeds(ctx.half, gradients)]
        found = _Pullback.apply(ctx.half, len(own), *own, *tensors)
        return (None, None, *_by_place(ctx.half, ctx.n_inputs, found, [True] * len(ctx.half.outputs)))

    jvp = staticmethod(_refuse_forward_mode)


_Pullback.vmap, _Transformed.vmap = _of_samples(_Pullback), _of_samples(_Transformed)


class Wrapped(torch.nn.Module):
    """A model whose forward and backward run in Hologram; ``wrap`` creates it.

    Its parameters and buffers keep the model's names. They are torch's and used in place: the next call sees the steps of a
    torch.optim optimizer. ``train()`` and ``eval()`` work as in PyTorch.
    """

    def __init__(self, model, mode=None, **options):
        require_gradients(model)
        super().__init__()
        self._model, self._mode, self._options = model, mode, options
        self._halves, self._names = {}, {}
        trained = set(self._half().trained)
        named = {**{n: (a, True) for n, a in model.parameters_().items()},
                 **{n: (a, False) for n, a in model.buffers_().items() if not n.startswith("train/")}}  # fmt: skip
        seen = {}
        for name, (array, is_parameter) in named.items():
            address = (array.__array_interface__["data"][0], array.shape, is_parameter)
            owner, leaf = self._owner(name)
            if array.size and address in seen:
                value = seen[address]
            else:
                value = _core.copy(array, "torch")
                if is_parameter:
                    value = torch.nn.Parameter(value, requires_grad=name in trained)
                seen[address] = value
            self._names[name] = (owner, leaf)
            if is_parameter:
                owner.register_parameter(leaf, value)
            else:
                owner.register_buffer(leaf, value)
        self._parts = [(name, each) for name, each in self.named_modules() if name]

    def _owner(self, name):
        """The submodule that owns a dotted name; created if missing."""
        *path, leaf = name.split(".")
        module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, torch.nn.Module())
            module = module._modules[part]
        return module, leaf

    def _value(self, name):
        owner, leaf = self._names[name]
        return getattr(owner, leaf)

    def _half(self, inputs=()):
        key = (self._mode or ("training" if self.training else "inference"), *inputs)
        if key not in self._halves:
            self._halves[key] = _Halves(self._model, key[0], list(inputs), self._options)
        return self._halves[key]

    @property
    def notes(self):
        """Warnings: layers that training mode could not change."""
        return list(self._half().notes)

    def model(self):
        """The model with copies of the current parameters and buffers, as a ``hg.Model``; ``save()`` writes it."""
        contents = {name: self._value(name).detach().cpu() for name in self._names}
        given = self._model
        return Model._of(_core.with_states(given, contents), given._tree, given._order)

    @torch.compiler.disable
    def forward(self, *args, **kwargs):
        """The model's outputs for inputs in order or by name, like ``Model``, in autograd."""
        model = self._model
        if self._mode is None:
            for name, each in self._parts:
                if each.training is not self.training:
                    raise RuntimeError(f"'{name}' is in {_mode_of(each)} mode and the model in {_mode_of(self)} mode, which it has as a whole")
        names = [spec.name for spec in model.inputs]
        left = [name for name in names if name not in kwargs]
        leaves = leaves_of(args, left, model._order)
        order = {name: leaf for name, leaf in zip(left, leaves) if leaf is not None}
        order.update(kwargs)
        if set(order) != set(names) or len(leaves) + len(kwargs) != len(names):
            raise TypeError(f"the model takes {', '.join(names)}; {len(leaves) + len(kwargs)} inputs are given")
        inputs = [_tensor(order[name], name) for name in names]
        if torch._C._are_functorch_transforms_active() or torch.jit.is_tracing():
            return self._transformed(inputs)
        wanted = [i for i, each in enumerate(inputs) if each.requires_grad] if torch.is_grad_enabled() else []
        half = self._half(wanted)
        states = [self._value(name) for name in half.states]
        sink = []
        outputs = _Call.apply(half, (len(model.outputs), len(inputs)), sink, *inputs, *states)
        return self._finished(half, outputs, sink)

    def _transformed(self, inputs):
        """forward() with gradients of all float inputs: under torch.func, tensors hide which of them need one; a trace serves all."""
        half = self._half([i for i, each in enumerate(inputs) if each.is_floating_point() or each.is_complex()])
        count = len(self._model.outputs)
        results = _Transformed.apply(half, count, *inputs, *(self._value(name) for name in half.states))
        return self._finished(half, results[:count], results[count : count + len(half.updated)])

    def _finished(self, half, outputs, updated):
        with torch.no_grad():
            for name, value in zip(half.updated, updated):
                self._value(name).copy_(value)
        if self._model._tree is not None:
            return unflatten(self._model._tree, outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def __getstate__(self):
        return {**self.__dict__, "_halves": {}}  # sessions are made anew

    def extra_repr(self):
        """Inputs and outputs, for printing."""
        return repr(self._model)


def _mode_of(module):
    return "training" if module.training else "eval"


def _tensor(value, name):
    if isinstance(value, torch.Tensor):
        return value
    if not _core.is_tensor(value):
        raise TypeError(f"{name} is a {type(value).__name__}, not a tensor")
    return _core.share(value, "torch")


def wrap(model, *, mode=None, **options):
    """Makes a torch.nn.Module from a Model, a path, or a program or block of hg.named; it takes part in autograd.

    Combine it with other layers, train it with torch.optim, save its state_dict. ``train()`` and ``eval()`` switch dropout
    and batch_norm, unless ``mode`` is "as-traced". ``options`` are session options.
    """
    model = as_model(model)
    if mode not in (None, "training", "inference", "as-traced"):
        raise ValueError(f"mode is 'training', 'inference' or 'as-traced', not '{mode}'")
    return Wrapped(model, mode, **options)
