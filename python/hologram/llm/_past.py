# SPDX-License-Identifier: Apache-2.0
"""What modules of transformers keep between runs: caches that grow, and states of recurrent layers.

No architecture is named here: runs of the module show which tensors it keeps and where.
"""

import copy
from typing import NamedTuple

from .._errors import one_line


class Past(NamedTuple):
    """A tensor that the module keeps."""

    key: str  # in the file: past_key_values.<key>
    place: tuple  # where it is: "cache" or "module", then attributes, keys and indices
    shape: tuple  # [batch, ...]
    grows: int  # the dim with one position per token; -1: none
    initial: object  # before the first token: a tensor without the batch; None: zeros

    def file_shape(self, batch, past):
        """Values that grow have the rank 4 in a file."""
        sizes = list(self.shape)
        sizes[0] = batch
        if self.grows >= 0:
            sizes[self.grows] = past
            if len(sizes) == 3:
                sizes.insert(1, 1)
        return sizes

    def from_file(self, tensor):
        return tensor.squeeze(1) if self.grows >= 0 and len(self.shape) == 3 else tensor

    def to_file(self, tensor):
        return tensor.unsqueeze(1) if self.grows >= 0 and len(self.shape) == 3 else tensor


class Pasts(NamedTuple):
    argument: str  # of forward
    kept: object  # the cache after a run
    tensors: dict  # places and tensors in `kept` and in the module
    pasts: list

    @property
    def has_states(self):
        return any(each.grows < 0 for each in self.pasts)


def new_cache(model):
    """A cache whose attention layers keep every position; masks, not caches, make windows slide."""
    from transformers import cache_utils as kinds

    cache = kinds.DynamicCache(config=model.config)
    both = getattr(kinds, "LinearAttentionAndSlidingWindowAttentionLayer", ())
    for i, layer in enumerate(cache.layers):
        if both and isinstance(layer, both):
            cache.layers[i] = kinds.LinearAttentionAndFullAttentionLayer(number_of_states=layer.number_of_states)
        elif type(layer).__mro__[1] is kinds.DynamicLayer and getattr(layer, "is_sliding", False):
            cache.layers[i] = kinds.DynamicLayer()
    return cache


def find_pasts(torch, model, accepted):
    """(Pasts or None, why the model has none)."""
    # transformers 5.24 renamed past_key_values and cache_params to `cache`.
    argument = next((name for name in ("past_key_values", "cache_params", "cache", "state") if name in accepted), None)
    if argument is None:
        return None, "its forward takes no cache and no past_key_values"
    runs, initial = [], {}
    before_all = _module_tensors(torch, model)
    try:
        for time in (3, 5):
            ids = torch.ones(2, time, dtype=torch.long)
            given = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in accepted else {}
            if argument != "state":
                given[argument] = new_cache(model)
            try:
                kept, initial = _run(torch, model, argument, {"input_ids": ids, **given})
            except AttributeError:  # the module needs its own kind
                kept = None
            if kept is None and argument in given:
                del given[argument]
                kept, initial = _run(torch, model, argument, {"input_ids": ids, **given})
            if kept is None:
                return None, "it returns no cache"
            found = {("cache", *place): tensor for place, tensor in tensors_in(torch, kept)}
            own = _module_tensors(torch, model)
            found |= {place: tensor for place, tensor in own.items() if before_all.get(place) is not tensor}
            runs.append((kept, found))
    except Exception as error:  # a module may fail in any way here; then forward runs without a cache
        return None, f"its cache cannot be observed ({one_line(error)})"
    finally:
        for place in _module_tensors(torch, model):
            set_tensor_at(model, place, before_all.get(place))
    (_, before), (kept, after) = runs
    pasts = []
    for place, tensor in after.items():
        shape, old = tuple(tensor.shape), tuple(before[place].shape) if place in before else None
        name = _name_of(place)
        grown = None if old is None or len(old) != len(shape) else [d for d, (a, b) in enumerate(zip(old, shape)) if a != b]
        grows = len(shape) - 2
        if place[0] == "module" and grown == [] and shape[:1] != (2,) and torch.equal(before[place], tensor):
            continue  # a constant that it makes when it first runs
        if grown == [] and len(shape) > 1 and shape[0] == 2 and tensor.is_floating_point():
            first = initial.get(place)
            first = first[0].clone() if first is not None and bool(first.any()) else None
            pasts.append(Past(name, place, shape, -1, first))
        elif grown == [grows] and len(shape) in (3, 4) and shape[grows] == 5 and shape[0] == 2:
            pasts.append(Past(name, place, shape, grows, None))
        elif shape not in ((), (1,)):
            return None, f"it keeps {name}, whose shape {list(shape)} is no state of a batch"
    if not pasts:
        return None, "its cache stays empty"
    return Pasts(argument, kept, after, pasts), ""


def _run(torch, model, argument, given):
    """(what the module keeps, the states that its layers receive first)."""
    received = []

    def look(module, args, kwargs):
        if not received and isinstance(kwargs.get("state"), (list, tuple)):
            received.append([each.clone() for each in kwargs["state"]])

    hooks = [each.register_forward_pre_hook(look, with_kwargs=True) for each in model.modules()] if argument == "state" else []
    try:
        with torch.no_grad():
            result = model(**given, use_cache=True, return_dict=True)
    finally:
        for hook in hooks:
            hook.remove()
    first = {("cache", ("item", i)): tensor for i, tensor in enumerate(received[0])} if received else {}
    kept = getattr(result, argument, None)
    if kept is None:  # a module may only change the cache, or its own tensors
        kept = given.get(argument)
    return (kept if argument not in given or kept is given[argument] else None), first


def _name_of(place):
    names = [str(step[1]) for step in place[1:]]
    if names[0] == "layers":
        names = names[1:]
    short = {"keys": "key", "values": "value"}
    return ".".join(short.get(name, name) for name in names)


# -- Places ----------------------------------------------------------------------------------------


def tensors_in(torch, value, place=()):
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from tensors_in(torch, each, (*place, ("item", key)))
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from tensors_in(torch, each, (*place, ("item", i)))
    elif type(value).__module__.startswith("transformers.") and not type(value).__name__.endswith("Config"):
        for name, each in vars(value).items():
            yield from tensors_in(torch, each, (*place, ("attribute", name)))


def _module_tensors(torch, model):
    """Tensors that are attributes of modules, but neither parameters nor buffers."""
    return {
        ("module", ("module", path), ("attribute", name)): value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    }


def _step(value, step):
    kind, name = step
    return value.get_submodule(name) if kind == "module" else value[name] if kind == "item" else getattr(value, name)


def tensor_at(root, place):
    """What a cache or a module has at a place."""
    for step in place[1:]:
        root = _step(root, step)
    return root


def set_tensor_at(root, place, value):
    """Replaces what a cache or a module has at a place."""
    owner, (kind, name) = tensor_at(root, place[:-1]), place[-1]
    if kind == "item":
        owner[name] = value
    else:
        setattr(owner, name, value)


class _GivenLength:
    """A layer whose length is a size of its keys, even while a program is exported."""

    def get_seq_length(self):
        return self.keys.shape[-2]


def given_layer(keys, values):
    """A layer of a cache with these keys and values."""
    from transformers.cache_utils import DynamicLayer

    layer = DynamicLayer()
    layer.keys, layer.values, layer.dtype, layer.device, layer.is_initialized = keys, values, keys.dtype, keys.device, True
    return _with_given_length(layer)


def _with_given_length(layer):
    kind = type("GivenLayer", (_GivenLength, type(layer)), {"__module__": type(layer).__module__})
    given = kind.__new__(kind)
    vars(given).update(vars(layer))
    return given


def filled(torch, found, model, given):
    """The cache with these tensors, which are keyed like the pasts. Sets the module's own."""
    from transformers.cache_utils import DynamicLayer

    # Other tensors, such as a count of tokens, are constants: torch.export cannot capture their deepcopy.
    memo = {id(tensor): tensor.clone() for place, tensor in found.tensors.items() if place[0] == "cache"}
    for each in found.pasts:
        tensor = each.from_file(given[each.key])
        if each.grows < 0:
            tensor = tensor.clone()  # modules change states in place
        if each.place[0] == "module":
            set_tensor_at(model, each.place, tensor)
        else:
            memo[id(found.tensors[each.place])] = tensor
    cache = copy.deepcopy(found.kept, memo)
    for i, layer in enumerate(getattr(cache, "layers", ())):
        if isinstance(layer, DynamicLayer) and isinstance(layer.keys, torch.Tensor):
            cache.layers[i] = _with_given_length(layer)
    return cache


def kept_by(found, model, cache):
    """The tensors after a run, as in the file."""
    outputs = {}
    for each in found.pasts:
        outputs[each.key] = each.to_file(tensor_at(cache if each.place[0] == "cache" else model, each.place))
        if each.place[0] == "module":
            set_tensor_at(model, each.place, None)
    return outputs
