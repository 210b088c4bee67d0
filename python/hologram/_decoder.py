# SPDX-License-Identifier: Apache-2.0
"""Decoders of transformers as graphs: one forward for prompts and steps, whose past is passed in and out.

No architecture is named here: a run of the module shows what its cache holds, and forward's signature its inputs.
"""

import copy
import inspect
import re
from typing import NamedTuple

from ._errors import UnsupportedError


class Past(NamedTuple):
    """A tensor of a cache layer that grows by one position per token."""

    layer: int
    name: str  # in the file: past_key_values.<layer>.<name>
    attribute: str  # of the layer
    rank: int  # 4: [batch, heads, past, dim]; 3: [batch, past, dim]
    heads: int
    dim: int

    @property
    def key(self):
        return f"{self.layer}.{self.name}"


def decoder_of(torch, model):
    """The module that is exported."""
    accepted = inspect.signature(model.forward).parameters
    masked, placed = "attention_mask" in accepted, "position_ids" in accepted
    cache, pasts, reason = _find_pasts(torch, model, accepted)
    keeps = {name: 1 for name in ("logits_to_keep", "num_logits_to_keep") if name in accepted}

    def call(input_ids, attention_mask, position_ids, past=None):
        given = {"input_ids": input_ids, **(without_cache(model) if past is None else {"use_cache": True})}
        if masked:
            given["attention_mask"] = attention_mask
        if placed:
            given["position_ids"] = position_ids
        if past is not None:
            given["past_key_values"] = _filled(torch, cache, pasts, past)
        result = model(**given, **keeps, return_dict=True)
        outputs = {"logits": result.logits[:, -1:]}
        for each in pasts if past is not None else ():
            tensor = getattr(given["past_key_values"].layers[each.layer], each.attribute)
            outputs[f"present.{each.key}"] = tensor if each.rank == 4 else tensor.unsqueeze(1)
        return outputs

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

    class WithPast(Decoder):
        def forward(self, input_ids, attention_mask, position_ids, past):
            return call(input_ids, attention_mask, position_ids, past)

    class WithoutPast(Decoder):
        def forward(self, input_ids, attention_mask, position_ids):
            return call(input_ids, attention_mask, position_ids)

    class Unmasked(Decoder):
        def forward(self, input_ids):
            return call(input_ids, None, None)

    made = WithPast() if pasts and masked else WithoutPast() if masked else Unmasked()
    made.pasts = pasts if masked else []
    made.is_masked = masked
    made.without_past = "" if made.pasts else reason or "its forward takes no attention_mask"
    return made.eval()


def without_cache(model):
    """Arguments of a forward that keeps no cache."""
    parameters = inspect.signature(model.forward).parameters
    accepts = "use_cache" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return {"use_cache": False} if accepts else {}


# -- The past --------------------------------------------------------------------------------------


def _new_cache(model):
    """A cache whose attention layers keep every position; masks, not caches, make windows slide."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache(config=model.config)
    for i, layer in enumerate(cache.layers):
        if type(layer).__mro__[1] is DynamicLayer and getattr(layer, "is_sliding", False):
            cache.layers[i] = DynamicLayer()
    return cache


def _find_pasts(torch, model, accepted):
    """(an empty cache, its pasts, why the model has no past)."""
    if "past_key_values" not in accepted:
        return None, [], "its forward takes no past_key_values"
    before, after = {}, {}
    try:
        for shapes, time in ((before, 3), (after, 5)):
            cache = _new_cache(model)
            ids = torch.ones(2, time, dtype=torch.long)
            given = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in accepted else {}
            with torch.no_grad():
                result = model(input_ids=ids, past_key_values=cache, use_cache=True, return_dict=True, **given)
            if getattr(result, "past_key_values", None) is not cache:
                return None, [], "it returns a cache of its own kind"
            for i, layer in enumerate(cache.layers):
                for name, value in vars(layer).items():
                    for path, tensor in _tensors_in(torch, name, value):
                        shapes[i, path] = tuple(tensor.shape)
    except Exception as error:  # a module may fail in any way here; then forward runs without a cache
        return None, [], f"its cache cannot be observed ({type(error).__name__}: {error})"
    pasts = []
    for (layer, attribute), shape in after.items():
        old = before.get((layer, attribute))
        grown = None if old is None or len(old) != len(shape) else [d for d, (a, b) in enumerate(zip(old, shape)) if a != b]
        if grown != [len(shape) - 2] or len(shape) not in (3, 4) or shape[-2] != 5 or shape[0] != 2:
            return None, [], f"layer {layer} keeps the state {attribute} of constant size"
        name = attribute.removesuffix("s") if attribute in ("keys", "values") else attribute
        pasts.append(Past(layer, name, attribute, len(shape), shape[1] if len(shape) == 4 else 1, shape[-1]))
    if not pasts:
        return None, [], "its cache stays empty"
    return _new_cache(model), pasts, ""


def _tensors_in(torch, name, value):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _tensors_in(torch, f"{name}[{key!r}]", each)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _tensors_in(torch, f"{name}[{i}]", each)


class _GivenLength:
    """A layer whose length is a size of its keys, even while a program is exported."""

    def get_seq_length(self):
        return self.keys.shape[-2]

    def lazy_initialization(self, *args, **kwargs):
        pass


def _filled(torch, cache, pasts, past):
    """The cache with these tensors."""
    filled = copy.copy(cache)
    filled.layers, filled.layer_class_to_replicate = list(cache.layers), None
    for each in pasts:
        while len(filled.layers) <= each.layer:
            filled.layers.append(cache.layer_class_to_replicate())
        layer = filled.layers[each.layer]
        if not isinstance(layer, _GivenLength):
            kind = type("GivenLayer", (_GivenLength, type(layer)), {})
            filled.layers[each.layer] = given = kind.__new__(kind)
            vars(given).update(vars(layer))
            layer = given
        tensor = past[each.key.replace(".", "_")]
        setattr(layer, each.attribute, tensor if each.rank == 4 else tensor.squeeze(1))
        layer.dtype, layer.device, layer.is_initialized = tensor.dtype, tensor.device, True
    return filled


# -- The program -----------------------------------------------------------------------------------

_BATCH, _TIME, _PAST = 3, 11, 17  # of the example; models rarely have these sizes


def export(torch, decoder, max_context=None):
    """(a program, options for hg-convert, pairs of sizes that the program assumes to differ)."""
    args, shapes = _example(torch, decoder)
    try:
        program = torch.export.export(
            decoder, args, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True
        )
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UnsupportedError(f"torch.export cannot capture the model: {' '.join(lines[:3])}") from error
    unequal = _drop_inequalities(torch, program)
    program._example_inputs = None
    words, names = _input_words(torch, program, decoder)
    ranges = program._range_constraints
    for symbol in list(ranges):
        is_all = max_context is not None and names.get(symbol) == ("past + time" if decoder.pasts else "time")
        ranges[symbol] = type(ranges[symbol])(0, max_context if is_all else ranges[symbol].upper)
    pairs = [(_text(torch, a, names), _text(torch, b, names)) for a, b in unequal]
    return program, words, pairs


def _example(torch, decoder):
    auto = torch.export.Dim.DYNAMIC
    past = _PAST if decoder.pasts else 0
    ids = torch.ones(_BATCH, _TIME, dtype=torch.long)
    args, shapes = [ids], [{0: auto, 1: auto}]
    if decoder.is_masked:
        args.append(torch.ones(_BATCH, past + _TIME, dtype=torch.long))
        args.append(torch.arange(past, past + _TIME).expand(_BATCH, _TIME).clone())
        shapes += [{0: auto, 1: torch.export.Dim.AUTO}, {0: auto, 1: auto}]
    if decoder.pasts:
        args.append({each.key.replace(".", "_"): torch.zeros(_BATCH, each.heads, past, each.dim) for each in decoder.pasts})
        shapes.append({name: {0: auto, 2: auto} for name in args[-1]})
    return tuple(args), tuple(shapes)


def _drop_inequalities(torch, program):
    """Removes the assertions `a != b`: torch.export compares strides with them. Returns the pairs, whose equal sizes the
    check of the conversion runs."""
    import sympy

    pairs, graph = [], program.graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not torch.ops.aten._assert_scalar.default:
            continue
        value = getattr(node.args[0], "meta", {}).get("val")
        expression = value.node.expr if isinstance(value, torch.SymBool) else None
        if isinstance(expression, sympy.Ne):
            pairs.append(expression.args)
            graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return pairs


def _input_words(torch, program, decoder):
    """Options that give inputs and sizes the names that generators expect."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    names, words = {}, []

    def name_size(size, name):
        if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
            names.setdefault(size.node.expr, name)

    inputs = [nodes[name] for name in program.graph_signature.user_inputs]
    ids, pasts = inputs[0].meta["val"], inputs[3:]
    name_size(ids.shape[0], "batch")
    name_size(ids.shape[1], "time")
    if pasts:
        name_size(pasts[0].meta["val"].shape[2], "past")
    for node in inputs[3:]:
        name_size(node.meta["val"].shape[0], "batch")
        name_size(node.meta["val"].shape[2], "past")
    for node in inputs[1:3]:
        name_size(node.meta["val"].shape[0], "batch")
    if len(inputs) > 1:
        name_size(inputs[1].meta["val"].shape[1], "past + time" if pasts else "time")
        name_size(inputs[2].meta["val"].shape[1], "time")
    for i, node in enumerate(inputs):
        value = node.meta["val"]
        wanted = {0: "batch", 1: "time"} if i < 3 else {0: "batch", 2: "past"}
        for d in wanted:
            if not isinstance(value.shape[d], torch.SymInt):
                raise UnsupportedError(f"torch.export fixes size {d} of {node.name}, the {wanted[d]}, at {value.shape[d]}")
        dims = ",".join(_text(torch, size, names) for size in value.shape)
        dtype = {torch.int64: "i64", torch.float32: "f32"}[value.dtype]
        past = f"past_key_values.{decoder.pasts[i - 3].key}={node.name}" if i >= 3 else node.name
        words += ["--input", f"{past}:{dtype}[{dims}]"]
    return words, names


def _text(torch, size, names):
    """A size with the names of an export's symbols."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else size
    if isinstance(expression, int):
        return str(expression)
    if expression in names:
        return names[expression]
    text = str(expression)
    for symbol in expression.free_symbols & set(names):
        text = re.sub(rf"\b{symbol}\b", f"({names[symbol]})", text)
    return text
