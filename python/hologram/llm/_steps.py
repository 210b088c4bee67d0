# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers that compute a step differently from a prompt, for torch.export: the program holds both, and the number of new tokens decides.

No architecture is named here: a run of the module shows which layers change its states, and which sizes of their tensors count tokens.
"""

import copy
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest import mock

from .._errors import UnsupportedError
from ._past import set_tensor_at, tensor_at, tensors_in

_PAST, _TIME = 17, 11  # of the run; modules rarely have these sizes


class Layer(NamedTuple):
    """An innermost module that changes states."""

    module: object
    places: list  # of the states
    results: list  # of each flattened result, the dims that count new tokens


def layers_of(torch, model, found):
    """The Layers of a decoder that continues its cache."""
    places, layers = [each.place for each in found.pasts if each.grows < 0], []
    if any(place[0] != "cache" for place in places):
        raise UnsupportedError("its layers, not its cache, keep states")
    known = set()

    def watch(module):
        calls = []

        def begin(module, args, kwargs):
            cache = _cache_among(torch, (args, kwargs))
            calls.append((cache, None if cache is None else [tensor_at(cache, place).clone() for place in places]))

        def end(module, args, kwargs, result):
            cache, before = calls.pop()
            after = [] if cache is None else [tensor_at(cache, place) for place in places]
            own = [place for place, old, new in zip(places, before or (), after) if place not in known and not torch.equal(old, new)]
            if own:
                known.update(own)
                layers.append(Layer(module, own, [[d for d, size in enumerate(each.shape) if size == _TIME] for each in _leaves(torch, result)[0]]))

        return module.register_forward_pre_hook(begin, with_kwargs=True), module.register_forward_hook(end, with_kwargs=True)

    words = int(model.get_input_embeddings().num_embeddings)
    ids = (torch.arange(2 * (_PAST + _TIME)).view(2, -1) * 7 + 3) % words
    with torch.no_grad():
        cache = getattr(model(input_ids=ids[:, :_PAST], use_cache=True, return_dict=True), found.argument)
        with ExitStack() as stack:
            for module in model.modules():
                for hook in watch(module) if module is not model else ():
                    stack.callback(hook.remove)
            model(input_ids=ids[:, _PAST:], use_cache=True, return_dict=True, **{found.argument: cache})
    if known != set(places) or len({id(each.module) for each in layers}) < len(layers):
        raise UnsupportedError("its states are not each changed by a layer that receives the cache")
    return layers


def _leaves(torch, value):
    return torch.utils._pytree.tree_flatten(value)


def _cache_among(torch, arguments):
    leaves, _ = _leaves(torch, arguments)
    objects = [each for each in leaves if not isinstance(each, torch.Tensor) and type(each).__module__.startswith("transformers.")]
    return next((each for each in objects if any(tensors_in(torch, each))), None)


@contextmanager
def branches(torch, layers, is_step, time):
    """A context in which the layers choose a step's computation where ``is_step``, a tensor, is true, and else that of a prompt of ``time`` tokens."""
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(mock.patch.object(layer.module, "forward", _forward_of(torch, layer, layer.module.forward, is_step, time)))
        yield


def _forward_of(torch, layer, own, is_step, time):
    is_inside = False

    def first(tensor):
        for d, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt) and size.node.expr == time.node.expr:
                tensor = tensor.narrow(d, 0, 1)
        return tensor

    def forward(*args, **kwargs):
        nonlocal is_inside
        if is_inside:
            return own(*args, **kwargs)
        leaves, spec = _leaves(torch, (args, kwargs))
        cache = _cache_among(torch, (args, kwargs))
        at = [i for i, each in enumerate(leaves) if isinstance(each, torch.Tensor)]
        named = {**dict(layer.module.named_parameters()), **dict(layer.module.named_buffers())}
        operands = [*(leaves[i] for i in at), *(tensor_at(cache, place) for place in layer.places), *named.values()]
        specs = []

        def compute(is_one, *given):
            nonlocal is_inside
            ends = len(at) + len(layer.places)
            tensors, states, weights = given[: len(at)], given[len(at) : ends], given[ends:]
            kept = {id(tensor): tensor for _, tensor in tensors_in(torch, cache)}
            kept |= {id(tensor_at(cache, place)): state.clone() for place, state in zip(layer.places, states)}
            inner = copy.deepcopy(cache, kept)
            read = [inner if each is cache else each for each in leaves]
            for i, tensor in zip(at, tensors):
                read[i] = first(tensor) if is_one else tensor
            args, kwargs = torch.utils._pytree.tree_unflatten(read, spec)
            is_inside = True
            try:
                result = torch.func.functional_call(layer.module, dict(zip(named, weights)), args, kwargs)
            finally:
                is_inside = False
            made, made_spec = _leaves(torch, result)
            specs[:] = [made_spec]
            for i, dims in enumerate(layer.results) if is_one else ():
                for d in dims:
                    made[i] = made[i].expand([time if k == d else -1 for k in range(made[i].dim())])
            return (*(each.clone() for each in made), *(tensor_at(inner, place).clone() for place in layer.places))

        made = torch.ops.higher_order.cond(is_step, lambda *given: compute(True, *given), lambda *given: compute(False, *given), tuple(operands))
        for place, state in zip(layer.places, made[len(layer.results) :]):
            set_tensor_at(cache, place, state)
        return torch.utils._pytree.tree_unflatten(list(made[: len(layer.results)]), specs[0])

    return forward
