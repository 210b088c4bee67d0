# SPDX-License-Identifier: Apache-2.0
"""Parts of language models as programs of torch.export, or of torch.jit.trace, and their options for hg-convert."""

import math
import operator
import re
from contextlib import nullcontext
from functools import partial
from unittest import mock

from .._errors import UnsupportedError, one_line
from ._expert_loops import every_expert, kept_types
from ._masks import broadcast_masks
from ._sizes import divided_remainders, divided_sizes, never_above, open_integers
from ._value_branches import as_in_example


def export(torch, part, max_context=None):
    """(a program, options for hg-convert, pairs of sizes that the program assumes to differ, the largest sizes by their names)."""
    auto = torch.export.Dim
    args = ({each.name: each.example for each in part.inputs},)
    kinds = {"past + time": auto.AUTO, "past + 1": auto.AUTO, "samples": auto.AUTO}
    shapes = ({each.name: {d: kinds.get(size, auto.DYNAMIC) for d, size in each.sizes.items()} for each in part.inputs},)
    try:
        program = _exported(torch, part, args, shapes)
    except UnsupportedError:
        raise
    except Exception as error:
        if any(text in str(error) for text in _DEPENDS):
            raise UnsupportedError("torch.export cannot capture the model: its Python code depends on values of tensors") from error
        if fixed := re.findall(r"inferred a static shape of (\d+) for dimension inputs\['given'\]\['([\w.]+)'\]\.shape\[(\d+)\]", str(error)):
            dims = ", ".join(f"dim {d} of {name} at {size}" for size, name, d in fixed)
            raise UnsupportedError(f"torch.export cannot capture the model: its Python code fixes {dims}") from error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UnsupportedError(f"torch.export cannot capture the model: {' '.join(lines[:3])}") from error
    if not any(each.sizes for each in part.inputs) and _has_open_outputs(torch, program):
        raise UnsupportedError("torch.export cannot capture the model: sizes of its outputs depend on values of tensors")
    unequal = []
    for module in [each for each in program.graph_module.modules() if isinstance(each, torch.fx.GraphModule)]:
        unequal += _drop_inequalities(torch, module)
        _write_sums(torch, module.graph)
        _round_whole_numbers(torch, module.graph)
        module.graph.eliminate_dead_code()
        module.recompile()
    program._example_inputs = None
    words, names = _input_words(torch, program, part)
    everything = next((size for each in part.inputs if each.name == "attention_mask" for size in each.sizes.values() if size != "batch"), "time")
    ranges = program._range_constraints
    for symbol in list(ranges):
        is_all = max_context is not None and names.get(symbol) == everything
        ranges[symbol] = type(ranges[symbol])(0, max_context if is_all else ranges[symbol].upper)
    limits = {names[symbol]: int(each.upper) for symbol, each in ranges.items() if symbol in names and each.upper.is_Integer and each.upper < 2**31}
    pairs = [(_text(torch, a, names), _text(torch, b, names)) for a, b in unequal]
    return program, words, pairs, limits


# What torch.export says of Python code that depends on values of tensors.
_DEPENDS = ("data-dependent", "unbacked")


def _exported(torch, part, args, shapes):
    def once():
        return torch.export.export(part, args, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=True)

    # all() is the same, and hg-convert reads it.
    with kept_types(torch), broadcast_masks(torch), divided_sizes(torch), divided_remainders(torch), mock.patch.object(torch.Tensor, "_is_all_true", torch.Tensor.all):
        try:
            return once()
        except Exception as error:
            is_fixed, depends = "inferred a static shape" in str(error), any(text in str(error) for text in _DEPENDS)
            if not is_fixed and not depends:
                raise
        if is_fixed:
            with open_integers(torch, part):
                return once()
        part.context = partial(every_expert, torch)  # for a loop over the experts that tokens chose
        try:
            return once()
        except Exception as error:
            if not any(text in str(error) for text in _DEPENDS):
                raise
        part.context = nullcontext
        part.context = as_in_example(torch, part, args)
        return once()


def _has_open_outputs(torch, program):
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    made = [each.meta["val"] for each in output.args[0] if hasattr(each, "meta")]
    return any(not isinstance(size, int) for each in made if isinstance(each, torch.Tensor) for size in each.shape)


def trace(torch, part, path):
    """Writes a program of fixed sizes, whose Python code may read values of tensors. Returns options for hg-convert."""
    import warnings

    class Traced(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = part

        def forward(self, *tensors):
            return self.part({each.name: tensor for each, tensor in zip(part.inputs, tensors)})

    part.context = nullcontext
    draws = torch.Generator().manual_seed(0)
    examples = tuple(torch.randn(each.example.shape, generator=draws) for each in part.inputs)
    try:
        with torch.no_grad(), warnings.catch_warnings(), mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", partial(_attention, torch)):
            warnings.simplefilter("ignore")  # of the values that become constants; the check runs other ones
            program = torch.jit.trace(Traced().eval(), examples, check_trace=False, strict=False)
            torch.jit.save(program, path)
    except Exception as error:
        raise UnsupportedError(f"neither torch.export nor torch.jit.trace can capture the model: {one_line(error)}") from error
    return [word for each in part.inputs for word in ("--input", f"{each.name}=f32[{','.join(map(str, each.example.shape))}]")]


def _attention(torch, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """scaled_dot_product_attention of older operators: libtorch 1.13 reads what jit.trace writes."""
    if enable_gqa:
        k, v = (each.repeat_interleave(q.shape[-3] // each.shape[-3], -3) for each in (k, v))
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores.softmax(-1) @ v


def _drop_inequalities(torch, module):
    """Removes the assertions `a != b`, with which torch.export compares strides, and `a < b` of sizes if a never
    exceeds b, which tests of padding produce. Returns the pairs, whose equal sizes the check of the conversion runs."""
    import sympy

    pairs, graph = [], module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not torch.ops.aten._assert_scalar.default:
            continue
        value = getattr(node.args[0], "meta", {}).get("val")
        expression = value.node.expr if isinstance(value, torch.SymBool) else None
        if isinstance(expression, sympy.Ne) or isinstance(expression, (sympy.StrictLessThan, sympy.StrictGreaterThan)) and never_above(expression.lts - expression.gts):
            pairs.append(expression.args)
            graph.erase_node(node)
    return pairs


def _write_sums(torch, graph):
    """Replaces torch.sym_sum, which torch.export.save cannot write, by additions."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not torch.sym_sum:
            continue
        terms = list(node.args[0] if len(node.args) == 1 else node.args)
        values = [getattr(each, "meta", {}).get("val", each) for each in terms]
        with graph.inserting_before(node):
            total, value = terms[0], values[0]
            for term, more in zip(terms[1:], values[1:]):
                total, value = graph.call_function(operator.add, (total, term)), value + more
                total.meta["val"] = value
        node.replace_all_uses_with(total)
        graph.erase_node(node)


def _round_whole_numbers(torch, graph):
    """Replaces math.ceil(1.0 * n), which torch.export.save cannot write, by n."""
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in (math.ceil, math.floor, round, int):
            continue
        product = node.args[0]
        factors = product.args if getattr(product, "target", None) is operator.mul else ()
        sizes = [each for each in factors if each != 1.0]
        sizes = [each.args[0] if getattr(each, "target", None) is torch.sym_float else each for each in sizes]
        if len(factors) == 2 and len(sizes) == 1 and isinstance(getattr(sizes[0], "meta", {}).get("val"), torch.SymInt):
            node.replace_all_uses_with(sizes[0])
            graph.erase_node(node)


def _input_words(torch, program, part):
    """Options that give inputs and sizes the names that generators expect."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    nodes = [nodes[name] for name in program.graph_signature.user_inputs]
    names, words = {}, []
    # Names of symbols first; `past + time` may be a symbol too.
    for is_symbol in (True, False):
        for node, given in zip(nodes, part.inputs, strict=True):
            for d, name in given.sizes.items():
                size = node.meta["val"].shape[d]
                if not isinstance(size, torch.SymInt):
                    raise UnsupportedError(f"torch.export fixes size {d} of {given.name}, {name}, at {size}")
                if name.isidentifier() == is_symbol and size.node.expr.is_Symbol:
                    names.setdefault(size.node.expr, name)
    for node, given in zip(nodes, part.inputs):
        value = node.meta["val"]
        dims = ",".join(_text(torch, size, names) for size in value.shape)
        dtype = {torch.int64: "i64", torch.float32: "f32"}[value.dtype]
        words += ["--input", f"{given.name}={node.name}:{dtype}[{dims}]"]
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
