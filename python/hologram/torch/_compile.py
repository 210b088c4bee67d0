# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(model, backend="hologram")``: what can be converted runs here, the rest runs eagerly."""

from dataclasses import dataclass, field

import torch

from .._convert import convert
from .._errors import HologramError
from ._wrap import Wrapped

_log = None  # what explain() is listening to


@dataclass
class Explanation:
    """What of a module runs in Hologram: ``graphs``, those ``converted``, and ``fallbacks``, a dict for each graph
    that runs eagerly with its ``reason`` and ``ops``. ``breaks`` are the reasons of graph breaks."""

    graphs: int = 0
    converted: int = 0
    fallbacks: list = field(default_factory=list)
    breaks: list = field(default_factory=list)

    @property
    def unsupported(self):
        """Names of the ops that cannot be converted."""
        return sorted({each["op"] if isinstance(each, dict) else str(each) for f in self.fallbacks for each in f["ops"]})

    def __str__(self):
        lines = [f"{self.graphs} graphs, {self.converted} run in Hologram, {len(self.fallbacks)} eagerly"]
        lines += [f"eager: {each['reason']}" for each in self.fallbacks]
        lines += [f"graph break: {each}" for each in self.breaks]
        return "\n".join(lines)

    __repr__ = __str__


class _Graph:
    """One graph that torch.compile captured: a Wrapped model, or the graph itself."""

    def __init__(self, graph, examples):
        self.graph = graph
        self.tensors = [i for i, each in enumerate(examples) if isinstance(each, torch.Tensor)]
        self.run, self.plain, self.reason, self.ops = None, None, "", []
        try:
            self.run = self._convert(examples)
        except HologramError as error:
            self.reason, self.ops = str(error), list(getattr(error, "ops", []))
        except Exception as error:  # whatever cannot be captured runs as it did
            self.reason = f"{type(error).__name__}: {error}"

    def _convert(self, examples):
        if not self.tensors:
            raise HologramError("the graph takes no tensors")
        others = [each for each in examples if not isinstance(each, torch.Tensor)]
        if any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in others):
            sizes = [int(each) if isinstance(each, torch.SymInt) else each for each in examples]
        else:
            sizes = list(examples)
        given = [_real(each) for each in sizes]
        module = _Given(self.graph, {i: v for i, v in enumerate(given) if i not in self.tensors}, len(given))
        tensors = tuple(given[i] for i in self.tensors)
        model = convert(module, tensors)
        self.plain = model.session()
        return Wrapped(model, "as-traced")

    def __call__(self, *args):
        if self.run is None:
            return self.graph(*args)
        tensors = [args[i] for i in self.tensors]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            out = self.run(*tensors)
        else:
            with torch.no_grad():
                out = self.plain(*tensors)
        return list(out) if isinstance(out, (tuple, list)) else [out]


class _Given(torch.nn.Module):
    """A graph whose arguments that are no tensors have these values."""

    def __init__(self, graph, fixed, count):
        super().__init__()
        self.graph, self.fixed, self.count = graph, fixed, count

    def forward(self, *tensors):
        left = iter(tensors)
        return self.graph(*(self.fixed[i] if i in self.fixed else next(left) for i in range(self.count)))


def _real(value):
    """A tensor with numbers, of a real one or of the shape of one that is traced."""
    if not isinstance(value, torch.Tensor):
        return value
    shape = [int(n) for n in value.shape]
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return value.detach().clone().requires_grad_(False)
    return torch.zeros(shape, dtype=value.dtype)


class _BySize:
    """A graph for each combination of sizes that comes: open sizes are traced anew, up to a number of them."""

    MOST = 16

    def __init__(self, graph, examples):
        self.graph, self.made = graph, {}
        self.first = self._at(examples)

    def _at(self, args):
        key = tuple(tuple(int(n) for n in a.shape) if isinstance(a, torch.Tensor) else a if isinstance(a, (int, float, bool)) else int(a) if isinstance(a, torch.SymInt) else None for a in args)
        found = self.made.get(key)
        if found is None:
            if len(self.made) >= self.MOST:
                return None
            found = self.made[key] = _Graph(self.graph, args)
            _tell(found)
        return found

    def __call__(self, *args):
        found = self._at(args)
        return self.graph(*args) if found is None else found(*args)


def _tell(graph):
    if _log is None:
        return
    _log.graphs += 1
    if graph.run is not None:
        _log.converted += 1
    else:
        _log.fallbacks.append({"reason": graph.reason, "ops": graph.ops})


def backend(graph, example_inputs, **options):
    """What torch.compile calls with each graph that it captures."""
    made = _BySize(graph, example_inputs)

    def run(*args):
        return made(*args)

    return run


def explain(model, *args, **kwargs):
    """Compiles and runs the module with these arguments, and says which graphs run here, and why others do not."""
    global _log
    torch._dynamo.reset()
    _log = Explanation()
    try:
        torch.compile(model, backend=backend)(*args, **kwargs)
        found = _log
    finally:
        _log = None
        torch._dynamo.reset()
    try:
        seen = torch._dynamo.explain(model)(*args, **kwargs)
        found.breaks = [str(each.reason) for each in seen.break_reasons]
    except Exception:  # what dynamo explains of itself is an extra
        pass
    finally:
        torch._dynamo.reset()
    return found


def _register():
    """An installed package is found by torch through its entry point; one that is not names itself."""
    from importlib.metadata import entry_points

    if not any(each.name == "hologram" for each in entry_points(group="torch_dynamo_backends")):
        torch._dynamo.register_backend(backend, name="hologram")


_register()
