# SPDX-License-Identifier: Apache-2.0
"""Compares quantized modules with their models from level to level.

Where a number is half way between two levels, rounding errors decide its level, and later results differ by far more than
rounding errors. Therefore the module continues from the model's levels. Each of them must be a level that the module itself
could choose within the tolerance, and the outputs must then be equal.
"""

from ._check import compare, is_within, tolerance_of
from ._errors import UnsupportedError
from ._tree import flatten


def _is_quantization(node):
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name.startswith(("quantize_", "fake_quantize_"))


def _interpreter(torch, graph_module, at_level):
    """Runs the module; `at_level(node, x, levels)` returns the levels with which it continues."""

    class Interpreter(torch.fx.Interpreter):
        def run_node(self, node):
            result = super().run_node(node)
            if not _is_quantization(node) or not isinstance(result, torch.Tensor):
                return result
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            return at_level(lambda x: node.target(x, *args[1:], **kwargs), args[0], result)

    return Interpreter(graph_module)


def _with_levels(torch, graph_module):
    """The module with its levels as further outputs."""

    class WithLevels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = graph_module

        def forward(self, *leaves):
            levels = []

            def keep(_quantize, _x, result):
                levels.append(result)
                return result

            result = _interpreter(torch, self.part, keep).run(*leaves)
            return flatten(result, nodes=torch.utils._pytree.SUPPORTED_NODES)[0], levels

    return WithLevels()


def compare_from_levels(torch, program, convert, leaves, names, ours, computed_in):
    """The comparison of each output with that of the module, which continues from the model's levels, and the number of levels
    that differ; None if the module does not quantize or another level differs than rounding explains. `convert` makes a model
    of a module and its arguments."""
    graph_module = program.module()
    if not any(_is_quantization(node) for node in graph_module.graph.nodes):
        return None
    try:
        probe = convert(_with_levels(torch, graph_module), leaves)
    except UnsupportedError:  # a torch that cannot capture the interpreter
        return None
    outputs, given = probe(*[each for each in leaves if isinstance(each, torch.Tensor)])
    if not all(is_within(compare(torch, "", a, b, c)) for a, b, c in zip(outputs, ours, computed_in, strict=True)):
        return None  # the model itself has other levels
    given, differing, wrong = iter(given), 0, False

    def go_on(quantize, x, theirs):
        nonlocal differing, wrong
        mine = next(given)
        different = mine != theirs
        if bool(different.any()):
            step = tolerance_of(str(x.dtype).removeprefix("torch.")) * max(float(x.abs().max()), 1e-3)
            low, high = quantize(x - step), quantize(x + step)
            wrong = wrong or bool(((mine < low) | (mine > high)).any())
            differing += int(different.sum())
        return mine

    with torch.no_grad():
        result = _interpreter(torch, graph_module, go_on).run(*leaves)
    want = flatten(result, nodes=torch.utils._pytree.SUPPORTED_NODES)[0]
    compared = [compare(torch, *each) for each in zip(names, want, ours, computed_in, strict=True)]
    return None if wrong or not all(map(is_within, compared)) else (compared, differing)
